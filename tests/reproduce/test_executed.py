"""Reading executed notebooks: honest statuses, names of cells, ways to die."""

from __future__ import annotations

import pytest

from ampcourse.reproduce import executed


def cell(status, source="x = 1", **more):
    return {"cell_type": "code", "metadata": {"papermill": {"status": status}}, "source": source, **more}


def test_mending_tells_what_ran_from_what_did_not():
    error = {"output_type": "error", "ename": "SystemExit", "evalue": "0"}
    cells = [
        cell("completed"),
        cell("completed", outputs=[error]),
        cell("running"),
        cell("pending"),
        {"cell_type": "markdown", "metadata": {}, "source": "put in by papermill"},
    ]
    notebook = {"cells": cells, "metadata": {}}
    executed.mend(notebook)
    assert executed.statuses(notebook) == ["completed", "failed", "failed", "not run", None]
    assert notebook["metadata"]["papermill"]["exception"] is True
    executed.mend(notebook)
    assert executed.statuses(notebook) == ["completed", "failed", "failed", "not run", None]


def test_a_notebook_that_ran_through_is_left_alone():
    notebook = {"cells": [cell("completed")], "metadata": {}}
    executed.mend(notebook)
    assert notebook == {"cells": [cell("completed")], "metadata": {}}


def test_a_cell_is_named_by_its_prompt_and_first_line_of_code():
    named = executed.place(cell("failed", "# a comment\n\nloss = step(x)\nmore", execution_count=4))
    assert named == 'In [4] ("loss = step(x)")'
    assert executed.place(cell("failed", ["a = 1\n", "b"])) == 'In [ ] ("a = 1")'
    assert executed.place(None) == "The notebook"


@pytest.mark.parametrize(
    ("code", "words"), [(None, "ended"), (0, "exit code 0"), (3, "exit code 3"), (-9, "SIGKILL"), (-11, "segmentation")]
)
def test_deaths_in_words(code, words):
    assert words in executed.death(code)


def test_what_is_no_notebook_is_none(tmp_path):
    path = tmp_path / "x.ipynb"
    for text in ("", "[]", "{}", '{"cells": 1}', '{"cells": [', "<html>"):
        path.write_text(text)
        assert executed.load(path) is None
    assert executed.load(tmp_path / "missing.ipynb") is None
