"""What must hold before a lesson is released: its source is consistent, and its release gives nothing away."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ampcourse.course import Lesson, UserError
from ampcourse.exercises.check import exercise
from ampcourse.exercises.model import BrokenExercise
from ampcourse.grading.cells import (
    BEGIN,
    END,
    HIDDEN,
    INTERPRETATION,
    PARAMETERS,
    about,
    checked_exercise,
    raises_not_implemented,
    tags,
)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_TELLING = 16  # characters from which on a line of a solution should not stand anywhere in the release


class ReleaseError(UserError):
    """A lesson cannot be released; the sentence says which cell and why."""


def check_source(lesson: Lesson, notebook: Any) -> None:
    """Whether a source notebook's graded cells, names and points fit each other, the exercises and `course.toml`.

    Raises:
        ReleaseError: at the first thing that does not fit.
    """
    cells = [cell for cell in notebook.cells if about(cell)]
    _names(lesson, cells)
    for cell in cells:
        if about(cell).get("grade"):
            _points(lesson, cell)
    total = sum(float(about(cell).get("points", 0)) for cell in cells if about(cell).get("grade"))
    if not math.isclose(total, lesson.points):
        raise ReleaseError(
            f"'{lesson.slug}': its graded cells give {total:g} points, but course.toml says {lesson.points:g}: "
            "make both agree."
        )
    if not any(PARAMETERS in tags(cell) for cell in notebook.cells):
        raise ReleaseError(f"'{lesson.slug}' has no cell tagged 'parameters': add one that sets profile and seed.")


def check_release(lesson: Lesson, source: Any, released: Any) -> None:
    """Whether a released notebook holds no solution, interpretation, hidden test or output, and asks for every answer.

    Raises:
        ReleaseError: at the first thing that must not be there, or that is missing.
    """
    secrets = set(solution_lines(source))
    for number, cell in enumerate(released.cells, 1):
        where = f"The release of '{lesson.slug}', cell {number} ({cell.cell_type})"
        if INTERPRETATION in tags(cell):
            raise ReleaseError(f"{where} interprets a solution: nbgrader_config.py must take such cells out.")
        if mark := next((mark for mark in (BEGIN, END, HIDDEN) if mark in cell.source), None):
            raise ReleaseError(f"{where} still holds '{mark}': check the markers in the source.")
        if cell.get("outputs") or cell.get("execution_count") is not None:
            raise ReleaseError(f"{where} has an output or a run's number: nbgrader_config.py must clear them.")
        if leaked := next((line for line in cell.source.splitlines() if line.strip() in secrets), None):
            raise ReleaseError(f"{where} gives a solution away: '{leaked.strip()}'; say it differently in the source.")
        if about(cell).get("solution") and cell.cell_type == "code" and not raises_not_implemented(cell.source):
            raise ReleaseError(
                f"{where} is an answer without `raise NotImplementedError`: put the solution inside the function."
            )


def solution_lines(source: Any) -> Iterator[str]:
    """The lines of a source notebook that a learner must not read, stripped; lines too short to tell are left out.

    A solution is what stands between the markers, or the whole of an answer cell without markers.
    """
    for cell in source.cells:
        if about(cell).get("solution"):
            yield from (line for line in map(str.strip, _solution(cell.source)) if _tells(line))


def _solution(source: str) -> Iterable[str]:
    lines = source.splitlines()
    if not any(BEGIN in line for line in lines):
        yield from lines
        return
    inside = False
    for line in lines:
        if BEGIN in line or END in line:
            inside = BEGIN in line
        elif inside:
            yield line


def _tells(line: str) -> bool:
    return len(line) >= _TELLING and not line.startswith(("import ", "from ", "def ", "class ", "###"))


def _names(lesson: Lesson, cells: list[Any]) -> None:
    seen: set[str] = set()
    for cell in cells:
        name = str(about(cell).get("grade_id", ""))
        if not _NAME.fullmatch(name):
            raise ReleaseError(
                f"'{lesson.slug}': the grade_id '{name}' is awkward: use letters, digits, '_' and '-', at most 64."
            )
        if name in seen:
            raise ReleaseError(f"'{lesson.slug}': the grade_id '{name}' is there twice: rename one.")
        seen.add(name)


def _points(lesson: Lesson, cell: Any) -> None:
    name, points = about(cell)["grade_id"], about(cell).get("points")
    where = f"'{lesson.slug}', cell '{name}'"
    if not isinstance(points, int | float) or not 0 < points < math.inf:
        raise ReleaseError(f"{where}: its points are {points!r}, not a number above 0.")
    asked = checked_exercise(cell.source) if cell.cell_type == "code" else None
    if asked is None:
        return
    try:
        worth = exercise(asked).max_score
    except UserError as error:
        raise ReleaseError(f"{where} checks something unknown. {error}") from None
    except BrokenExercise as error:
        raise ReleaseError(f"{where} cannot be checked: {error}") from None
    if not math.isclose(points, worth):
        raise ReleaseError(f"{where} gives {points:g} points, but '{asked}' is worth {worth:g}: make both agree.")
