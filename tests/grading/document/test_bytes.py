"""What is no notebook gives one sentence that says what it is instead; never another exception."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ampcourse.course import UserError
from ampcourse.grading.document import Unreadable, repair

from .samples import answers, at, mended, raw, release, solutions, solved, source

WHOLE = raw(solved("mini"))
CONFLICT = json.dumps(release("mini"), indent=1).replace(
    ' "cells": [', '<<<<<<< HEAD\n "cells": [\n=======\n "cells": [\n>>>>>>> theirs', 1
)
NO_NOTEBOOKS = {
    "empty": (b"", "is empty"),
    "white space": (b" \n\t\r\n", "is empty"),
    "NUL bytes": (b"\0" * 500, "NUL bytes"),
    "a NUL byte": (WHOLE[:50] + b"\0" + WHOLE[50:], "damaged"),
    "cut off in a text": (WHOLE[: WHOLE.index(b"Twice x")], "cut off"),
    "cut off after a cell": (WHOLE[: WHOLE.index(b"Twice x") - 30].rpartition(b",")[0] + b",", "cut off"),
    "cut off at half": (WHOLE[: len(WHOLE) // 2], "cut off"),
    "cut off utf-16": (WHOLE.decode().encode("utf-16")[:-1], "not UTF-8 text"),
    "html": (b"<!DOCTYPE html>\n<html><head><title>Log in</title>", "an HTML page, perhaps a login page"),
    "html, upper case": (b"\n\n  <HTML lang=en><BODY>", "an HTML page"),
    "xml": (b"<?xml version='1.0'?><notebook/>", "an XML document"),
    "conflict": (CONFLICT.encode(), "git's marks of a conflict (the first in line 2)"),
    "latin-1": ("{'cells': 'caf\xe9'}".encode("latin-1"), "not UTF-8 text"),
    "random bytes": (bytes(range(255, 100, -1)), "not UTF-8 text"),
    "zip": (b"PK\x03\x04\x14\0\0\0", "a ZIP archive"),
    "pdf": (b"%PDF-1.7", "a PDF document"),
    "picture": (b"\x89PNG\r\n\x1a\n", "a picture"),
    "pickle": (b"\x80\x04\x95\0\0\0\0", "not UTF-8 text"),
    "a script": (b"import numpy as np\n\nprint(1)", "is text, but not a notebook"),
    "trailing comma": (b'{"cells": [],}', "damaged at line 1"),
    "two notebooks": (WHOLE + WHOLE, "damaged at line 1, column"),
    "a list": (b"[1, 2]", "JSON, but not a notebook"),
    "a number": (b"3", "JSON, but not a notebook"),
    "null": (b"null", "JSON, but not a notebook"),
    "other JSON": (b'{"url": "https://colab.example"}', "no list of cells"),
    "cells is no list": (b'{"cells": {"0": {}}, "nbformat": 4}', "no list of cells"),
    "deep": (b"[" * 200_000, "nested too deeply"),
    "deep inside": (b'{"cells": ' + b'[{"a":' * 100_000, "nested too deeply"),
    "only a byte-order mark": (b"\xef\xbb\xbf", "is text"),
}


@pytest.mark.parametrize("name", NO_NOTEBOOKS)
def test_one_sentence_says_what_it_is(name: str) -> None:
    content, says = NO_NOTEBOOKS[name]
    with pytest.raises(Unreadable) as caught:
        repair(content, source("mini"))
    sentence = str(caught.value)
    assert says in sentence and isinstance(caught.value, UserError)
    assert "\n" not in sentence and sentence.startswith("The file") and sentence.endswith(".") and len(sentence) < 300


def _set(**fields: object) -> Callable[[dict], None]:
    """Change the answer cell 'double'."""

    def change(data: dict) -> None:
        data["cells"][at(data, "double")] |= fields

    return change


def _entry(value: object) -> Callable[[dict], None]:
    return lambda data: data["cells"].insert(3, value)


ODD_VALUES = {
    "huge whole number": (b'{"cells": %s, "nbformat": ' + b"9" * 50_000 + b"}", ""),
    "NaN": (b'{"cells": %s, "nbformat": NaN, "metadata": -Infinity}', ""),
    "duplicate keys": (b'{"cells": 3, "nbformat": 1, "cells": %s}', ""),
    "surrounded": (b'\n\n\t {"cells": %s}\n\n\n', ""),
}


@pytest.mark.parametrize("name", ODD_VALUES)
def test_odd_values_are_read(name: str) -> None:
    template, _ = ODD_VALUES[name]
    found = mended(template.replace(b"%s", raw(solved("mini")["cells"])))
    assert answers(found) == solutions("mini")


def test_half_characters_are_replaced_and_said() -> None:
    data = solved("mini")
    data["cells"][at(data, "double")]["source"] = "def double(x):\n    return 2 * x  # \ud83d \ud83d\ude00"
    found = mended(json.dumps(data).encode())
    assert answers(found)["double"].endswith("# \N{REPLACEMENT CHARACTER} \N{GRINNING FACE}")
    assert found.repairs == ("Characters that cannot be stored were replaced in 'double'.",)


def test_nul_characters_go() -> None:
    data = solved("mini")
    data["cells"][at(data, "double")]["source"] += "\0\0"
    assert answers(mended(data)) == solutions("mini")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (None, "Entry 4 of the notebook is not a cell"),
        ("a text", "Entry 4 of the notebook is not a cell"),
        ([], "Entry 4 of the notebook is not a cell"),
        ({"cell_type": "code", "source": 7}, "Cell 4 of the notebook holds no text that can be read"),
        ({"cell_type": "code", "source": ["x", None]}, "Cell 4 of the notebook holds no text that can be read"),
        ({"cell_type": "code", "source": {"a": 1}}, "Cell 4 of the notebook holds no text that can be read"),
    ],
)
def test_damaged_entries_are_left_out_and_named(entry: object, says: str) -> None:
    data = solved("mini")
    data["cells"].insert(3, entry)
    found = mended(data)
    assert answers(found) == solutions("mini")
    assert len(found.troubles) == 1 and found.troubles[0].startswith(says)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"cell_type": "code"},
        {"cell_type": None, "source": "x"},
        {"cell_type": ["code"], "source": "x"},
        {"cell_type": "sql", "source": "select", "outputs": 3, "metadata": []},
        {"cell_type": "heading", "level": "two", "source": "Own"},
        {"cell_type": "markdown", "source": "x", "attachments": {"a.png": {"image/png": 3, "text/html": "<b>"}}},
        {"cell_type": "markdown", "source": "x", "attachments": {"\ud800": {"image/png": "aGk="}}},
        {"cell_type": "code", "source": "x", "metadata": {"nbgrader": {"grade_id": ["double"]}, "tags": [{}]}},
        {"cell_type": "code", "source": "x", "metadata": {"nbgrader": 4, "tags": 3}, "id": {"a": 1}},
    ],
)
def test_odd_cells_disturb_nothing(entry: dict) -> None:
    data = solved("mini")
    data["cells"].insert(3, entry)
    found = mended(json.dumps(data).encode())
    assert answers(found) == solutions("mini")
    assert found.troubles == found.repairs == ()


def test_pictures_in_an_answer_are_kept_and_nothing_else_is() -> None:
    data = solved("mini")
    pictures = {"a.png": {"image/png": "aGk="}, "b.svg": {"image/svg+xml": "<svg onload=x>"}}
    data["cells"][at(data, "why")]["attachments"] = pictures
    found = mended(data)
    assert next(c for c in found.notebook.cells if c.id == "why").attachments == {"a.png": {"image/png": "aGk="}}


def test_a_heading_of_format_3_keeps_its_level() -> None:
    sheet = {"cells": [{"cell_type": "heading", "level": 2, "source": ["My part"]}]}
    found = mended({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [sheet, None, {"cells": 3}]})
    assert found.notebook.cells[0].source == "## My part"
    assert found.repairs[0] == "The notebook was in the old format 3; it was converted."


def test_a_notebook_of_another_lesson_is_said_to_be_one() -> None:
    found = mended(release("01_fp16_range"))
    says = "Hardly any cell of this notebook belongs to the lesson: perhaps another was meant."
    assert says in found.troubles and "double" in found.missing
    other = {"cells": [{"cell_type": "code", "source": "1", "metadata": {}}], "nbformat": 4}
    assert says in mended(other).troubles
    assert mended(release("mini")).troubles == ()


def test_an_empty_notebook_can_be_graded() -> None:
    found = mended({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    assert set(found.missing) == set(solutions("mini"))
    assert "return 2 * x" not in json.dumps(found.notebook)
