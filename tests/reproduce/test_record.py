"""`record`: what it takes, what it refuses, and what a notebook keeps of it."""

from __future__ import annotations

import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from ampcourse.reproduce.record import MIME, json_value, plain_value, record, text_value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (3, 3),
        (2.5, 2.5),
        (True, True),
        ("text", "text"),
        (np.float16(0.5), 0.5),
        (np.float64(-np.inf), -np.inf),
        (np.int64(7), 7),
        (np.True_, True),
        (np.array(4), 4),
        (np.array([[1.5]]), 1.5),
        (ml_dtypes.bfloat16(1.5), 1.5),
        (np.array([0.25], ml_dtypes.float8_e4m3fn), 0.25),
        (np.str_("word"), "word"),
    ],
)
def test_single_values_become_plain_python(value, plain):
    got = plain_value(value)
    assert got == plain
    assert type(got) is type(plain)


@pytest.mark.parametrize(
    "value", [None, [1.0], (1,), {}, 1j, b"bytes", object(), np.array([1, 2]), np.array([]), np.array(1j)]
)
def test_anything_else_is_refused_by_name(value):
    with pytest.raises(TypeError, match="record\\('speed', ...\\): give one number, True, False or a text, not"):
        record("speed", value)


def test_names_are_texts_that_say_something():
    with pytest.raises(ValueError, match="the name is empty"):
        record(" ", 1)
    with pytest.raises(TypeError, match="name and unit must be texts"):
        record(1, 1)
    with pytest.raises(ValueError, match="more than 1,000 characters"):
        record("long", "x" * 1_001)


def test_non_finite_values_are_texts_in_strict_json():
    for value, text in ((float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")):
        assert json_value(value) == text
    assert json.loads(json.dumps(json_value(0.1), allow_nan=False)) == 0.1


def test_people_read_rounded_values():
    assert text_value(0.123456789) == "0.123457"
    assert text_value(65504) == "65,504"
    assert text_value(False) == "False"


def test_in_a_script_it_prints_and_loads_nothing_heavy():
    code = (
        "import sys; from ampcourse import record; record('size', 65504, 'bytes'); record('t', float('nan'));"
        "assert not {'IPython', 'papermill', 'tensorflow'} & set(sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "size = 65,504 bytes\nt = nan\n"
    assert ran.stderr == ""


def test_plain_papermill_needs_no_runner(tiny, tmp_path):
    cells = [
        "from ampcourse import record",
        "record('x', 2.5, 'ms'); record('bad', float('inf'))",
        "print(profile, seed)",
    ]
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    source.write_text(json.dumps(tiny.notebook(cells)))
    command = [sys.executable, "-m", "papermill", source, target, "-p", "profile", "gpu", "-p", "seed", "5"]
    subprocess.run([*map(str, command), "-k", "python3"], check=True, capture_output=True, cwd=tmp_path)
    made = json.loads(target.read_text())
    outputs = [output for cell in made["cells"] for output in cell.get("outputs", [])]
    shown = [output["data"] for output in outputs if "data" in output]
    assert shown[0][MIME] == {"name": "x", "value": 2.5, "unit": "ms"}
    assert "".join(shown[0]["text/plain"]) == "x = 2.5 ms"
    assert shown[1][MIME]["value"] == "inf"
    assert [output["text"] for output in outputs if output.get("name") == "stdout"] == [["gpu 5\n"]]
