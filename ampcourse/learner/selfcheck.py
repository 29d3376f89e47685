"""`ampcourse check`: a learner's whole notebook run in a fresh kernel, and every exercise of the lesson judged.

The checks are the course's: wherever a check cell of the lesson stands, or should stand, the course's own check of that
exercise is run, and its verdict comes back through a file, not through what the notebook prints. That keeps accidents
out (a deleted or edited check cell, a variable named `check`); it is no barrier against somebody who wants to cheat
himself, and grading does not rely on it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ampcourse import terminal
from ampcourse.course import Course, CourseError, Lesson, load_course
from ampcourse.learner.notebook import Cell, Outline, answered, lesson_of, lesson_outline, read_cells
from ampcourse.learner.plan import Planned, judging, plan

if TYPE_CHECKING:
    from ampcourse.learner.kernel import Ran

_SHORTEST, _PATIENCE = 60.0, 2.0  # a cell's limit: seconds at least, and times the lesson's own time on a CPU
_CELLS = 5  # the whole notebook may take as long as so many cells that reach their limit


@dataclass(frozen=True)
class Row:
    """One exercise: its outcome ("right", "wrong", "not attempted", "raised", "timed out", "not run") and points."""

    exercise: str
    outcome: str
    score: float
    points: float
    note: str = ""

    @property
    def full(self) -> bool:
        """Whether nothing is missing."""
        return self.outcome == "right" and self.score >= self.points


@dataclass(frozen=True)
class Result:
    """What came of a notebook; `written` holds each written question and whether it has an answer."""

    lesson: Lesson
    rows: tuple[Row, ...]
    written: tuple[tuple[Cell, bool], ...]
    troubles: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Every exercise is right and the notebook runs from top to bottom."""
        return all(row.full for row in self.rows) and not self.troubles


def check_notebook(path: Path, timeout: float | None = None, course: Course | None = None) -> Result:
    """Run a notebook (which is not changed) and judge every exercise of its lesson.

    Args:
        path: the learner's notebook.
        timeout: seconds that one cell may take; the whole notebook may take five times that.
        course: where the lesson belongs; default: this course.

    Raises:
        NotebookError: if the file is no notebook of this course.
        KernelError: if no kernel starts.
        CourseError: if the course's own files are at fault.
    """
    course = course or load_course()
    cells = read_cells(path)
    lesson = lesson_of(cells, path, course)
    outline = lesson_outline(course, lesson)
    worth = _worth(lesson, outline)
    limit = timeout or max(_SHORTEST, _PATIENCE * lesson.cpu_seconds)
    with tempfile.TemporaryDirectory(prefix="amp-", ignore_cleanup_errors=True) as scratch:
        rows, troubles = _run(path, lesson, plan(cells, outline), worth, Path(scratch), limit)
    written = tuple((question, answered(question, cells)) for question in outline.written)
    return Result(lesson, tuple(rows), written, tuple(troubles))


def _worth(lesson: Lesson, outline: Outline) -> dict[str, float]:
    """Exercise id -> full points: all that the course knows of the lesson and all that its notebook asks."""
    from ampcourse.exercises.check import exercises
    from ampcourse.exercises.model import BrokenExercise

    worth = {check.exercise: check.points for check in outline.checks}
    if not worth:
        return {}
    try:
        return worth | {exercise.id: exercise.max_score for exercise in exercises(lesson.name)}
    except BrokenExercise as error:
        raise CourseError(f"The course's own exercises are at fault: {error}") from None


def _run(
    path: Path, lesson: Lesson, planned: Sequence[Planned], worth: dict[str, float], scratch: Path, limit: float
) -> tuple[list[Row], list[str]]:
    from ampcourse.learner import kernel

    homes = [str(scratch / "verdicts" / str(number)) for number in range(len(planned))]
    sources = [judging(i.check, home) if i.check else i.code for i, home in zip(planned, homes, strict=True)]
    with terminal.waiting(f"Running {lesson.slug} ...") as tell:
        ran = kernel.run_cells(
            sources,
            folder=path.resolve().parent,
            scratch=scratch,
            environment=_environment(scratch),
            cell_seconds=limit,
            seconds=_CELLS * limit,
            watch=lambda n: tell(f"Running {lesson.slug}: {planned[n].label}, {n + 1} of {len(planned)}"),
        )
    unasked = "the course's notebook does not check it"
    rows = {name: Row(name, kernel.NOT_RUN, 0.0, points, unasked) for name, points in worth.items()}
    for item, home, how in zip(planned, homes, ran, strict=True):
        if item.check:
            rows[item.check.exercise] = _row(item.check.exercise, worth[item.check.exercise], home, how)
    return list(rows.values()), _troubles(planned, ran, limit)


def _environment(scratch: Path) -> dict[str, str]:
    """The kernel's: progress goes to a folder that is thrown away, IPython's own start-up files are left out."""
    own = {"AMPCOURSE_HOME": str(scratch / "home"), "IPYTHONDIR": str(scratch / "ipython"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {name: value for name, value in os.environ.items() if name != "AMPCOURSE_PROFILE"} | own


def _row(exercise: str, points: float, home: str, how: Ran) -> Row:
    """From the stored verdict; where there is none, from how its cell ended."""
    if stored := _stored(home).get(exercise):
        return Row(exercise, stored["outcome"], float(stored["score"]), points)
    if how.status == "error":
        return Row(exercise, "raised", 0.0, points, how.error)
    if how.status == "ok":
        return Row(exercise, "wrong", 0.0, points, "what was passed to check() cannot be an answer")
    return Row(exercise, how.status, 0.0, points, how.error)


def _stored(home: str) -> dict[str, dict]:
    from ampcourse.exercises import progress

    before = os.environ.get("AMPCOURSE_HOME")
    os.environ["AMPCOURSE_HOME"] = home
    try:
        return progress.load()
    finally:
        if before is None:
            del os.environ["AMPCOURSE_HOME"]
        else:
            os.environ["AMPCOURSE_HOME"] = before


def _troubles(planned: Sequence[Planned], ran: Sequence[Ran], limit: float) -> list[str]:
    """Why the notebook does not run from top to bottom, apart from its exercises."""
    found = []
    for item, how in zip(planned, ran, strict=True):
        if how.status == "kernel died":
            found.append(f"The kernel died in {item.label}; what comes after it was not run.")
        elif how.status == "timed out":
            found.append(f"{item.label[:1].upper()}{item.label[1:]} was {how.error}.")
        elif how.status == "error" and not item.check and not item.may_raise:
            found.append(f"{item.label[:1].upper()}{item.label[1:]} raised an error: {how.error}.")
    if ran and ran[-1].status == "not run" and all(how.status != "kernel died" for how in ran):
        first = next(item for item, how in zip(planned, ran, strict=True) if how.status == "not run")
        found.append(f"{_CELLS * limit:.0f} s had passed before {first.label}; what comes after was not run.")
    return found


def report(result: Result) -> None:
    """Print every exercise with its outcome, the written questions, and what keeps the notebook from passing."""
    columns = ("exercise", "outcome", "points", "")
    points = terminal.points
    rows = [(r.exercise, r.outcome, f"{points(r.score)} of {points(r.points)}", r.note) for r in result.rows]
    for question, done in result.written:
        outcome = "answered" if done else "not answered yet"
        rows.append((question.grade_id, outcome, f"? of {points(question.points)}", "written; a person marks it"))
    terminal.table(columns, rows)
    terminal.say()
    for trouble in result.troubles[:_SHOWN]:
        terminal.say(terminal.clean(trouble))
    if more := len(result.troubles[_SHOWN:]):
        terminal.say(f"And {more} more like these.")
    terminal.say(_summary(result))


_SHOWN = 5


def _summary(result: Result) -> str:
    points = terminal.points
    score = f"{points(sum(r.score for r in result.rows))} of {points(sum(r.points for r in result.rows))} points"
    if result.passed:
        return f"{result.lesson.slug}: every exercise is right, {score}."
    if missing := [row.exercise for row in result.rows if not row.full]:
        return f"{result.lesson.slug}: not done yet, {score}; still open: {', '.join(missing)}."
    return f"{result.lesson.slug}: every exercise is right, {score}, but other cells fail: see above."
