"""Whatever bytes come in: a valid notebook with the instructor's structure, or one sentence."""

from __future__ import annotations

import copy
import json
import os
import time
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampcourse.grading.cells import about
from ampcourse.grading.document import Repaired, Unreadable

from .samples import ALL, answers, at, mended, raw, release, solutions, solved, source
from .test_whole import MANGLED

RELAXED = settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def never_worse(content: bytes, lesson: str) -> None:
    """The whole promise: `mended` checks validity, structure and metadata."""
    try:
        found = mended(content, lesson)
    except Unreadable as error:
        sentence = str(error)
    else:
        sentence = ""
        _has_the_lessons_structure(found, lesson)
    assert "\n" not in sentence and (not sentence or sentence.endswith("."))


def _has_the_lessons_structure(found: Repaired, lesson: str) -> None:
    points = [about(cell).get("points", 0) for cell in found.notebook.cells]
    assert sum(points) == sum(about(cell).get("points", 0) for cell in source(lesson).cells)
    for sentence in (*found.repairs, *found.troubles):
        assert "\n" not in sentence and sentence.endswith(".")
    again = mended(nbformat.writes(found.notebook).encode(), lesson)
    assert again.notebook == found.notebook


@RELAXED
@given(data=st.data(), lesson=st.sampled_from(ALL))
def test_changed_bytes(data: st.DataObject, lesson: str) -> None:
    content = bytearray(raw(solved(lesson)))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 40) | st.integers(0, len(content)))
        content[start : start + length] = data.draw(st.binary(max_size=20) | st.just(content[:length]))
    never_worse(bytes(content), lesson)


@RELAXED
@given(content=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes(content: bytes) -> None:
    never_worse(content, "mini")


def _places(value: Any, path: tuple = ()) -> list[tuple]:
    """Every place in a JSON value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path, *(place for key in keys for place in _places(value[key], (*path, key)))]


@RELAXED
@given(data=st.data(), lesson=st.sampled_from(ALL))
def test_changed_json(data: st.DataObject, lesson: str) -> None:
    notebook = solved(lesson)
    places = _places(notebook)[1:]
    for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=6)):
        *above, last = place
        inside: Any = notebook
        try:
            for key in above:
                inside = inside[key]
            inside[last]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
        if not isinstance(inside, dict | list):
            continue
        if data.draw(st.booleans()):
            del inside[last]
        else:
            inside[last] = data.draw(JSON)
    never_worse(json.dumps(notebook).encode(), lesson)


CELL = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", "raw"]), "source": st.text(max_size=30), "metadata": st.just({})}
)


@RELAXED
@given(data=st.data(), lesson=st.sampled_from(ALL))
def test_cells_deleted_copied_moved_and_put_in(data: st.DataObject, lesson: str) -> None:
    notebook = data.draw(st.sampled_from([solved, release]))(lesson)
    cells = notebook["cells"]
    for _ in range(data.draw(st.integers(1, 12))):
        if not cells:
            break
        place = data.draw(st.integers(0, len(cells) - 1))
        match data.draw(st.sampled_from(["delete", "copy", "move", "insert", "bare", "edit", "cut", "merge"])):
            case "delete":
                del cells[place]
            case "copy":
                cells.insert(data.draw(st.integers(0, len(cells))), copy.deepcopy(cells[place]))
            case "move":
                cells.insert(data.draw(st.integers(0, len(cells) - 1)), cells.pop(place))
            case "insert":
                cells.insert(place, data.draw(CELL))
            case "bare":
                cells[place] = {name: cells[place][name] for name in ("cell_type", "source")} | {"metadata": {}}
            case "edit":
                cells[place]["source"] = data.draw(st.text(max_size=20)) + cells[place]["source"]
            case "cut":
                text, at = cells[place]["source"], data.draw(st.integers(0, len(cells[place]["source"])))
                cells[place]["source"] = text[:at]
                cells.insert(place + 1, copy.deepcopy(cells[place]) | {"source": text[at:]})
            case "merge":
                if place + 1 < len(cells):
                    cells[place]["source"] += "\n\n" + cells.pop(place + 1)["source"]
    never_worse(raw(notebook), lesson)


LATE = "flags turned, lines"
HARMLESS = [
    *("no metadata", "text alone", "colab", "a hundred points", "flags turned", "old schema", "renamed", "hints"),
    *("lines", "windows", "trailing space", "same id", "no id", "locked to markdown", "split, both marked"),
    *("graded cells copied", "own cells", "locked cells deleted", "other kernel"),
]


@RELAXED
@given(
    names=st.lists(st.sampled_from(HARMLESS), max_size=4, unique=True), lesson=st.sampled_from(ALL), old=st.booleans()
)
def test_right_answers_survive_any_sequence(names: list[str], lesson: str, old: bool) -> None:
    notebook = solved(lesson)
    for name in sorted(names, key=LATE.find):  # what others go by changes last
        notebook = MANGLED[name](notebook)
    if old and "lines" not in names:
        cells = [{"input" if c["cell_type"] == "code" else "source": c.pop("source"), **c} for c in notebook["cells"]]
        notebook = {"worksheets": [{"cells": cells}], "nbformat": 3, "nbformat_minor": 0}
    found = mended(json.dumps(notebook).encode("utf-8-sig"), lesson)
    for name, text in answers(found).items():
        if name == "manual" and any("the answer 'manual'" in trouble for trouble in found.troubles):
            continue  # it defines nothing: among cells of the student's own, and without marks, nobody can tell
        lines = [line for line in _lines(text) if line != "my own note"]  # beside a written answer nobody can tell
        assert lines == _lines(solutions(lesson)[name])


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


DEEP = [
    "(" * 50_000,
    "-" * 90_000 + "1",
    "a" + ".a" * 40_000,
    "if 1:\n" * 90,
    "1+" * 40_000 + "1",
    "[" * 99_000,
    "f'{" * 30_000,
]


@pytest.mark.parametrize("text", DEEP, ids=[text[:6] for text in DEEP])
def test_code_that_is_hard_to_parse(text: str) -> None:
    notebook = solved("mini")
    for cell in notebook["cells"][2:6]:
        cell["source"] = text
    never_worse(raw(notebook), "mini")


@pytest.mark.parametrize("kind", ["code", "markdown"])
@pytest.mark.parametrize("text", ["x = {}", "check('mini.double', double)", "def double(x):\n    return {}"])
def test_very_many_cells_are_cut(kind: str, text: str) -> None:
    notebook = solved("mini")
    notebook["cells"] += [{"cell_type": kind, "source": text.format(n), "metadata": {}} for n in range(50_000)]
    content = raw(notebook)
    start = time.perf_counter()
    found = mended(content)
    assert time.perf_counter() - start < 10 * float(os.environ.get("AMPCOURSE_PATIENCE", "1"))  # 0.5 s on an idle core
    assert answers(found) == solutions("mini")
    assert len(found.notebook.cells) <= 520 and len(found.troubles) == 2


def test_a_very_long_text_is_emptied_and_said() -> None:
    notebook = solved("mini")
    notebook["cells"][at(notebook, "double")]["source"] = "x = 1\n" * 3_000_000
    notebook["cells"].append({"cell_type": "markdown", "source": "long " * 1_000_000, "metadata": {}})
    found = mended(notebook)
    assert answers(found) == solutions("mini") | {"double": ""}
    assert found.troubles[0].endswith("holds 17.2 MiB of text; it was emptied.") and len(found.troubles) == 2
