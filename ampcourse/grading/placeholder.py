"""What stands in `autograded/` for a submission that gave no score, so that formgrader and feedback know of it."""

from __future__ import annotations

import json
from typing import Any

from ampcourse.grading.cells import about

_KEPT = ("nbgrader", "editable", "deletable")


def placeholder(source: bytes, sentence: str) -> bytes:
    """A notebook that says why there is no score, then the source's graded cells, with no answers and no points.

    Args:
        source: the instructor's notebook.
        sentence: the reason.
    """
    import nbformat
    from nbformat.v4 import new_markdown_cell, new_notebook

    given = nbformat.reads(source.decode("utf-8"), as_version=4)
    cells = [new_markdown_cell(f"**There is no score yet.** {_plain(sentence)}", id="no-score")]
    cells += [_cell(cell, number) for number, cell in enumerate(given.cells) if about(cell)]
    notebook = new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _cell(cell: Any, number: int) -> Any:
    """A graded cell without what a student would have to write. A test that did not run must not count as passed."""
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

    says = about(cell)
    source = "" if says.get("solution") else cell.source
    metadata = {key: cell.metadata[key] for key in _KEPT if key in cell.metadata}
    if cell.cell_type != "code":
        return new_markdown_cell(source, id=f"cell-{number}", metadata=metadata)
    made = new_code_cell(source, id=f"cell-{number}", metadata=metadata)
    if says.get("grade"):
        text = "This cell was not run."
        made.outputs = [new_output("error", ename="NotGraded", evalue=text, traceback=[f"NotGraded: {text}"])]
    return made


def _plain(sentence: str) -> str:
    """Text that Markdown shows as it is: a file name in a sentence may be anything."""
    escaped = "".join(f"\\{c}" if c in "\\`*_{}[]<>#+-!|~$&" else c for c in sentence if c.isprintable())
    return escaped.strip()
