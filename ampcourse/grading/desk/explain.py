"""Why one student got these points for one question: what was stored, and the question asked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ampcourse.course import UserError
from ampcourse.exercises import private
from ampcourse.grading import decisions
from ampcourse.grading.batch.classlist import digest_now
from ampcourse.grading.desk.full_points import Asked, QuestionError, find_question, questions
from ampcourse.grading.desk.survey import gradebook, lessons_of
from ampcourse.grading.model import GRADED, MISSING, PARTLY, QuestionResult, Starter
from ampcourse.grading.place import Place
from ampcourse.grading.records import DamagedRecord, Record, load_record
from ampcourse.grading.settings import exercises_folder, load_settings
from ampcourse.terminal import clean, points

_GRADING = (GRADED, PARTLY)


class ExplainError(UserError):
    """There is nothing to explain; the sentence says why and what to do."""


@dataclass(frozen=True)
class Subject:
    """What is to be explained.

    Attributes:
        record: what came of the submission.
        asked: the graded cell.
        result: what came of that cell; None if the submission has no score.
        remarks: sentences: what has changed since, what was decided.
        changed: whether something else lies in submitted/ than what was graded.
    """

    record: Record
    asked: Asked
    result: QuestionResult | None
    remarks: tuple[str, ...]
    changed: bool = False


def find(place: Place, student: str, question: str, lesson: str | None = None) -> Subject:
    """The stored result of a question.

    Raises:
        ExplainError, QuestionError: if there is none; the sentence says what to do.
    """
    slug, asked = _find_question(place, question, lesson)
    try:
        record = load_record(place.root, slug, student)
    except DamagedRecord:
        raise ExplainError(f"The record of '{student}' is damaged: grade it again, 'ampcourse grade {slug}'.") from None
    if record is None:
        raise ExplainError(_nothing(place, student, slug))
    found = (
        q
        for part in record.parts
        for q in part.questions
        if (part.notebook, q.grade_id) == (asked.notebook, asked.question)
    )
    now = digest_now(place, record.lesson, record.student, load_settings(place.root))
    remarks = tuple(_remarks(place, record, asked, now))
    return Subject(record, asked, next(found, None), remarks, bool(now) and now != record.submission)


def _find_question(place: Place, wanted: str, lesson: str | None) -> tuple[str, Asked]:
    if lesson is not None:
        (slug,) = lessons_of(place, [lesson])
        return slug, find_question(place, slug, wanted)
    found, broken = [], None
    for slug in lessons_of(place):
        try:
            found += [(slug, one) for one in questions(place, slug) if wanted in one.names()]
        except UserError as error:  # one lesson's source need not stop an explanation of another's
            broken = broken or error
    if len(found) == 1:
        return found[0]
    if found:
        slugs = ", ".join(dict.fromkeys(slug for slug, _ in found))
        raise QuestionError(f"'{wanted}' is a question of several lessons ({slugs}): say which with --lesson.")
    if broken is not None:
        raise broken
    raise QuestionError(f"No lesson asks '{wanted}': name a graded cell, or an exercise such as 'fp16_range.ulp'.")


def _nothing(place: Place, student: str, slug: str) -> str:
    there = place.students(slug)
    if student in there:
        return f"'{student}' has handed in '{slug}', but it is not graded yet: 'ampcourse grade {slug}'."
    import difflib

    near = difflib.get_close_matches(student, there, n=1)
    return f"'{student}' has handed in nothing for '{slug}'" + (f"; did you mean '{near[0]}'?" if near else ".")


def _remarks(place: Place, record: Record, asked: Asked, now: str) -> list[str]:
    remarks = []
    if not now and record.status != MISSING:
        remarks.append(f"What was graded on {record.when[:10]} is no longer in submitted/.")
    elif now and now != record.submission:
        remarks.append(
            f"The submission has changed since it was graded on {record.when[:10]}: what follows is about the new one, "
            f"which 'ampcourse grade {record.lesson}' grades."
        )
    decided = decisions.applying(decisions.load(place.root, record.lesson), asked.notebook, asked.question)
    return [*remarks, f"{decisions.sentence(decided)}"] if decided else remarks


def stored(place: Place, subject: Subject) -> list[str]:
    """What is known without asking again, as lines."""
    record, asked, result = subject.record, subject.asked, subject.result
    head = f"{record.student}, {record.lesson}, {asked.question}"
    if result is None or record.status not in _GRADING:
        return [f"{head}: no score, {record.status}. {record.reason}"]
    by_hand, waits = _by_hand(place, record, asked)
    scored = "no points yet" if result.score is None else f"{points(result.score)} of {points(result.points)} points"
    lines = [f"{head}: {scored}, {result.outcome}. {result.reason}".rstrip()]
    if by_hand is not None:
        lines.append(f"A person gave {points(by_hand)} points, and these count.")
    if result.kind == "written":
        lines.append(
            "A person marks it; it waits for that in formgrader." if waits else "A person marks it; nothing waits."
        )
    if result.kind == "test":
        lines.append(
            "This is an instructor's own test cell: it runs inside the student's process, so it cannot be asked again "
            f"from outside. What it printed is in '{place.folder('autograded', record.student, record.lesson)}'."
        )
    lines += [f"- {said}" for said in result.says]
    return lines


def _by_hand(place: Place, record: Record, asked: Asked) -> tuple[float | None, bool]:
    """Points that a person gave, and whether the question waits for some."""
    from nbgrader.api import Assignment, BaseCell, Grade, SubmittedAssignment, SubmittedNotebook

    with gradebook(place) as session:
        if session is None:
            return None, False
        grade = (
            session.query(Grade)
            .join(BaseCell, BaseCell.id == Grade.cell_id)
            .join(SubmittedNotebook, SubmittedNotebook.id == Grade.notebook_id)
            .join(SubmittedAssignment, SubmittedAssignment.id == SubmittedNotebook.assignment_id)
            .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
            .filter(
                Assignment.name == record.lesson,
                SubmittedAssignment.student_id == record.student,
                BaseCell.name == asked.question,
            )
            .first()
        )
        return (grade.manual_score, bool(grade.needs_manual_grade)) if grade is not None else (None, False)


def replayed(
    place: Place,
    subject: Subject,
    *,
    exercises_dir: Path | None = None,
    unsafe: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """The question asked again with the stored round's inputs, as lines; none if it cannot be asked from outside.

    Raises:
        GradingError: if no kernel can be started here, or the submission cannot be read.
        BrokenExercise: if the exercise itself is at fault.
    """
    record, asked, result = subject.record, subject.asked, subject.result
    if (
        not asked.exercise
        or (result is None and not subject.changed)
        or (result is not None and result.kind != "judged")
    ):
        return []
    from ampcourse.grading.assignment import make_assignment
    from ampcourse.grading.document import read_submission
    from ampcourse.grading.sandbox import choose_starter
    from ampcourse.grading.submission import replay

    with private.using(exercises_folder(place.root, exercises_dir)):
        assignment = make_assignment(place.root, record.lesson, asked.notebook, exercises_dir=exercises_dir, tell=tell)
        folder = place.folder("submitted", record.student, record.lesson)
        others = [name for name in place.notebooks(record.lesson) if name != asked.notebook]
        submission = read_submission(folder, record.student, asked.notebook, assignment.settings, others)
        starter: Starter = choose_starter(assignment.box, assignment.settings, unsafe=unsafe, fast=False)
        try:
            found = replay(submission, assignment, starter, asked.exercise)
        finally:
            starter.close()
    lines = ["", "Asked again:", found.text.rstrip()]
    if found.verdict is None and found.result.reason and found.result.reason not in found.text:
        lines.append(found.result.reason)
    failed = [one for one in found.shown if not one.passed]
    if found.shown:
        lines += ["", f"{len(found.shown) - len(failed)} of {len(found.shown)} cases are right."]
    for one in failed:
        lines += [f"- {clean(one.criterion)}, inputs {one.question}: {clean(one.says)}"]
        for word, value in (("given", one.given), ("returned", one.returned), ("expected", one.expected)):
            lines += [f"    {word}: {clean(value).removeprefix('you returned ')}"] if value else []
    if result is not None and found.result.score != result.score and record.status in _GRADING:
        now = "no score" if found.result.score is None else f"{points(found.result.score)} points"
        lines += ["", f"Now it gets {now}: the submission, the exercise or the round has changed, or chance decides."]
    return lines
