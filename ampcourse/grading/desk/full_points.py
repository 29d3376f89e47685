"""Set a faulty question to full points for everybody who is graded, and take that back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import nbformat

from ampcourse.course import UserError
from ampcourse.grading import decisions
from ampcourse.grading.cells import about, checked_exercise
from ampcourse.grading.database import open_gradebook, patiently
from ampcourse.grading.decisions import Decision
from ampcourse.grading.gradebook import late_policy, renew_penalty
from ampcourse.grading.model import GRADED, PARTLY
from ampcourse.grading.place import Place
from ampcourse.grading.records import Record, load_records


class QuestionError(UserError):
    """There is no such question in the lesson, or its name does not say which one."""


@dataclass(frozen=True)
class Changed:
    """What a decision did to the gradebook.

    Attributes:
        students: whose points changed.
        unknown: whose former points are known to nobody, so that they stay as they are.
    """

    students: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """A graded cell of a lesson's source."""

    notebook: str
    question: str
    exercise: str

    def names(self) -> set[str]:
        """What it may be called."""
        short = self.exercise.partition(".")[2]
        plain = {self.question, self.exercise, short} - {""}
        return plain | {f"{self.notebook}/{name}" for name in plain}


def questions(place: Place, lesson: str) -> list[Asked]:
    """The graded cells of a lesson's source, in order.

    Raises:
        GradingError, QuestionError: if the source is not there, or cannot be read.
    """
    found = []
    for name in place.notebooks(lesson):
        path = place.source(lesson) / f"{name}.ipynb"
        try:
            cells = nbformat.read(path, as_version=4).cells
        except Exception as error:
            said = " ".join(str(error).split())[:200]
            raise QuestionError(f"The source '{path}' cannot be read ({said}): mend it first.") from None
        for cell in cells:
            if about(cell).get("grade"):
                exercise = checked_exercise(cell.source) if cell.cell_type == "code" else None
                found.append(Asked(name, str(about(cell)["grade_id"]), exercise or ""))
    return found


def find_question(place: Place, lesson: str, wanted: str) -> Asked:
    """The graded cell meant by its grade_id, its exercise ("fp16_range.ulp", "ulp"), or "notebook/grade_id".

    Raises:
        QuestionError: if there is none, or several.
    """
    asked = questions(place, lesson)
    found = [one for one in asked if wanted == one.question] or [one for one in asked if wanted in one.names()]
    if len(found) == 1:
        return found[0]
    if found:
        choices = " or ".join(f"'{one.notebook}/{one.question}'" for one in found)
        raise QuestionError(f"'{wanted}' can be several questions of '{lesson}': name {choices}.")
    known = ", ".join(one.question for one in asked)
    raise QuestionError(f"'{lesson}' has no question '{wanted}'; choose from: {known}.")


def apply(place: Place, decision: Decision) -> Changed:
    """Record a decision and apply it to everybody who is graded; doing it again does no harm.

    Points that a person gave and that were fewer are kept in the decision, and come back if it is taken back.

    Raises:
        GradingError: if the decision cannot be recorded, or the gradebook not be written: then nothing in it changed,
            and the same command may be given again.
    """
    decisions.add(place.root, decision)  # first, so that whoever is being graded now gets the points too
    before: dict[str, float] = {}

    def raised(student: str, grade: Any) -> bool:
        old = (grade.auto_score, grade.manual_score, grade.needs_manual_grade)
        if grade.manual_score is not None and grade.manual_score < grade.max_score:
            before[student], grade.manual_score = float(grade.manual_score), None
        decisions.raise_to_full(grade, (decision,))
        return old != (grade.auto_score, grade.manual_score, grade.needs_manual_grade)

    def keep() -> None:  # before the gradebook forgets them
        if before:
            decisions.add(place.root, replace(decision, before=before))

    return Changed(_change(place, decision, raised, keep))


def undo(place: Place, decision: Decision) -> Changed:
    """Take a decision back: what judging gave counts again, and what a person had given.

    Raises:
        GradingError: if the gradebook cannot be written: then nothing changed, and the decision stands.
    """
    records, unknown = load_records(place.root, decision.lesson), []
    former = next((d for d in decisions.load(place.root, decision.lesson) if _same(d, decision)), decision)

    def restored(student: str, grade: Any) -> bool:
        judged = _judged(records.get(student), grade) or _from_notebook(place, student, decision.lesson, grade)
        if judged is None:
            unknown.append(student)
            return False
        old = (grade.auto_score, grade.manual_score)
        (grade.auto_score,) = judged
        if grade.manual_score is None and student in former.before:
            grade.manual_score = former.before[student]
        grade.needs_manual_grade = grade.auto_score is None and grade.manual_score is None
        return old != (grade.auto_score, grade.manual_score)

    changed = _change(place, former, restored)
    decisions.remove(place.root, former)
    return Changed(changed, tuple(unknown))


def _same(one: Decision, other: Decision) -> bool:
    return one.question == other.question and one.notebook == other.notebook


def _change(
    place: Place, decision: Decision, change: Callable[[str, Any], bool], keep: Callable[[], None] = lambda: None
) -> tuple[str, ...]:
    """Do something to this question's grade of everybody who has a score, in one transaction."""
    file = place.database_file
    if file is not None and not file.is_file():
        return ()
    from nbgrader.api import Assignment, SubmittedAssignment

    records, policy = load_records(place.root, decision.lesson), late_policy(place)
    with open_gradebook(place) as book:

        def work() -> tuple[str, ...]:
            changed = []
            handed_in = book.db.query(SubmittedAssignment).join(Assignment).filter(Assignment.name == decision.lesson)
            for submitted in handed_in.all():
                if not _has_score(records.get(submitted.student_id)):
                    continue
                grades = (grade for notebook in submitted.notebooks for grade in notebook.grades)
                mine = [grade for grade in grades if decision.concerns(grade.notebook.name, grade.name)]
                if [grade for grade in mine if change(submitted.student_id, grade)]:
                    changed.append(submitted.student_id)
                    book.db.flush()
                    renew_penalty(book.db, submitted, policy)
            keep()
            book.db.commit()
            return tuple(sorted(changed))

        return patiently(work, place, undo=book.db.rollback)


def _has_score(record: Record | None) -> bool:
    return record is None or record.status in (GRADED, PARTLY)


def _judged(record: Record | None, grade: Any) -> tuple[float | None] | None:
    """What judging gave, from the record; None where no record says it."""
    for part in record.parts if record is not None else ():
        for question in part.questions:
            if (part.notebook, question.grade_id) == (grade.notebook.name, grade.name):
                return (question.score,)
    return None


def _from_notebook(place: Place, student: str, lesson: str, grade: Any) -> tuple[float | None] | None:
    """What nbgrader reads from the autograded notebook; None if it cannot be read."""
    from nbgrader.utils import determine_grade

    path = place.folder("autograded", student, lesson) / f"{grade.notebook.name}.ipynb"
    try:
        cells = nbformat.read(path, as_version=4).cells
        found = next(cell for cell in cells if about(cell).get("grade_id") == grade.name)
        score, _ = determine_grade(found, place.log)
    except Exception:  # whatever is wrong with that file, the score is not known
        return None
    return (score,) if score is None or math.isfinite(score) else None
