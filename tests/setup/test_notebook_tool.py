"""`make format` leaves notebooks in one form, whatever Jupyter saved; the sources that are here have it already."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from clone import ROOT


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import notebooks

    return notebooks


def saved_by_jupyter() -> dict:
    """A notebook as an editor leaves it: run, with outputs, folded cells, an old minor version."""
    graded = {
        "grade": True,
        "solution": False,
        "locked": True,
        "points": 2,
        "grade_id": "ulp-check",
        "schema_version": 3,
    }
    output = {"output_type": "stream", "name": "stdout", "text": "hello\n"}
    return {
        "nbformat": 4,
        "nbformat_minor": 4,
        "metadata": {"kernelspec": {"name": "my-env", "display_name": "Mine"}, "widgets": {}, "toc": {"base": 1}},
        "cells": [
            {
                "cell_type": "markdown",
                "metadata": {"collapsed": True, "tags": ["interpretation"]},
                "source": "# Straße\n",
            },
            {
                "cell_type": "code",
                "execution_count": 7,
                "metadata": {
                    "nbgrader": graded,
                    "execution": {"iopub.status.busy": "now"},
                    "scrolled": True,
                    "tags": [],
                },
                "outputs": [output],
                "source": ["a = 1\n", "a\n", "\n"],
            },
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ""},
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ""},
        ],
    }


def test_outputs_counts_and_what_editors_leave_behind_go_and_the_rest_stays(tool) -> None:
    text = tool.normalise(json.dumps(saved_by_jupyter()))
    notebook = json.loads(text)
    nbformat.validate(nbformat.from_dict(notebook))
    markdown, code, *_ = notebook["cells"]
    assert markdown["metadata"] == {"tags": ["interpretation"]}
    assert markdown["source"] == ["# Straße"]
    assert (code["outputs"], code["execution_count"]) == ([], None)
    assert list(code["metadata"]) == ["nbgrader"]
    assert code["metadata"]["nbgrader"]["points"] == 2
    assert code["source"] == ["a = 1\n", "a"]
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert "widgets" not in text
    assert "Straße" in text, "letters stay readable in a diff"
    assert text.endswith("}\n")


def test_normalising_twice_changes_nothing_more(tool) -> None:
    once = tool.normalise(json.dumps(saved_by_jupyter()))
    assert tool.normalise(once) == once


def test_ids_are_unique_the_same_everywhere_and_kept_where_valid(tool) -> None:
    notebook = saved_by_jupyter()
    ids = [cell["id"] for cell in json.loads(tool.normalise(json.dumps(notebook)))["cells"]]
    assert len(set(ids)) == 4
    assert ids == [cell["id"] for cell in json.loads(tool.normalise(json.dumps(notebook)))["cells"]]
    assert ids[1] == "ulp-check", "a graded cell is called by its grade_id"
    notebook["nbformat_minor"] = 5
    for cell, name in zip(notebook["cells"], ("intro", "same", "same", "fine_1"), strict=True):
        cell["id"] = name
    kept, again = ([cell["id"] for cell in json.loads(tool.normalise(json.dumps(notebook)))["cells"]] for _ in range(2))
    assert kept == again
    assert (kept[0], kept[1], kept[3]) == ("intro", "same", "fine_1")
    assert kept[2] not in ("same", "")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"cells": 3, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}']
)
def test_what_is_no_notebook_is_named_and_left_alone(
    tool, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_text(text)
    assert tool.main([str(path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"'{path}' is not a notebook that can be read: ")
    assert said.count("\n") == 1
    assert path.read_text() == text


def test_check_changes_nothing_and_says_what_to_do(tool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a lesson é.ipynb"
    path.write_text(json.dumps(saved_by_jupyter()), "utf-8")
    before = path.read_bytes()
    assert tool.main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"'{path}' is not normalised: run make format.\n"
    assert path.read_bytes() == before
    assert tool.main([str(tmp_path)]) == 0
    assert path.read_bytes() != before
    assert tool.main(["--check", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    assert sorted(tmp_path.iterdir()) == [path]


def test_the_source_notebooks_are_normalised(tool, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--check"]) == 0, capsys.readouterr().err
    assert any((ROOT / "notebooks" / "source").rglob("*.ipynb"))
