"""A lesson marked `last` runs when the others have ended, and can read what they recorded."""

from __future__ import annotations

import pytest

READS = """
import os, json, pathlib
folder = pathlib.Path(os.environ["AMPCOURSE_EXECUTED"])
found = sorted(path.stem for path in folder.glob("*.ipynb") if path.stem != "00_reader")
text = "".join((folder / f"{name}.ipynb").read_text() for name in found)
from ampcourse import record
record("ended", sum('"value": 42' in (folder / f"{name}.ipynb").read_text() for name in found))
record("five", '"value": 5' in text)
"""
GIVES = "import time; time.sleep({pause}); from ampcourse import record; record('x', {value})"


@pytest.fixture(scope="module")
def make(tiny, tmp_path_factory):
    root = tmp_path_factory.mktemp("last") / "course"

    def course(value=42):
        lessons = {"00_reader": [READS]} | {f"0{n}_giver": [GIVES.format(pause=n / 2, value=42)] for n in (1, 2)}
        lessons["03_giver"] = [GIVES.format(pause=0, value=value)]
        made = tiny.make_course(root, lessons)
        toml = made / "course.toml"
        toml.write_text(toml.read_text().replace('slug = "00_reader"', 'slug = "00_reader"\nlast = true'), "utf-8")
        return made

    return course


def value(report, name):
    row = next(row for row in report.notebooks if row.lesson == "00_reader")
    assert row.status == "ok", row.reason
    return next(one.value for one in row.results if one.name == name), row.kept


def test_it_sees_all_others_and_runs_again_when_they_say_something_else(make, tiny, tmp_path):
    first, _ = tiny.run(make(), tmp_path, jobs=2)
    assert value(first, "ended") == (3, False)
    again, _ = tiny.run(make(), tmp_path, jobs=2)
    assert value(again, "ended") == (3, True)
    tiny.run(make(5), tmp_path, lessons=["03_giver"])
    later, _ = tiny.run(make(5), tmp_path, jobs=2)
    assert value(later, "five") == (True, False)
    assert all(row.kept for row in later.notebooks if row.lesson != "00_reader")
