"""The cell on top of a graded notebook that says what was put right in it."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

HEAD = "**What the grader noticed about this notebook**"

_MEANS_SOMETHING = re.compile(r"([!-/:-@\[-`{-~])")  # all of ASCII's punctuation: Markdown lets each be escaped


def banner(notebook: NotebookNode, sentences: Sequence[str]) -> NotebookNode:
    """A copy of a notebook with one more Markdown cell on top that lists the sentences; without any, just a copy."""
    notebook = copy.deepcopy(notebook)
    if sentences:
        listed = "\n".join(f"- {text_for_people(sentence)}" for sentence in sentences)
        notebook.cells.insert(0, new_markdown_cell(f"{HEAD}\n\n{listed}", id=_fresh(notebook), metadata={}))
    return notebook


def text_for_people(text: str) -> str:
    """A text on one line in which nothing is Markdown, HTML or a formula."""
    return _MEANS_SOMETHING.sub(r"\\\1", " ".join(text.split())).replace("\\<", "&lt;").replace("\\&", "&amp;")


def _fresh(notebook: NotebookNode) -> str:
    taken = {cell.get("id") for cell in notebook.cells}
    return next(name for name in ("noticed", *(f"noticed-{n}" for n in range(len(taken)))) if name not in taken)


def is_banner(text: str) -> bool:
    """Whether a cell is one that `banner` made, in a notebook that is handed in once more."""
    return text.lstrip().startswith(HEAD)
