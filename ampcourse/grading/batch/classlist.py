"""Who has handed in what, and who needs to be graded again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ampcourse.grading import records
from ampcourse.grading.batch.work import Work
from ampcourse.grading.model import FAILED, GRADED, MISSING, PARTLY, Assignment, GradingError
from ampcourse.grading.place import Place
from ampcourse.grading.records import Record
from ampcourse.grading.settings import Settings

_LONGEST = 128  # characters of a student id that nbgrader's gradebook takes


def read_work(place: Place, lesson: str, student: str, notebooks: Sequence[str], settings: Settings) -> Work:
    """What a student handed in, read safely."""
    from ampcourse.grading.document import read_submission

    folder = place.folder("submitted", student, lesson)
    # A renamed notebook is recognised, but never as one that belongs to another part of the assignment.
    read = (read_submission(folder, student, name, settings, [n for n in notebooks if n != name]) for name in notebooks)
    return Work(student, tuple(read))


def digest_of(work: Work) -> str:
    """A digest of everything handed in; empty if that is nothing."""
    return "" if work.empty else records.joined(records.submission_digest(one) for one in work.submissions)


def digest_now(place: Place, lesson: str, student: str, settings: Settings) -> str:
    """What `Record.submission` would be if the student were graded now; empty if nothing is there."""
    return digest_of(read_work(place, lesson, student, place.notebooks(lesson), settings))


def assignment_digest(assignments: Sequence[Assignment]) -> str:
    """One digest for all notebooks of a lesson."""
    return records.joined(one.digest for one in assignments)


@dataclass(frozen=True)
class Planned:
    """A lesson's class: who is to be graded, whose record still holds, what there is to say.

    Attributes:
        again: students to grade.
        kept: records that are up to date.
        told: (student, sentence): folders that are gone, records that could not be read.
        refused: (student, sentence): names that nbgrader or the file system cannot take.
        outdated: how many are graded again although they handed in nothing new.
    """

    again: tuple[str, ...]
    kept: tuple[Record, ...]
    told: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    outdated: int = 0


class ClassList:
    """The submissions of one lesson.

    Args:
        place: the course.
        lesson: the assignment.
        assignments: its notebooks.
        graded_in_book: students whom the gradebook knows to have a submission.
    """

    def __init__(self, place: Place, lesson: str, assignments: Sequence[Assignment], graded_in_book: set[str]) -> None:
        self._place, self._lesson, self._assignments = place, lesson, assignments
        self._names = [one.notebook for one in assignments]
        self._digest = assignment_digest(assignments)
        self._in_book = graded_in_book

    def read(self, student: str) -> Work:
        """A student's submission."""
        return read_work(self._place, self._lesson, student, self._names, self._assignments[0].settings)

    def works(self, students: Sequence[str]) -> Iterator[Work]:
        """Submissions, read one by one as they are needed."""
        return (self.read(student) for student in students)

    def key(self, work: Work) -> str:
        """Changes whenever grading again could give something else, or nbgrader's late policy could."""
        stamp, _ = self._place.timestamp(work.student, self._lesson)
        return hashlib.sha256(f"{digest_of(work)}|{self._digest}|{stamp}".encode()).hexdigest()

    def plan(self, wanted: Sequence[str] | None, fresh: bool) -> Planned:
        """Who is to be graded.

        Args:
            wanted: these students only; everybody if None.
            fresh: whether everybody is graded, whatever was graded before.

        Raises:
            GradingError: if a student who was named has handed in nothing and never did.
        """
        there = self._place.students(self._lesson)
        known = set(there) | set(records.load_records(self._place.root, self._lesson))
        if strangers := [student for student in wanted or () if student not in known]:
            raise GradingError(self._stranger(strangers[0], there))
        students = there if wanted is None else [s for s in dict.fromkeys(wanted) if s in set(there)]
        again, kept, told, refused, outdated = [], [], [], [], 0
        for student in students:
            if says := unacceptable(student):
                refused.append((student, says))
                continue
            try:
                record = records.load_record(self._place.root, self._lesson, student)
            except records.DamagedRecord as error:
                told.append((student, f"Its record is damaged, so it is graded again: {error}"))
                record = None
            if record is not None and not fresh and self._holds(record):
                kept.append(record)
            else:
                again.append(student)
                outdated += record is not None and not fresh and record.assignment not in ("", self._digest)
        told += self._gone(there, wanted)
        return Planned(tuple(again), tuple(kept), tuple(told), tuple(refused), outdated)

    def _holds(self, record: Record) -> bool:
        """Whether nothing has changed since, and what was written then is still there."""
        if not record.key or record.status == FAILED:
            return False
        if record.status != MISSING:
            folder = self._place.folder("autograded", record.student, self._lesson)
            if record.student not in self._in_book or not all((folder / f"{n}.ipynb").is_file() for n in self._names):
                return False
        return record.key == self.key(self.read(record.student))

    def _gone(self, there: Sequence[str], wanted: Sequence[str] | None) -> list[tuple[str, str]]:
        found = []
        for student, record in records.load_records(self._place.root, self._lesson).items():
            if student not in there and (wanted is None or student in wanted) and record.status in (GRADED, PARTLY):
                folder = self._place.folder("submitted", student, self._lesson)
                says = f"'{folder}' is gone since it was graded; its score of {record.score:g} is kept."
                found.append((student, says))
        return found

    def _stranger(self, student: str, there: Sequence[str]) -> str:
        import difflib

        near = difflib.get_close_matches(student, there, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        return f"'{student}' has handed in nothing for '{self._lesson}': there is no folder " + (
            f"'{self._place.folder('submitted', student, self._lesson)}'{hint}"
        )


def unacceptable(student: str) -> str:
    """Why a student id cannot be used, as a sentence; else empty."""
    from ampcourse.grading.document import acceptable_student

    if says := acceptable_student(student):
        return says
    if len(student) > _LONGEST:
        return (
            f"The folder's name is longer than the {_LONGEST} characters that nbgrader keeps of a student: rename it."
        )
    return ""
