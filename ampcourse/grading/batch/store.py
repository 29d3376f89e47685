"""Writing what came of one submission. Only one process does; in an order in which it may be killed at any point.

First the new files of `autograded/` beside the old ones, then the old record is marked as to be graded again, then one
transaction in the gradebook, then the new files take the old ones' place, then the log, and last the record. Whatever
is missing after a kill is the record, and so the next run grades this submission again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from ampcourse.grading import decisions, records
from ampcourse.grading.batch.classlist import assignment_digest, digest_of
from ampcourse.grading.batch.work import Done, Work
from ampcourse.grading.database import RefusedSubmission
from ampcourse.grading.files import write_private
from ampcourse.grading.gradebook import Book, Result, answers
from ampcourse.grading.model import FAILED, GRADED, MISSING, PARTLY, UNREADABLE, Assignment, Graded, GradingError
from ampcourse.grading.place import SECRET, STAMP, Place
from ampcourse.grading.placeholder import placeholder
from ampcourse.grading.records import Part, Record

_NEW, _OLD = ".{lesson}.new", ".{lesson}.old"
_EVERYBODYS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE, AT_FDCWD


def reached(point: str, student: str) -> None:
    """Called after every step with a name; tests put something in its place that kills this process there."""


@dataclass
class Store:
    """Where results go.

    Attributes:
        place: the course.
        lesson: the assignment.
        assignments: its notebooks.
        book: the gradebook, open.
        sandbox: how kernels were started, for the record.
    """

    place: Place
    lesson: str
    assignments: Sequence[Assignment]
    book: Book
    sandbox: str = ""
    create_students: bool = True

    def __post_init__(self) -> None:
        self._decided = decisions.load(self.place.root, self.lesson)

    def save(self, work: Work, key: str, done: Done) -> Record:
        """Write everything about one submission, and give its record.

        Raises:
            GradingError: if the disk or the gradebook refuses; then the old scores are as they were.
        """
        graded = done.graded
        if not self.create_students and not self.book.knows(work.student):
            says = f"'{work.student}' is no student of the gradebook, and new ones are not to be entered."
            graded = tuple(Graded(FAILED, says, log=one.log) for one in graded)
        timestamp, remark = self.place.timestamp(work.student, self.lesson)
        old = self._old(work.student)
        record = self._record(work, key, graded, remark)
        try:
            try:
                self._write(work, graded, record, old, timestamp)
            except RefusedSubmission as error:
                graded = tuple(Graded(FAILED, str(error), log=one.log) for one in graded)
                record = self._record(work, key, graded, remark)
            reached("swapped", work.student)
            record = records.Record(**{**vars(record), "late_penalty": self._penalty})
            self._log(record, graded)
            reached("logged", work.student)
            records.save_record(self.place.root, record)
        except OSError as error:
            raise GradingError(_refused(error)) from error
        return record

    def _write(
        self, work: Work, graded: Sequence[Graded], record: Record, old: Record | None, timestamp: object
    ) -> None:
        """The files of `autograded/` and the gradebook, for what belongs there."""
        self._penalty: float | None = None
        known = old is not None and old.status in (GRADED, PARTLY)
        if record.status == MISSING or (record.status == FAILED and (known or not self._enters(work.student))):
            return  # nothing was handed in, or what was graded before stays
        results = [self._result(work.student, one, part, old) for one, part in zip(graded, record.parts, strict=True)]
        target = self.place.folder("autograded", work.student, self.lesson)
        new = target.with_name(_NEW.format(lesson=self.lesson))
        self._fill(new, work, graded)
        reached("filled", work.student)
        if old is not None and old.key:
            records.save_record(self.place.root, old.stale())
        reached("marked", work.student)
        self._penalty = self.book.write(work.student, results, timestamp, self._decided)  # type: ignore[arg-type]
        reached("booked", work.student)
        _swap(new, target)

    def _fill(self, new: Path, work: Work, graded: Sequence[Graded]) -> None:
        mode = 0o664 if self.place.coursedir.groupshared else 0o444
        files = self._files(work, graded)
        try:
            _fill(new, files, mode)
        except OSError as error:
            if error.errno in _EVERYBODYS:
                raise
            # A file name that this disk does not take; it must not cost the score, nor anybody else's.
            ours = {f"{one.notebook}.ipynb" for one in self.assignments} | {STAMP, SECRET}
            _fill(new, {name: content for name, content in files.items() if name in ours}, mode)

    def _enters(self, student: str) -> bool:
        """Whether a submission that could not be graded is to be entered, to wait for a person."""
        exists = self.place.folder("autograded", student, self.lesson).exists()
        return not exists and (self.create_students or self.book.knows(student))

    def _old(self, student: str) -> Record | None:
        with contextlib.suppress(records.DamagedRecord):
            return records.load_record(self.place.root, self.lesson, student)
        return None

    def _record(self, work: Work, key: str, graded: Sequence[Graded], remark: str) -> Record:
        parts = []
        for assignment, submission, one in zip(self.assignments, work.submissions, graded, strict=True):
            written = {name: answer.digest for name, answer in answers(one.notebook).items()}
            part = Part.of(assignment.notebook, one, written)
            notes = dict.fromkeys([*part.notes, *submission.remarks, *([remark] if remark else [])])
            changed: dict[str, Any] = {"notes": tuple(notes)}
            if remark and part.status in (GRADED, PARTLY):  # nobody knows whether it is late: that deserves a look
                reason = f"{part.reason} {remark}".strip() if not parts else part.reason
                changed |= {"status": PARTLY, "reason": reason}
            parts.append(records.Part(**{**vars(part), **changed}))
        failed = any(one.status == FAILED for one in graded)
        log = records.work_folder(Path(), "logs", self.lesson) / f"{work.student}.log"
        return Record(
            work.student,
            self.lesson,
            tuple(parts),
            key="" if failed else key,
            submission=digest_of(work),
            assignment=assignment_digest(self.assignments),
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(sum(one.seconds for one in graded), 3),
            sandbox=self.sandbox,
            log=log.as_posix(),
        )

    def _result(self, student: str, graded: Graded, part: Part, old: Record | None) -> Result:
        found, before = answers(graded.notebook), None
        if old is not None:
            before = next((dict(one.written) for one in old.parts if one.notebook == part.notebook), None)
        if before is None:  # the record was lost, or this was graded by plain nbgrader
            path = self.place.folder("autograded", student, self.lesson) / f"{part.notebook}.ipynb"
            with contextlib.suppress(OSError):
                before = {name: answer.digest for name, answer in answers(path.read_bytes()).items()}
        return Result(part.notebook, part.status, part.reason, part.questions, found, before)

    def _files(self, work: Work, graded: Sequence[Graded]) -> dict[str, bytes]:
        """What lies in a folder of `autograded/`."""
        given = {name: content for one in self.assignments for name, content in one.files.items()}
        names = {*given, STAMP, SECRET, *(f"{one.notebook}.ipynb" for one in self.assignments)}
        theirs = {name: content for one in work.submissions for name, content in one.files.items()}
        files = {name: content for name, content in theirs.items() if _fits(name, names)} | given
        for name in (STAMP, SECRET):
            with contextlib.suppress(OSError):
                if (content := self.place.note(work.student, self.lesson, name)) is not None:
                    files[name] = content
        for one, assignment in zip(graded, self.assignments, strict=True):
            content = one.notebook
            if one.status in (UNREADABLE, FAILED) or not content:
                content = placeholder(assignment.source, one.reason)
            files[f"{assignment.notebook}.ipynb"] = content
        return files

    def _log(self, record: Record, graded: Sequence[Graded]) -> None:
        lines = [f"{record.when} {record.student}, {record.lesson}: {record.status}"]
        lines += [f"score {record.score:g} of {record.maximum:g}"] if record.score is not None else []
        lines += [record.reason] if record.reason else []
        lines += [f"repaired: {text}" for text in record.repairs] + [f"note: {text}" for text in record.notes]
        for part, one in zip(record.parts, graded, strict=True):
            lines += [
                "",
                f"{part.notebook}: {part.seconds:.2f} s, {part.restarts} restarts of the kernel ({self.sandbox})",
            ]
            for q in part.questions:
                score = "a person must mark" if q.score is None else f"{q.score:g}"
                lines.append(f"{q.grade_id}: {score} of {q.points:g}, {q.outcome}. {q.reason}".rstrip())
            lines += ["", *one.log]
        text = "\n".join(lines) + "\n"
        write_private(self.place.root / record.log, text.encode("utf-8", "backslashreplace"))

    def tidy(self, student: str) -> None:
        """Remove what a killed run left beside a student's autograded folder."""
        target = self.place.folder("autograded", student, self.lesson)
        for name in (_NEW, _OLD):
            left = target.with_name(name.format(lesson=self.lesson))
            if name == _OLD and left.is_dir() and not target.exists():
                left.rename(target)  # killed between the two renames
            _remove(left)


def _fits(name: str, taken: Iterable[str]) -> bool:
    """Whether a student's file stays in its folder, and is in the way of none that the course puts there."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        return False
    others = [PurePosixPath(one) for one in taken]
    return not any(path == one or path in one.parents or one in path.parents for one in others)


def _fill(folder: Path, files: Mapping[str, bytes], mode: int) -> None:
    """A new folder with these files, flushed to the disk."""
    _remove(folder)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        path.chmod(mode)


def _swap(new: Path, target: Path) -> None:
    """Put a folder in another's place, in one step where the file system can exchange two names."""
    if not target.exists():
        new.rename(target)
        return
    if _exchanged(new, target):
        _remove(new)
        return
    old = target.with_name(new.name.replace(".new", ".old"))
    _remove(old)
    target.rename(old)
    new.rename(target)
    _remove(old)


def _exchanged(one: Path, other: Path) -> bool:
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


def _remove(folder: Path) -> None:
    """Remove a folder of ours; nbgrader makes its files, and some instructors the folders, read-only."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)


def _refused(error: OSError) -> str:
    where = f"'{error.filename}'" if error.filename else "The result"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full, so {where} could not be written: free some space and run this again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where} cannot be written ({os.strerror(error.errno)}): change the permissions of its folder."
    return f"{where} cannot be written ({os.strerror(error.errno or errno.EIO)})."
