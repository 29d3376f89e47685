"""Read what a student handed in, from a folder in which everything may be a trap.

Only regular files are read, and only after their size is known. Nothing that is a link is followed, wherever it leads;
pipes and devices are not even opened.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ampcourse.grading.document.names import shown, size
from ampcourse.grading.model import Submission
from ampcourse.grading.settings import Settings

FILES = 200
"""The most files that are taken beside the notebook."""

_SEEN, _DEPTH, _REMARKS = 5_000, 8, 10
_LEFT_OUT = ("__pycache__", "__MACOSX", "timestamp.txt", "submission_secret.txt", "Thumbs.db", "desktop.ini")
_NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)  # browsers add a suffix when they save
_COPY = re.compile(r"([ _-]*(\(\d+\)|[ _-]\d+|[ _-]copy\d*|[ _-](kopie|copie|final)))*")  # and a number, or a word
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_submission(
    folder: Path, student: str, notebook: str, settings: Settings, others: Sequence[str] = ()
) -> Submission:
    """What a student handed in for one notebook; whatever the folder holds, there is no exception for it.

    Args:
        folder: the student's folder of this assignment.
        student: nbgrader's student id.
        notebook: the notebook's name, without suffix. One of another name is taken if no other could be meant.
        settings: how large files may be.
        others: names of the assignment's other notebooks, which are never taken for this one.
    """
    found = _Found(settings)
    try:
        opened = _open_folder(folder)
    except FileNotFoundError:
        return Submission(student, None)
    except OSError as error:
        link = any(os.path.islink(place) for place in (folder, folder.parent))  # noqa: PTH114 (this one never raises)
        why = "it is a link, and links are not followed" if link else _reason(error)
        return Submission(student, None, refused=f"The student's folder '{shown(folder.name)}' cannot be read: {why}.")
    try:
        found.walk(opened, "", 0)
    finally:
        os.close(opened)
    return _chosen(found, student, notebook, others)


def _open_folder(folder: Path) -> int:
    """The folder, opened; neither it nor the student's folder above it may be a link."""
    above = os.open(folder.parent, _DIRECTORY)
    try:
        return os.open(folder.name, _DIRECTORY, dir_fd=above)
    finally:
        os.close(above)


@dataclass
class _Found:
    """What a walk through the folder finds.

    Attributes:
        notebooks: the bytes of every file that is called a notebook, by path, or why it was not taken.
        files: the other files.
        remarks: what was left out, and why.
    """

    settings: Settings
    notebooks: dict[str, bytes | str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    seen: int = 0
    total: int = 0

    @property
    def _largest(self) -> int:
        return self.settings.notebook_mib * 2**20

    def walk(self, opened: int, above: str, depth: int) -> None:
        """Take what is in an open folder and in those below it, in the order of names."""
        try:
            with os.scandir(opened) as entries:
                names = sorted(self._some(entries), key=lambda name: (not _NOTEBOOK.search(name), name))
        except OSError as error:
            self.remarks.append(f"The folder '{shown(above or '.')}' cannot be read: {_reason(error)}.")
            return
        for name in names:
            if not name.startswith(".") and name not in _LEFT_OUT:
                self._take(opened, name, f"{above}{name}", depth)

    def _some(self, entries: Iterator[os.DirEntry[str]]) -> Iterator[str]:
        for entry in entries:
            self.seen += 1
            if self.seen > _SEEN:
                if self.seen == _SEEN + 1:
                    self.remarks.append(f"There are more than {_SEEN:,} files; the rest was left out.")
                return
            yield entry.name

    def _take(self, opened: int, name: str, path: str, depth: int) -> None:
        called = bool(_NOTEBOOK.search(name))
        try:
            about = os.stat(name, dir_fd=opened, follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                self._below(opened, name, path, depth)
                why = "is a folder, not a file"
                if not called:
                    return
            else:
                why = self._refused(name, about, called)
            if not why:
                content = _content(opened, name, about)
                if called:
                    self.notebooks[path] = content
                else:
                    self.files[path] = content
                    self.total += len(content)
                return
        except OSError as error:
            why = f"cannot be read: {_reason(error)}"
        if called:
            self.notebooks[path] = f"'{shown(path)}' {why}."
        else:
            self.remarks.append(f"'{shown(path)}' was left out: it {why}.")

    def _below(self, opened: int, name: str, path: str, depth: int) -> None:
        if depth >= _DEPTH or not name.isprintable():
            why = "it lies too deep" if depth >= _DEPTH else "its name cannot be shown"
            self.remarks.append(f"The folder '{shown(path)}' was left out: {why}.")
            return
        inner = os.open(name, _DIRECTORY, dir_fd=opened)
        try:
            self.walk(inner, f"{path}/", depth + 1)
        finally:
            os.close(inner)

    def _refused(self, name: str, about: os.stat_result, called: bool) -> str:
        """Why a file is not taken; empty if it is."""
        if stat.S_ISLNK(about.st_mode):
            return "is a link, and links are not followed"
        if not stat.S_ISREG(about.st_mode):
            return "is no regular file"
        if about.st_size > self._largest:
            return f"has {size(about.st_size)}, and at most {size(self._largest)} are taken"
        if called:
            return ""
        if not name.isprintable():
            return "has a name that cannot be shown"
        if len(self.files) >= FILES:
            return f"is more than the {FILES} files that are taken"
        room = self.settings.disk_mib * 2**20 // 2
        return f"and the others are larger than {size(room)} in all" if self.total + about.st_size > room else ""


def _content(opened: int, name: str, about: os.stat_result) -> bytes:
    """The bytes of a regular file, if it still is the one that was looked at."""
    file = os.open(name, _FILE, dir_fd=opened)
    with os.fdopen(file, "rb") as stream:
        now = os.fstat(file)
        if not stat.S_ISREG(now.st_mode) or (now.st_dev, now.st_ino) != (about.st_dev, about.st_ino):
            raise OSError("it was exchanged while it was read")
        return stream.read(about.st_size)


def _chosen(found: _Found, student: str, notebook: str, others: Sequence[str]) -> Submission:
    """The submission, once the notebook among all that were found is settled."""
    remarks = found.remarks
    if len(remarks) > _REMARKS:
        remarks = [*remarks[:_REMARKS], f"{len(remarks) - _REMARKS} more files were left out."]
    ranks: dict[int, list[str]] = {}
    for path in found.notebooks:
        rank = _rank(path, notebook)
        if not any(_rank(path, other) < min(rank, 3) for other in others):
            ranks.setdefault(rank, []).append(path)
    if not ranks:
        return Submission(student, None, found.files, tuple(remarks))
    rank = min(ranks)
    candidates, wanted = ranks[rank], f"{notebook}.ipynb"
    if len(candidates) > 1:
        named = ", ".join(f"'{shown(path)}'" for path in candidates[:5])
        refused = f"It is not clear which notebook is meant: {named}. Hand in one, called '{shown(wanted)}'."
        return Submission(student, None, found.files, tuple(remarks), refused)
    content = found.notebooks[candidates[0]]
    if isinstance(content, str):
        refused = f"{content[:-1]}. Hand in the notebook itself, as a file called '{shown(wanted)}'."
        return Submission(student, None, found.files, tuple(remarks), refused)
    if rank:
        remarks = [f"The notebook is called '{shown(candidates[0])}' instead of '{shown(wanted)}'.", *remarks]
    return Submission(student, content, found.files, tuple(remarks))


def _rank(path: str, notebook: str) -> int:
    """How near a file's path is to a notebook's name: 0 is the very name, 4 a name that has nothing to do with it."""
    folder, _, name = path.rpartition("/")
    stem, wanted = unicodedata.normalize("NFC", _NOTEBOOK.sub("", name)), unicodedata.normalize("NFC", notebook)
    if stem == wanted and name.endswith(".ipynb"):
        return 1 if folder else 0
    stem, wanted = stem.casefold(), wanted.casefold()
    near = stem.startswith(wanted) and _COPY.fullmatch(stem[len(wanted) :])
    return (2 if near else 3) + bool(folder and not near)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).rstrip(".").lower()
