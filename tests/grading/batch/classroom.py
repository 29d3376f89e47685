"""A synthetic class: a plain nbgrader course directory with one assignment, and submissions of every kind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

LESSON = "ps1"
MAXIMUM = 7.0
SQUARE = """def square(x):
    ### BEGIN SOLUTION
    return x * x
    ### END SOLUTION"""
CUBE = """def cube(x):
    ### BEGIN SOLUTION
    return x**3
    ### END SOLUTION"""
STUB = "# YOUR CODE HERE\nraise NotImplementedError()"


def about(name: str, **kind: Any) -> dict[str, Any]:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": plain | {"grade_id": name} | kind}


def source() -> nbformat.NotebookNode:
    test = {"grade": True, "locked": True}
    cells = [
        new_markdown_cell("# Powers", id="title"),
        new_code_cell(SQUARE, id="square", metadata=about("square", solution=True)),
        new_code_cell("assert square(3) == 9", id="t1", metadata=about("square-test", points=2, **test)),
        new_code_cell(CUBE, id="cube", metadata=about("cube", solution=True)),
        new_code_cell("assert cube(2) == 8", id="t2", metadata=about("cube-test", points=3, **test)),
        new_markdown_cell("Because.", id="why", metadata=about("why", grade=True, solution=True, points=2)),
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def make_course(root: Path, config: str = "") -> Path:
    folder = root / "source" / LESSON
    folder.mkdir(parents=True)
    nbformat.write(source(), folder / f"{LESSON}.ipynb")
    if config:
        (root / "nbgrader_config.py").write_text(f"c = get_config()\n{config}\n", "utf-8")
    return root


def filled(square: str | None, cube: str | None, why: str | None = None) -> nbformat.NotebookNode:
    """The notebook as a student hands it in; None leaves a cell as it was handed out."""
    notebook = copy.deepcopy(source())
    given = {"square": square, "cube": cube}
    for cell in notebook.cells:
        if cell.id in given:
            cell.source = given[cell.id] or f"def {cell.id}(x):\n    {STUB.replace(chr(10), chr(10) + '    ')}"
        if cell.id == "why":
            cell.source = why if why is not None else "YOUR ANSWER HERE"
    return notebook


RIGHT = ("def square(x):\n    return x * x", "def cube(x):\n    return x * x * x")
WRONG = ("def square(x):\n    return 2 * x", "def cube(x):\n    return 3 * x")
HOSTILE = "import os\n{}\nos._exit(0)"


@dataclass(frozen=True)
class Kind:
    """One way to hand in. `score` is None where there can be none."""

    name: str
    content: Callable[[int], bytes]
    score: float | None


def _written(square: str | None, cube: str | None, why: str | None = None) -> Callable[[int], bytes]:
    return lambda number: nbformat.writes(filled(square, cube, why and f"{why} {number}")).encode()


KINDS = (
    Kind("right", _written(*RIGHT, "It grows."), 5.0),
    Kind("half", _written(RIGHT[0], WRONG[1]), 2.0),
    Kind("wrong", _written(*WRONG, "No idea."), 0.0),
    Kind("untouched", _written(None, None), 0.0),
    Kind("hostile", _written(HOSTILE.format(WRONG[0]), WRONG[1]), 0.0),
    Kind("unreadable", lambda _: b"<html>Please log in</html>", None),
)


def submit(root: Path, student: str, content: bytes, lesson: str = LESSON, stamp: str = "") -> Path:
    folder = root / "submitted" / student / lesson
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{lesson}.ipynb").write_bytes(content)
    if stamp:
        (folder / "timestamp.txt").write_text(stamp, "utf-8")
    return folder


def fill(root: Path, count: int, kinds: tuple[Kind, ...] = KINDS) -> dict[str, Kind]:
    """Hand in for so many students; who handed in what."""
    made = {}
    for number in range(count):
        student, kind = f"s{number:04d}", kinds[number % len(kinds)]
        submit(root, student, kind.content(number))
        made[student] = kind
    return made
