"""A learner's notebook as it is on disk, and the course's own outline of a lesson to hold against it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampcourse.course import Course, CourseError, Lesson, UserError

_LARGEST = 200 << 20  # bytes; a lesson with its pictures has a few million
_PLACEHOLDERS = {"", "YOUR ANSWER HERE"}


class NotebookError(UserError):
    """The file is not a notebook that can be checked."""


@dataclass(frozen=True)
class Cell:
    """What counts of a cell: its kind, its text, and who it says it is."""

    kind: str  # "code", "markdown", "raw"
    source: str
    grade_id: str = ""
    tags: tuple[str, ...] = ()
    graded: bool = False
    points: float = 0.0


@dataclass(frozen=True)
class Check:
    """A graded code cell of the course: `check("<exercise>", <what the learner wrote>)`."""

    grade_id: str
    source: str
    exercise: str
    answer: str  # the rest of the arguments, as source
    points: float
    after: str  # grade_id of the solution cell before it


@dataclass(frozen=True)
class Outline:
    """What a lesson asks for: its checks, its written questions, its parameters cell."""

    checks: tuple[Check, ...]
    written: tuple[Cell, ...]
    parameters: str


def read_cells(path: Path) -> list[Cell]:
    """The cells of a notebook (format 3 or 4), however damaged their metadata are.

    Raises:
        NotebookError: if there is no such file, or it is no notebook; the sentence says what it is instead.
    """
    text = _text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotebookError(f"'{path}' is not a notebook: {_instead(text, error)}.") from None
    try:
        return [_cell(cell) for cell in _raw_cells(content)]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise NotebookError(f"'{path}' is not a notebook: its content has another shape.") from None


def _text(path: Path) -> str:
    try:
        if not path.exists():
            raise NotebookError(f"'{path}' does not exist: check the name.")
        if not path.is_file():
            raise NotebookError(f"'{path}' is not a file: name the notebook itself (NAME.ipynb).")
        if path.stat().st_size > _LARGEST:
            raise NotebookError(f"'{path}' is too large to be a lesson: clear its outputs and save it again.")
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise NotebookError(f"'{path}' is not a notebook: it is not UTF-8 text; save it again in JupyterLab.") from None
    except OSError as error:
        raise NotebookError(f"'{path}' cannot be read: {error.strerror or error}.") from None


def _instead(text: str, error: Exception) -> str:
    if not text.strip():
        return "it is empty"
    if re.search(r"^<{7} ", text, re.MULTILINE):
        return "it holds git conflict markers (<<<<<<<); resolve the conflict first"
    if text.lstrip().startswith("<"):
        return "it is a web page, perhaps a login page saved instead of the notebook; download it again"
    if isinstance(error, json.JSONDecodeError):
        return f"it breaks off or is damaged at line {error.lineno}; save or download it again"
    return "it is damaged; save or download it again"


def _raw_cells(content: dict[str, Any]) -> list[dict[str, Any]]:
    if int(content.get("nbformat", 4)) >= 4:
        return content["cells"]
    cells = [cell for sheet in content["worksheets"] for cell in sheet["cells"]]
    return [{**cell, "source": cell["input"]} if cell["cell_type"] == "code" else cell for cell in cells]


def _cell(cell: dict[str, Any]) -> Cell:
    source = cell["source"]
    source = source if isinstance(source, str) else "".join(source)
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    nbgrader, tags = metadata.get("nbgrader"), metadata.get("tags")
    nbgrader = nbgrader if isinstance(nbgrader, dict) else {}
    points = nbgrader.get("points")
    return Cell(
        kind=str(cell["cell_type"]),
        source=source.encode("utf-8", "replace").decode("utf-8"),  # half a surrogate cannot be sent to a kernel
        grade_id=str(nbgrader.get("grade_id") or ""),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        graded=nbgrader.get("grade") is True,
        points=float(points) if isinstance(points, int | float) else 0.0,
    )


def _original(course: Course, lesson: Lesson) -> Path:
    released = course.release(lesson)
    return released if released.is_file() else course.source(lesson)


def lesson_outline(course: Course, lesson: Lesson) -> Outline:
    """What the course's own notebook of a lesson asks for (from the release, or in a clone without it the source).

    Raises:
        CourseError: if neither is there, or a graded code cell is not a check.
    """
    path = _original(course, lesson)
    if not path.is_file():
        raise CourseError(f"The course's notebook of {lesson.slug} is missing: in a clone, see 'ampcourse release'.")
    try:
        cells = read_cells(path)
    except NotebookError as error:
        raise CourseError(f"The course's notebook of {lesson.slug} cannot be used: {error}") from None
    checks, written, before = [], [], ""
    for cell in cells:
        if cell.graded and cell.kind == "code":
            checks.append(_check(cell, before, path))
        elif cell.graded:
            written.append(cell)
        before = cell.grade_id or before
    parameters = next((cell.source for cell in cells if "parameters" in cell.tags), "")
    return Outline(tuple(checks), tuple(written), parameters)


def _check(cell: Cell, after: str, path: Path) -> Check:
    try:
        (statement,) = ast.parse(cell.source).body
        call = statement.value  # type: ignore[attr-defined]
        exercise, *rest = call.args
        if call.func.id != "check" or not isinstance(exercise.value, str):
            raise ValueError
        answer = ", ".join(ast.unparse(node) for node in [*rest, *call.keywords])
    except (SyntaxError, ValueError, AttributeError):
        raise CourseError(f"'{path}': the graded cell '{cell.grade_id}' is not a call of check().") from None
    return Check(cell.grade_id, cell.source, exercise.value, answer, cell.points, after)


def lesson_of(cells: Sequence[Cell], path: Path, course: Course) -> Lesson:
    """The lesson that a notebook is a copy of: by its cells, for files get renamed, else by its name.

    Raises:
        NotebookError: if it is none of this course's.
    """
    ids = {cell.grade_id for cell in cells if cell.grade_id}
    text = "\n".join(cell.source for cell in cells)

    def likeness(lesson: Lesson) -> tuple[int, bool]:
        outline = lesson_outline(course, lesson)
        asked = [*outline.checks, *outline.written]
        named = sum(bool(re.search(rf"check\(\s*['\"]{re.escape(c.exercise)}['\"]", text)) for c in outline.checks)
        return len(ids & {item.grade_id for item in asked}) + named, lesson.slug in path.name

    there = [lesson for lesson in course.lessons if _original(course, lesson).is_file()]
    best = max(there, key=likeness, default=None)
    if best is None or likeness(best) == (0, False):
        known = ", ".join(lesson.slug for lesson in course.lessons)
        raise NotebookError(f"'{path}' is not a lesson of this course; the lessons are {known}.")
    return best


def answered(question: Cell, cells: Sequence[Cell]) -> bool:
    """Whether a written question has a text of the learner's own."""
    texts = [cell.source.strip() for cell in cells if cell.grade_id == question.grade_id]
    return any(text not in _PLACEHOLDERS and text != question.source.strip() for text in texts)
