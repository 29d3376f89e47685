"""`ampcourse start`: the lessons copied into a folder of the learner's own, and brought up to date there.

Nothing that a learner may have written is ever overwritten. What was handed out is remembered by checksum in a hidden
file, so that an untouched copy can be told from one with work in it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ampcourse import terminal
from ampcourse.course import Course, CourseError, UserError, load_course
from ampcourse.learner import ledger
from ampcourse.learner.ledger import Entry

NEW, UPDATED, BACK, CURRENT, KEPT, BESIDE = "new", "updated", "put back", "unchanged", "yours", "yours, newer beside"


class StartError(UserError):
    """The folder cannot be used."""


@dataclass(frozen=True)
class Step:
    """What happens to one file: where content is written, if at all, and what to remember of it."""

    name: str
    what: str
    entry: Entry
    target: str | None = None  # a name inside the folder; None where nothing is written
    note: str = ""


@dataclass(frozen=True)
class Started:
    """What `start` did, file by file."""

    folder: Path
    steps: tuple[Step, ...]


def start(folder: Path, course: Course | None = None) -> Started:
    """Copy the lessons into `folder`, or update them there; doing it twice changes nothing.

    Raises:
        StartError: if the folder is a file, cannot be written, or belongs to the course itself.
        CourseError: if the course lacks a notebook that learners should get.
    """
    course = course or load_course()
    folder = Path(folder)
    _usable(folder, course)
    wanted = _handouts(course)
    try:
        known = ledger.read(folder)
        steps = tuple(_step(folder, name, content, known.get(name)) for name, content in wanted.items())
        files = {step.target: wanted[step.name] for step in steps if step.target}
        remembered = known | {step.name: step.entry for step in steps}
        if remembered != known:
            files[ledger.NAME] = ledger.write(remembered)
        _write(folder, files)
    except OSError as error:
        where = Path(error.filename or folder)
        where = where.parent if where.suffix == ".part" else where  # a name of ours means nothing to the user
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise StartError(f"'{where}' cannot be used ({reason}): nothing was changed; choose another folder.") from None
    return Started(folder, steps)


def _usable(folder: Path, course: Course) -> None:
    if os.path.lexists(folder) and not folder.is_dir():
        raise StartError(f"'{folder}' is not a folder: name one that does not exist yet, or one for your lessons.")
    if folder.resolve().is_relative_to(course.root.resolve()):
        raise StartError(f"'{folder}' belongs to the course itself: choose a folder of your own.")


def _handouts(course: Course) -> dict[str, bytes]:
    """What learners get, by name in their folder: every lesson's notebook and the files that lie beside it."""
    found: dict[str, bytes] = {}
    for lesson in course.lessons:
        notebook = course.release(lesson)
        if not notebook.is_file():
            raise CourseError(f"'{notebook}' is missing: in a clone, make it with 'ampcourse release'.")
        for path in sorted(notebook.parent.rglob("*")):
            name = path.relative_to(notebook.parent)
            if any(part.startswith(".") for part in name.parts) or path.is_symlink() or not path.is_file():
                continue
            if found.setdefault(name.as_posix(), content := path.read_bytes()) != content:
                raise CourseError(f"Two lessons hand out a different file under the name '{name}'.")
    return found


def _step(folder: Path, name: str, content: bytes, entry: Entry | None) -> Step:
    """Decide what happens to one file, from what lies there and what was handed out before."""
    newest = hashlib.sha256(content).hexdigest()
    path = _inside(folder, name)
    handed = entry.handed if entry else None
    if not os.path.lexists(path):
        return Step(name, BACK if entry else NEW, Entry(newest), name)
    present = _checksum(path)
    if present == newest:
        return Step(name, CURRENT, Entry(newest))
    if present is not None and present == handed:
        return Step(name, UPDATED, Entry(newest), name)
    note = "" if present else "not an ordinary file, left alone"
    if handed == newest:
        return Step(name, KEPT, entry or Entry(newest), note=note)
    return _beside(folder, name, newest, entry or Entry(""), note)


def _beside(folder: Path, name: str, newest: str, entry: Entry, note: str) -> Step:
    """Lay the newer version next to the learner's own, once, under a name that holds nothing of theirs."""
    stem, dot, suffix = name.rpartition(".")
    remember = Entry(entry.handed, newest)
    for number in ("", *range(2, 100)):
        target = f"{stem}.new{number}{dot}{suffix}"
        path = _inside(folder, target)
        exists = os.path.lexists(path)
        present = _checksum(path) if exists else None
        if present == newest:
            return Step(name, BESIDE, remember, note=note or f"see {target}")
        if not exists and entry.offered == newest:
            return Step(name, KEPT, entry, note=note)  # it was laid there before, and the learner is done with it
        if not exists or (present is not None and present == entry.offered):
            return Step(name, BESIDE, remember, target, note or f"see {target}")
    raise StartError(f"'{folder}' holds too many files named like '{stem}.new{dot}{suffix}': move some away.")


def _inside(folder: Path, name: str) -> Path:
    """The path of a name in the folder; a link among its parents must not lead outside."""
    path = folder / name
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise StartError(f"'{path.parent}' leads out of '{folder}': remove that link and try again.")
    return path


def _checksum(path: Path) -> str | None:
    """SHA-256 of an ordinary file; None for links, folders and the like, which are never followed or replaced."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """All files or none: everything is first written whole beside its place, and only then moved there."""
    if not files:
        return
    made: list[Path] = []
    staged: list[tuple[Path, Path]] = []
    try:
        _make(folder, made)
        for number, (name, content) in enumerate(files.items()):
            target = _inside(folder, name)
            _make(target.parent, made)
            part = target.parent / f".ampcourse-{os.getpid()}-{number}.part"
            staged.append((part, target))
            with part.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for part, target in staged:
            part.replace(target)
    except BaseException:
        for part, _ in staged:
            with suppress(OSError):
                part.unlink()
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir()
        raise


def _make(folder: Path, made: list[Path]) -> None:
    """Make a folder with its parents, noting those that were not there in `made`, outermost first."""
    made += [path for path in (folder, *folder.parents) if not path.exists()][::-1]
    folder.mkdir(parents=True, exist_ok=True)


def report(started: Started) -> None:
    """Print what happened to each file, and how to go on."""
    terminal.table(("file", "what happened", ""), [(step.name, step.what, step.note) for step in started.steps])
    counts = Counter(step.what for step in started.steps)
    changes = [f"{counts[what]} {what}" for what in (NEW, UPDATED, BACK, BESIDE) if counts[what]]
    terminal.say()
    terminal.say(f"In '{started.folder}': {', '.join(changes)}." if changes else f"'{started.folder}' is up to date.")
    if counts[BESIDE]:
        terminal.say("Your own notebook was kept: take over what you like from the .new one, then delete that.")
    terminal.say(f"Open them with: jupyter lab {shlex.quote(str(started.folder))}")
