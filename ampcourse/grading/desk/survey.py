"""Who has what: one row a student and lesson, from `submitted/`, the records and the gradebook together."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ampcourse.course import CourseError, load_course
from ampcourse.grading import decisions
from ampcourse.grading.batch.classlist import unacceptable
from ampcourse.grading.database import open_gradebook, sentence
from ampcourse.grading.model import FAILED, GRADED, MISSING, PARTLY, STATUSES, UNREADABLE, GradingError
from ampcourse.grading.place import Place
from ampcourse.grading.records import Record, damaged, load_records

NOT_GRADED = "not graded"
"""Something was handed in, and nobody has graded it yet."""
ALL_STATUSES = (*STATUSES, NOT_GRADED)


@dataclass(frozen=True)
class Row:
    """What one student has in one lesson.

    Attributes:
        status: one of `ALL_STATUSES`.
        reason: sentences; empty where everything is as usual.
        score: points with those given by hand, less the late penalty; None where there is no score.
        late_penalty: points that nbgrader's late policy takes.
        waiting: the graded cells that a person must still mark.
        attention: why a person should look, apart from waiting questions; empty if nobody need.
        changed: what was handed in differs from what was graded.
        late: seconds after the due date.
    """

    student: str
    lesson: str
    status: str
    reason: str = ""
    score: float | None = None
    max_score: float = 0.0
    late_penalty: float = 0.0
    waiting: tuple[str, ...] = ()
    attention: str = ""
    changed: bool = False
    late: float = 0.0
    name: tuple[str, str] = ("", "")
    email: str = ""

    @property
    def needs_manual(self) -> bool:
        """Whether a person must give points: a question waits, or there is a submission without a score."""
        return bool(self.waiting) or self.status in (UNREADABLE, FAILED)


@dataclass
class Booked:
    """What the gradebook holds of one submission."""

    score: float = 0.0
    max_score: float = 0.0
    late_penalty: float = 0.0
    late: float = 0.0
    waiting: list[str] = field(default_factory=list)
    by_hand: bool = False


@dataclass
class Book:
    """What the gradebook holds of one lesson; `students` is everybody it knows, with first name, last name, e-mail."""

    max_score: float | None = None
    booked: dict[str, Booked] = field(default_factory=dict)
    students: dict[str, tuple[str, str, str]] = field(default_factory=dict)


def lessons_of(place: Place, wanted: Sequence[str] = ()) -> list[str]:
    """The lessons meant: by slug, name or number of course.toml, or by an assignment's folder; all if none is named.

    Raises:
        CourseError: if there is no such lesson, or course.toml is wrong.
    """
    course = load_course(place.root) if lists_lessons(place.root / "course.toml") else None
    listed = [lesson.slug for lesson in course.lessons] if course is not None else []
    folders = sorted({path.parent.name for path in place.source("_").parent.glob("*/*.ipynb")})
    known = [*listed, *(name for name in folders if name not in listed)]
    found = []
    for name in wanted:
        if name in known:
            found.append(name)
        elif course is not None and name not in folders:
            found.append(course.lesson(name).slug)
        else:
            there = f"choose from: {', '.join(known)}" if known else "source/ holds none"
            raise CourseError(f"There is no lesson '{name}'; {there}.")
    return list(dict.fromkeys(found)) if wanted else known


def lists_lessons(path: Path) -> bool:
    """Whether a course.toml has lessons; a plain course of nbgrader's may have one for its limits alone."""
    try:
        return "lesson" in tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True  # load_course says what is wrong with it


@contextlib.contextmanager
def gradebook(place: Place) -> Iterator[Any | None]:
    """A session that reads the course's gradebook; None where there is none yet, and none is made.

    Raises:
        GradingError: if it cannot be opened or read, in one sentence.
    """
    file = place.database_file
    if file is not None and not file.is_file():
        yield None
        return
    from sqlalchemy.exc import SQLAlchemyError

    with open_gradebook(place) as book:
        try:
            yield book.db
        except SQLAlchemyError as error:
            raise GradingError(sentence(error, place.db_url)) from None
        finally:
            book.db.rollback()


def read_book(session: Any, lesson: str) -> Book:
    """One lesson of nbgrader's gradebook, in a few queries however large the class is."""
    from nbgrader import api

    people = session.query(api.Student.id, api.Student.first_name, api.Student.last_name, api.Student.email)
    book = Book(students={row[0]: (row[1] or "", row[2] or "", row[3] or "") for row in people})
    assignment = session.query(api.Assignment).filter(api.Assignment.name == lesson).first()
    if assignment is None:
        return book
    book.max_score = float(assignment.max_score)
    sent, due = api.SubmittedAssignment, assignment.duedate
    columns = (sent.student_id, sent.score, sent.max_score, sent.late_submission_penalty, sent.timestamp)
    for student, score, maximum, penalty, when in session.query(*columns).filter(sent.assignment_id == assignment.id):
        late = max(0.0, (when - due).total_seconds()) if when and due else 0.0
        book.booked[student] = Booked(float(score), float(maximum), float(penalty or 0.0), late)
    grades = (
        session.query(sent.student_id, api.BaseCell.name, api.Grade.manual_score, api.Grade.needs_manual_grade)
        .join(api.SubmittedNotebook, api.SubmittedNotebook.assignment_id == sent.id)
        .join(api.Grade, api.Grade.notebook_id == api.SubmittedNotebook.id)
        .join(api.BaseCell, api.BaseCell.id == api.Grade.cell_id)
        .filter(sent.assignment_id == assignment.id)
    )
    for student, cell, by_hand, waits in grades:
        booked = book.booked[student]
        booked.by_hand |= by_hand is not None
        if waits:
            booked.waiting.append(cell)
    return book


def survey(
    place: Place,
    lesson: str,
    session: Any | None,
    digest_now: Callable[[str], str] | None = None,
) -> list[Row]:
    """One row for everybody who handed in, was graded, or is known to the gradebook, in the order of their ids.

    Args:
        place: the course.
        lesson: the assignment.
        session: the gradebook's, to read from; None where there is no gradebook yet.
        digest_now: gives, for a student, the digest of what lies in `submitted/` now; None: changes are not looked for.
    """
    book = read_book(session, lesson) if session is not None else Book()
    records = load_records(place.root, lesson)
    broken = set(damaged(place.root, lesson))
    decided = decisions.load(place.root, lesson)
    here = set(place.students(lesson))
    everybody = here | set(book.booked) | set(records) | (set(book.students) if here or records else set())
    rows = []
    for student in sorted(everybody):
        record, booked = records.get(student), book.booked.get(student)
        row = _row(student, lesson, record, booked, student in here)
        if record is None and student in here and (says := unacceptable(student)):
            row = _with(row, status=FAILED, reason=says, attention=says)
        if student in broken:
            row = _with(row, attention="Its record is damaged: grade it again.")
        if record is not None and student in here and digest_now is not None:
            row = _with(row, changed=digest_now(student) != record.submission)
        elif record is not None and record.status != MISSING and student not in here:
            row = _with(row, reason=_joined(row.reason, "What was graded is no longer in submitted/."))
        first, last, email = book.students.get(student, ("", "", ""))
        row = _with(row, name=(first, last), email=email, max_score=row.max_score or book.max_score or 0.0)
        rows.append(_decided(row, decided))
    return rows


def _row(student: str, lesson: str, record: Record | None, booked: Booked | None, here: bool) -> Row:
    if record is None and booked is None:
        return Row(student, lesson, NOT_GRADED if here else MISSING, "" if here else "Nothing was handed in.")
    status, reason, maximum = (record.status, record.reason, record.maximum) if record else (GRADED, "", 0.0)
    if record is None and booked is not None and not booked.max_score:
        status = NOT_GRADED if here else MISSING  # nbgrader knows of it, and has no notebook of it
    row = Row(student, lesson, status, reason, max_score=maximum, attention=_attention(status, reason, record))
    if booked is None:
        return _with(row, score=record.score if record else None)
    row = _with(row, late_penalty=booked.late_penalty, late=booked.late)
    if booked.max_score:
        row = _with(row, max_score=booked.max_score)
    if status in (GRADED, PARTLY) or (status in (UNREADABLE, FAILED) and booked.by_hand):
        by_hand = "" if status in (GRADED, PARTLY) else "Its points were given by hand."
        score = max(0.0, booked.score - booked.late_penalty)
        return _with(row, score=score, waiting=tuple(booked.waiting), reason=_joined(reason, by_hand))
    return row


def _attention(status: str, reason: str, record: Record | None) -> str:
    if status in (PARTLY, UNREADABLE, FAILED):
        return reason or {PARTLY: "Something in it deserves a look; its record says what."}.get(status, "")
    return ""


def _decided(row: Row, decided: Sequence[decisions.Decision]) -> Row:
    if row.status not in (GRADED, PARTLY):
        return row
    return _with(row, reason=_joined(row.reason, *(f"{decisions.sentence(decision)}" for decision in decided)))


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _with(row: Row, **changes: Any) -> Row:
    return replace(row, **changes)
