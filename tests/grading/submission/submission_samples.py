"""A small lesson as its instructor has it, what students make of it, and how it is graded here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ampcourse.exercises import check
from ampcourse.exercises.engine import Question
from ampcourse.grading.boxes import make_box
from ampcourse.grading.cells import about
from ampcourse.grading.model import Asked, Assignment, Graded, QuestionResult, Starter, Submission
from ampcourse.grading.settings import Settings
from ampcourse.grading.submission import grade_submission

MINI = "07_mini"
PATIENCE = float(os.environ.get("AMPCOURSE_PATIENCE") or 1)
SHORT = Settings(cell_seconds=3 * PATIENCE, start_seconds=60 * PATIENCE, submission_seconds=120 * PATIENCE)
STUB = "    # YOUR CODE HERE\n    raise NotImplementedError"
TOTAL = "import numpy as np\ndef total(x):\n    return np.sum(np.asarray(x))"
DOUBLE = "def double(x):\n    return 2 * x"


def graded(name: str, **kind: Any) -> dict[str, Any]:
    """nbgrader's metadata."""
    plain = {"grade": False, "solution": False, "locked": False, "schema_version": 3, "grade_id": name}
    return {"nbgrader": plain | kind}


def source(own_test: str = "", more: tuple[NotebookNode, ...] = (), solved: bool = True) -> NotebookNode:
    """The instructor's notebook, or, unsolved, the one that students get."""
    mark = "    ### BEGIN SOLUTION\n    return {}\n    ### END SOLUTION" if solved else STUB
    tested = graded("own-test", grade=True, locked=True, points=1)
    cells = [
        new_markdown_cell("# Mini", id="title"),
        new_code_cell('profile = "cpu"\nseed = 0', id="parameters", metadata={"tags": ["parameters"]}),
        new_code_cell("import numpy as np\nfrom ampcourse import check", id="imports"),
        new_code_cell("def double(x):\n" + mark.format("2 * x"), id="double", metadata=graded("double", solution=True)),
        new_code_cell(
            'check("mini.double", double)',
            id="double-check",
            metadata=graded("double-check", grade=True, locked=True, points=2),
        ),
        new_code_cell(
            "def total(x):\n" + mark.format("np.sum(x)"), id="total", metadata=graded("total", solution=True)
        ),
        new_code_cell(
            'check("mini.total", total)',
            id="total-check",
            metadata=graded("total-check", grade=True, locked=True, points=3),
        ),
        *([new_code_cell(own_test, id="own", metadata=tested)] if own_test else []),
        new_markdown_cell("Why twice?", id="question"),
        new_markdown_cell(
            "Because." if solved else "YOUR ANSWER HERE",
            id="why",
            metadata=graded("why", grade=True, solution=True, points=2),
        ),
        *more,
    ]
    return new_notebook(cells=cells)


def handed_in(given: NotebookNode | None = None, **texts: str) -> NotebookNode:
    """The released notebook with the texts of some cells, by id, put in; "early" is a cell of the student's own."""
    notebook = source(solved=False) if given is None else given
    for cell in notebook.cells:
        if cell.id in texts:
            cell.source = texts.pop(cell.id)
    if "early" in texts:
        notebook.cells.insert(3, new_code_cell(texts["early"], id="early"))
    return notebook


def mini_assignment(
    notebook: NotebookNode | None = None, settings: Settings = SHORT, seconds: float = 2 * PATIENCE, **more: Any
) -> Assignment:
    """What is asked, with secret inputs of its own."""
    notebook = source() if notebook is None else notebook
    names = ("mini.double", "mini.total")
    asked = {n: Asked(n, "call", tuple(Question(check.exercise(n), [77, i]) for i in range(3)), seconds) for n in names}
    box = make_box(MINI, notebook, Path(__file__).parent.parent / "mini")
    return Assignment(MINI, MINI, nbformat.writes(notebook).encode(), {}, asked, box, settings, "digest", **more)


Grade = Callable[..., tuple[Graded, Mapping[str, QuestionResult], NotebookNode]]


def grader(assignment: Assignment, starter: Starter) -> Grade:
    """Grades a notebook; gives the result, the questions by name, and the graded notebook."""

    def grade(notebook: NotebookNode, **options: Any) -> tuple[Graded, Mapping[str, QuestionResult], NotebookNode]:
        raw = nbformat.writes(notebook).encode()
        found = grade_submission(Submission("ada", raw, **options), assignment, starter)
        assert found.notebook, found
        again = nbformat.reads(found.notebook.decode(), as_version=4)
        nbformat.validate(again)
        return found, {question.grade_id: question for question in found.questions}, again

    return grade


def outputs(notebook: NotebookNode, grade_id: str) -> list[NotebookNode]:
    """The outputs of a cell, by grade id or id."""
    return next(c for c in notebook.cells if grade_id in (about(c).get("grade_id"), c.id)).outputs
