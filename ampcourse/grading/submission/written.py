"""Questions that a person marks: worth nothing while they are as they were given out, else left open."""

from __future__ import annotations

from nbformat import NotebookNode

from ampcourse.grading.cells import BEGIN, END, about
from ampcourse.grading.model import QuestionResult
from ampcourse.grading.submission.judged import NO_CELL, NOT_ATTEMPTED, WRITTEN

TEXT_STUB = "YOUR ANSWER HERE"
CODE_STUB = "# YOUR CODE HERE\nraise NotImplementedError()"


def read_written(cell: NotebookNode, given: NotebookNode | None, missing: bool = False) -> QuestionResult:
    """The result of a written question: 0 if its text is what the release holds, as nbgrader does; else None.

    Args:
        cell: the student's.
        given: the instructor's cell, with the solution.
        missing: whether the submission had no such cell.
    """
    name, points = about(cell)["grade_id"], float(about(cell).get("points") or 0)
    if missing:
        return QuestionResult(name, "written", points, 0.0, NO_CELL, reason="The answer's cell was not there.")
    if given is not None and about(cell).get("solution") and cell.source.strip() == stub(given).strip():
        return QuestionResult(name, "written", points, 0.0, NOT_ATTEMPTED, reason="The text is as it was given out.")
    return QuestionResult(name, "written", points, None, WRITTEN)


def stub(cell: NotebookNode) -> str:
    """What nbgrader makes of an instructor's answer cell when it takes the solution out."""
    text = CODE_STUB if cell.cell_type == "code" else TEXT_STUB
    lines, inside, replaced = [], False, False
    for line in cell.source.split("\n"):
        if BEGIN in line:
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + stub_line for stub_line in text.split("\n")]
            inside = replaced = True
        elif END in line:
            inside = False
        elif not inside:
            lines.append(line)
    return "\n".join(lines) if replaced else text
