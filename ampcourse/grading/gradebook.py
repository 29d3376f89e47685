"""Writing scores into nbgrader's gradebook: the only place that does, in one transaction a submission.

The rules are nbgrader's (`SaveAutoGrades`, `AssignLatePenalties`), without its habits of committing cell by cell and of
opening the database anew for each of them. Two rules are kinder than nbgrader's: points that a person gave stay, and a
person is asked again only where what they judged has changed.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ampcourse.grading import decisions
from ampcourse.grading.database import RefusedSubmission, database_url, open_gradebook, patiently, reading
from ampcourse.grading.model import FAILED, MISSING, UNREADABLE, GradingError, QuestionResult
from ampcourse.grading.place import Place

__all__ = ["Book", "Result", "answers", "database_url", "open_gradebook", "reading", "renew_penalty", "settle"]

_LOCK_TIMEOUT = "5s"  # for one statement on PostgreSQL; SQLite tries again and again


@dataclass(frozen=True)
class Result:
    """What is to be written for one notebook of a submission.

    Attributes:
        notebook: the notebook's name.
        status: of `model.STATUSES`.
        reason: one sentence, if there is one.
        questions: every graded cell.
        answers: source and digest of each answer cell, as `answers` reads them from the autograded notebook.
        before: the digests that a person may have seen when they gave points; None if nobody knows.
    """

    notebook: str
    status: str
    reason: str
    questions: Sequence[QuestionResult]
    answers: Mapping[str, Answer]
    before: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Answer:
    """An answer cell of an autograded notebook. `checksum` is nbgrader's, which knows an untouched cell."""

    digest: str
    checksum: str


@dataclass(frozen=True)
class _Cell:
    name: str
    kind: str  # GradeCell, SolutionCell or TaskCell
    checksum: str | None


def answers(notebook: bytes) -> dict[str, Answer]:
    """The answer cells of an autograded notebook, by their grade id; none of what is no notebook."""
    from nbformat import from_dict
    from nbgrader.utils import compute_checksum, is_solution, is_task

    found = {}
    try:
        cells = json.loads(notebook)["cells"] if notebook else []
    except (ValueError, KeyError, TypeError):
        return {}
    for raw in cells:
        if raw.get("metadata", {}).get("nbgrader"):
            cell = from_dict({**raw, "outputs": []})
            cell.source = cell.source if isinstance(cell.source, str) else "".join(cell.source)
            if is_solution(cell) or is_task(cell):
                digest = hashlib.sha256(cell.source.encode("utf-8", "surrogatepass")).hexdigest()
                found[cell.metadata.nbgrader.grade_id] = Answer(digest, compute_checksum(cell))
    return found


def settle(grade: Any, question: QuestionResult, rewritten: bool) -> None:
    """Set a grade's automatic score, and whether a person must look; points that a person gave are not touched.

    Args:
        grade: nbgrader's.
        question: what grading found.
        rewritten: whether a written answer's text is another than the person saw.
    """
    before, grade.auto_score = grade.auto_score, question.score
    if grade.manual_score is None:
        grade.needs_manual_grade = question.score is None
    elif question.score is None or question.kind == "written":
        grade.needs_manual_grade = bool(grade.needs_manual_grade) or rewritten
    else:  # a person put their own score over an automatic one, which is another now
        grade.needs_manual_grade = bool(grade.needs_manual_grade) or before not in (None, question.score)


class Book:
    """The gradebook of one assignment, open for writing. Only one process and one thread may have it.

    Args:
        place: the course.
        gradebook: nbgrader's, open.
        lesson: the assignment, which must be in it.
        tell: is told when a locked database is being waited for.
    """

    def __init__(self, place: Place, gradebook: Any, lesson: str, tell: Callable[[str], None] | None = None) -> None:
        self._place, self._db, self._lesson, self._tell = place, gradebook.db, lesson, tell
        self._late = late_policy(place)
        self._do(lambda: self._learn(gradebook))

    def _do(self, work: Callable[[], Any]) -> Any:
        return patiently(work, self._place, self._tell, undo=self._db.rollback)

    def _learn(self, gradebook: Any) -> None:
        """Read the assignment's cells once, so that no submission has to ask for them again."""
        assignment = gradebook.find_assignment(self._lesson)
        self._assignment: str = assignment.id
        self._notebooks: dict[str, tuple[str, dict[str, _Cell]]] = {}
        for notebook in assignment.notebooks:
            sums = {cell.name: cell.checksum for cell in notebook.source_cells}
            cells = {c.id: _Cell(c.name, c.type, sums.get(c.name)) for c in notebook._base_cells}
            self._notebooks[notebook.name] = (notebook.id, cells)
        self._db.rollback()

    def students(self) -> set[str]:
        """Who has a submission of this assignment in the gradebook."""
        from nbgrader.api import SubmittedAssignment
        from sqlalchemy import select

        def ask() -> set[str]:
            wanted = SubmittedAssignment.assignment_id == self._assignment
            found = set(self._db.scalars(select(SubmittedAssignment.student_id).where(wanted)))
            self._db.rollback()
            return found

        return self._do(ask)

    def knows(self, student: str) -> bool:
        """Whether the gradebook has a student of this name."""
        from nbgrader.api import Student

        found = self._do(lambda: self._db.get(Student, student) is not None)
        self._db.rollback()
        return found

    def write(
        self,
        student: str,
        results: Sequence[Result],
        timestamp: datetime.datetime | None = None,
        decided: Sequence[decisions.Decision] = (),
    ) -> float | None:
        """Write one submission, whole or not at all; the points taken for lateness, or None.

        Nothing changes where grading failed, except that a submission that was never there is entered and waits for
        a person: it must not look like an ordinary 0.

        Raises:
            GradingError: if the gradebook refuses; then it is as it was.
        """

        def work() -> float | None:
            if self._db.get_bind().dialect.name == "postgresql":
                self._db.execute(_sql(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
            submitted = self._submission(student, timestamp)
            for result in results:
                notebook_id, cells = self._notebooks[result.notebook]
                notebook = next(n for n in submitted.notebooks if n.notebook_id == notebook_id)
                self._enter(notebook, cells, result, decided)
            self._db.flush()
            penalty = renew_penalty(self._db, submitted, self._late)
            self._db.commit()
            return penalty

        try:
            return self._do(work)
        finally:
            self._db.expunge_all()

    def _submission(self, student: str, timestamp: datetime.datetime | None) -> Any:
        """The rows of a submission, as nbgrader's `update_or_create_submission` makes them, not yet committed."""
        from nbgrader.api import Comment, Grade, Student, SubmittedAssignment, SubmittedNotebook

        if self._db.get(Student, student) is None:
            self._db.add(Student(id=student))
            self._db.flush()
        submitted = (
            self._db.query(SubmittedAssignment)
            .filter_by(assignment_id=self._assignment, student_id=student)
            .one_or_none()
        )
        if submitted is None:
            submitted = SubmittedAssignment(assignment_id=self._assignment, student_id=student)
            self._db.add(submitted)
        there = {notebook.notebook_id: notebook for notebook in submitted.notebooks}
        for notebook_id, cells in self._notebooks.values():
            notebook = there.get(notebook_id)
            if notebook is None:
                self._db.add(notebook := SubmittedNotebook(notebook_id=notebook_id, assignment=submitted))
            graded = {grade.cell_id for grade in notebook.grades}
            commented = {comment.cell_id for comment in notebook.comments}
            for cell_id, cell in cells.items():
                if cell.kind in ("GradeCell", "TaskCell") and cell_id not in graded:
                    self._db.add(Grade(cell_id=cell_id, notebook=notebook, needs_manual_grade=True))
                if cell.kind in ("SolutionCell", "TaskCell") and cell_id not in commented:
                    self._db.add(Comment(cell_id=cell_id, notebook=notebook))
        if timestamp is not None:
            submitted.timestamp = timestamp
        self._db.flush()
        return submitted

    def _enter(self, notebook: Any, cells: Mapping[str, _Cell], result: Result, decided: Sequence[Any]) -> None:
        if result.status == FAILED:
            return
        questions = {question.grade_id: question for question in result.questions}
        for grade in notebook.grades:
            cell = cells[grade.cell_id]
            if result.status in (UNREADABLE, MISSING):
                grade.auto_score = 0.0
                grade.needs_manual_grade = result.status == UNREADABLE
            elif (question := questions.get(cell.name)) is not None:
                settle(grade, question, _rewritten(cell.name, result))
                if decisions.applying(decided, result.notebook, cell.name):
                    decisions.raise_to_full(grade, decided)
            elif cell.kind == "GradeCell":
                raise RefusedSubmission(f"Grading gave no result for the cell '{cell.name}' of '{result.notebook}'.")
        self._comment(notebook, cells, result)

    def _comment(self, notebook: Any, cells: Mapping[str, _Cell], result: Result) -> None:
        told = result.status != UNREADABLE
        for comment in notebook.comments:
            cell, comment.auto_comment = cells[comment.cell_id], None
            answer = result.answers.get(cell.name)
            if not told:
                told, comment.auto_comment = True, storable(result.reason)
            elif answer and cell.kind != "TaskCell" and answer.checksum == cell.checksum:
                comment.auto_comment = "No response."


def _rewritten(name: str, result: Result) -> bool:
    if result.before is None or name not in result.before:
        return True
    return name not in result.answers or result.answers[name].digest != result.before[name]


def storable(text: str) -> str:
    """Text that every database takes: no NUL, no half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


def _sql(text: str) -> Any:
    from sqlalchemy import text as sql

    return sql(text)


def late_policy(place: Place) -> Any:
    """The course's own `AssignLatePenalties`, ready; None if its autograding does without.

    Raises:
        GradingError: if its configuration is wrong, or the plugin cannot be made.
    """
    from nbgrader.converters import Autograde
    from nbgrader.preprocessors import AssignLatePenalties

    try:
        steps = Autograde(coursedir=place.coursedir, config=place.config, log=place.log).autograde_preprocessors
        kinds = [step for step in steps if isinstance(step, type) and issubclass(step, AssignLatePenalties)]
        if not kinds:
            return None
        policy = kinds[0](config=place.config, log=place.log)
        policy.init_plugin()
    except Exception as error:  # whatever an instructor's own plugin raises
        raise GradingError(f"The late policy in nbgrader_config.py cannot be used: {error}.") from None
    return policy


def renew_penalty(session: Any, submitted: Any, policy: Any) -> float | None:
    """Set what each notebook of a submission loses for lateness, by the course's policy; not committed.

    Args:
        session: the gradebook's.
        submitted: nbgrader's SubmittedAssignment, its grades flushed.
        policy: from `late_policy`.

    Raises:
        RefusedSubmission: if the instructor's plugin fails.
    """
    total = None
    late = _seconds_late(submitted)
    for notebook in submitted.notebooks if policy is not None else ():
        notebook.late_submission_penalty = None
        if late <= 0:
            continue
        session.refresh(notebook, ["score"])
        try:
            taken = policy.plugin_inst.late_submission_penalty(submitted.student_id, notebook.score, late)
            taken = None if taken is None else float(policy._check_late_penalty(notebook, taken))
        except Exception as error:
            raise RefusedSubmission(f"The course's late policy failed for '{submitted.student_id}': {error}.") from None
        notebook.late_submission_penalty = taken
        total = total if taken is None else (total or 0.0) + taken
    return total


def _seconds_late(submitted: Any) -> float:
    if submitted.timestamp is None or submitted.assignment.duedate is None:
        return 0.0
    return submitted.total_seconds_late
