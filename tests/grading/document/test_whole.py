"""A right submission keeps its right answers, whatever editors, Colab, file systems and students do to the file."""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable
from typing import Any

import nbformat
import pytest

from .samples import ALL, answers, at, code, markdown, mended, raw, release, solutions, solved, source

Mangle = Callable[[dict[str, Any]], Any]


def _each(change: Callable[[dict[str, Any]], Any]) -> Mangle:
    def mangle(data: dict[str, Any]) -> dict[str, Any]:
        for cell in data["cells"]:
            change(cell)
        return data

    return mangle


def _no_metadata(cell: dict[str, Any]) -> None:
    cell["metadata"] = {}


def _nothing_at_all(cell: dict[str, Any]) -> None:
    for name in set(cell) - {"cell_type", "source", "metadata"}:
        del cell[name]
    cell["metadata"] = {}


def _colab(cell: dict[str, Any]) -> None:
    cell["metadata"] = {"id": f"{random.Random(cell['source']).randrange(2**40):x}", "colab": {"base_uri": "https://x"}}
    cell["outputs"] = [{"output_type": "display_data", "data": {"text/html": "<script>1</script>"}, "metadata": {}}]
    cell.pop("id", None)


def _hundred_points(cell: dict[str, Any]) -> None:
    cell["metadata"].get("nbgrader", {}).update(points=100, locked=False)


def _flags(cell: dict[str, Any]) -> None:
    marks = cell["metadata"].get("nbgrader", {})
    marks.update({flag: not marks.get(flag) for flag in ("grade", "solution", "locked", "task") if marks})


def _old_schema(cell: dict[str, Any]) -> None:
    marks = cell["metadata"].get("nbgrader", {})
    marks.pop("task", None)
    marks.pop("points", None)
    marks.update(schema_version=1, checksum="0" * 32)


def _renamed(cell: dict[str, Any]) -> None:
    if marks := cell["metadata"].get("nbgrader"):
        marks["grade_id"] = f"my-{marks['grade_id']}"


def _hints(cell: dict[str, Any]) -> None:
    cell["metadata"]["tags"] = ["skip-execution", "raises-exception", "parameters", "interpretation"]
    cell["metadata"]["execution"] = {"timeout": 1}


def _as_lines(cell: dict[str, Any]) -> None:
    cell["source"] = cell["source"].splitlines(keepends=True)


def _windows(cell: dict[str, Any]) -> None:
    cell["source"] = cell["source"].replace("\n", "\r\n")


def _trailing_space(cell: dict[str, Any]) -> None:
    cell["source"] = cell["source"] + "  \n\n"


def _wild_outputs(cell: dict[str, Any]) -> None:
    cell |= {"outputs": [None, 3, {"output_type": "pyout"}], "execution_count": "many", "attachments": [1]}


def _same_id(cell: dict[str, Any]) -> None:
    cell["id"] = "the-same"


def _locked_to_markdown(cell: dict[str, Any]) -> None:
    if cell["source"].startswith(("check(", "assert ")):
        cell["cell_type"] = "markdown"


def _version(**numbers: Any) -> Mangle:
    return lambda data: data | numbers


def _no_version(data: dict[str, Any]) -> dict[str, Any]:
    return {"cells": data["cells"]}


def _format_3(data: dict[str, Any]) -> dict[str, Any]:
    return json.loads(nbformat.writes(nbformat.convert(nbformat.from_dict(data), 3), version=3))


def _encoded(encoding: str) -> Mangle:
    return lambda data: json.dumps(data, ensure_ascii=False).encode(encoding)


def _copied(*names: str) -> Mangle:
    """Copies of the first cells of a kind, each beside its original and at the end."""

    def mangle(data: dict[str, Any]) -> dict[str, Any]:
        for name in names or _graded(data):
            place = at(data, name)
            data["cells"].insert(place, copy.deepcopy(data["cells"][place]))
            data["cells"].append(copy.deepcopy(data["cells"][place]))
        return data

    return mangle


def _graded(data: dict[str, Any]) -> list[str]:
    marks = [cell["metadata"].get("nbgrader", {}) for cell in data["cells"]]
    return [mark["grade_id"] for mark in marks if mark.get("grade")]


def _split(*, marked: bool) -> Mangle:
    """Every answer that is code split in the middle of its function, as JupyterLab's command does it."""

    def mangle(data: dict[str, Any]) -> dict[str, Any]:
        cells = []
        for cell in data["cells"]:
            lines = cell["source"].split("\n")
            if cell["metadata"].get("nbgrader", {}).get("solution") and cell["cell_type"] == "code" and len(lines) > 2:
                second = copy.deepcopy(cell) | {"source": "\n".join(lines[-1:])}
                if not marked:
                    second["metadata"] = {}
                second.pop("id", None)
                cells += [cell | {"source": "\n".join(lines[:-1])}, second]
            else:
                cells.append(cell)
        return data | {"cells": cells}

    return mangle


def _own_cells(data: dict[str, Any]) -> dict[str, Any]:
    for place in range(len(data["cells"]), -1, -3):
        data["cells"].insert(place, code(["check(1)", "%%time\n1 +", "def (", "", "import os", "x = 1"][place % 6]))
        data["cells"].insert(place, markdown("my own note"))
    return data


def _no_locked(data: dict[str, Any]) -> dict[str, Any]:
    return data | {"cells": [c for c in data["cells"] if not c["metadata"].get("nbgrader", {}).get("locked")]}


def _no_given(data: dict[str, Any]) -> dict[str, Any]:
    return data | {"cells": [c for c in data["cells"] if c["metadata"].get("nbgrader")]}


def _swapped_names(data: dict[str, Any]) -> dict[str, Any]:
    """nbgrader's names moved on by one, from each marked code cell to the next."""
    marked = [c for c in data["cells"] if c["metadata"].get("nbgrader") and c["cell_type"] == "code"]
    marks = [cell["metadata"] for cell in marked]
    for cell, other in zip(marked, marks[1:] + marks[:1], strict=True):
        cell["metadata"] = other
    return data


def _other_kernel(data: dict[str, Any]) -> dict[str, Any]:
    return data | {"metadata": {"kernelspec": {"name": "my-conda"}, "widgets": {"x": "y"}, "celltoolbar": 3}}


def _metadata_is_nothing(data: dict[str, Any]) -> dict[str, Any]:
    return data | {"metadata": None}


MANGLED: dict[str, Mangle] = {
    "as it is": lambda data: data,
    "no metadata": _each(_no_metadata),
    "text alone": _each(_nothing_at_all),
    "colab": _each(_colab),
    "a hundred points": _each(_hundred_points),
    "flags turned": _each(_flags),
    "old schema": _each(_old_schema),
    "renamed": _each(_renamed),
    "hints": _each(_hints),
    "lines": _each(_as_lines),
    "windows": _each(_windows),
    "trailing space": _each(_trailing_space),
    "outputs": _each(_wild_outputs),
    "same id": _each(_same_id),
    "no id": _each(lambda cell: cell.pop("id", None)),
    "locked to markdown": _each(_locked_to_markdown),
    "minor 0": _version(nbformat_minor=0),
    "minor 4": _version(nbformat_minor=4),
    "minor 99": _version(nbformat_minor=99),
    "format 5": _version(nbformat=5),
    "format 2": _version(nbformat=2),
    "format text": _version(nbformat="4", nbformat_minor="x"),
    "format 4.0": _version(nbformat=4.0, nbformat_minor=None),
    "no version": _no_version,
    "format 3": _format_3,
    "byte-order mark": _encoded("utf-8-sig"),
    "utf-16": _encoded("utf-16"),
    "utf-16-be": _encoded("utf-16-be"),
    "utf-32": _encoded("utf-32"),
    "utf-32-le": _encoded("utf-32-le"),
    "graded cells copied": _copied(),
    "split, both marked": _split(marked=True),
    "split, one marked": _split(marked=False),
    "split, none marked": lambda data: _each(_no_metadata)(_split(marked=False)(data)),
    "own cells": _own_cells,
    "own cells, no metadata": lambda data: _each(_no_metadata)(_own_cells(data)),
    "locked cells deleted": _no_locked,
    "given cells deleted": _no_given,
    "names swapped": _swapped_names,
    "names swapped, no id": lambda data: _each(lambda cell: cell.pop("id", None))(_swapped_names(data)),
    "other kernel": _other_kernel,
    "metadata null": _metadata_is_nothing,
    "cells upside down": lambda data: data | {"cells": data["cells"][::-1]},
}
SAY_NOTHING = {
    *(
        "as it is",
        "lines",
        "windows",
        "trailing space",
        "outputs",
        "same id",
        "no id",
        "minor 0",
        "minor 4",
        "minor 99",
    ),
    *("format 2", "format text", "format 4.0", "no version", "byte-order mark", "own cells", "other kernel"),
    "metadata null",
}


@pytest.mark.parametrize("lesson", ALL)
@pytest.mark.parametrize("name", MANGLED)
def test_right_answers_stay_right(name: str, lesson: str) -> None:
    found = mended(MANGLED[name](solved(lesson)), lesson)
    assert {k: v.rstrip() for k, v in answers(found).items()} == solutions(lesson)
    assert found.missing == ()
    assert found.troubles == ()
    assert bool(found.repairs) == (name not in SAY_NOTHING), found.repairs


@pytest.mark.parametrize("lesson", ALL)
@pytest.mark.parametrize("name", MANGLED)
def test_repairing_twice_is_repairing_once(name: str, lesson: str) -> None:
    once = mended(MANGLED[name](solved(lesson)), lesson)
    twice = mended(nbformat.writes(once.notebook).encode(), lesson)
    assert twice.notebook == once.notebook
    assert twice.repairs == twice.troubles == ()


@pytest.mark.parametrize("lesson", ALL)
def test_the_untouched_release_is_the_release_with_its_hidden_parts(lesson: str) -> None:
    found = mended(release(lesson), lesson)
    assert (found.repairs, found.troubles, found.missing, found.changed) == ((), (), (), frozenset())
    hidden = {cell.id: cell.source for cell in source(lesson).cells if "BEGIN HIDDEN" in cell.source}
    hidden |= {cell.id: cell.source for cell in source(lesson).cells if "BEGIN MARK" in cell.source}
    expected = [(c["id"], c["cell_type"], hidden.get(c["id"], c["source"])) for c in release(lesson)["cells"]]
    assert [(cell.id, cell.cell_type, cell.source) for cell in found.notebook.cells] == expected
    assert found.notebook.metadata == {"kernelspec": found.notebook.metadata.kernelspec}
    assert found.notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("lesson", ALL)
@pytest.mark.parametrize("name", ["as it is", "no metadata", "colab", "own cells, no metadata"])
def test_it_is_fast(name: str, lesson: str) -> None:
    data = raw(MANGLED[name](solved(lesson)))
    mended(data, lesson)  # the lesson itself is read once
    times = []
    for _ in range(5):
        start = time.perf_counter()
        mended(data, lesson)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.3  # about 0.01 s on an idle core, validation not counted
