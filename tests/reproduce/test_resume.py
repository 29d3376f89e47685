"""What is kept from an earlier run and what is run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ampcourse.course import load_course
from ampcourse.reproduce import sources

COUNTED = "with open(r'{log}', 'a') as file: file.write('{name} ')"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("resume")


def test_only_what_changed_failed_or_did_not_hold_runs_again(tiny, place):
    log, out = place / "log", place / "out"

    def course(good="1", failing="1 / 0"):
        # The last line of 02 records a value outside its range the first time only.
        return tiny.make_course(
            place / "course",
            {
                "00_good": [COUNTED.format(log=log, name="good"), f"a = {good}"],
                "01_failing": [COUNTED.format(log=log, name="failing"), failing],
                "02_outside": [
                    COUNTED.format(log=log, name="outside"),
                    f"from ampcourse import record; record('x', open(r'{log}').read().count('outside'))",
                ],
            },
            results={"02_outside": tiny.expects("x", 2, 2)},
        )

    def ran():
        words = sorted(log.read_text().split()) if log.exists() else []
        log.write_text("outside " if "outside" in words else "")
        return words

    first, _ = tiny.run(course(), out)
    assert ran() == ["failing", "good", "outside"]
    assert [one.good for one in first.notebooks] == [True, False, False]

    second, printed = tiny.run(course(), out)
    assert ran() == ["failing", "outside", "outside"]
    assert tiny.row(second, "00_good").kept
    assert tiny.row(second, "00_good").seconds == tiny.row(first, "00_good").seconds
    assert "00_good: ok (kept)" in printed
    assert (out / "executed" / "00_good.html").is_file()

    third, _ = tiny.run(course(good="2", failing="pass"), out)
    assert ran() == ["failing", "good", "outside"]
    assert third.exit_code == 0
    assert [one.kept for one in third.notebooks] == [False, False, True]

    one_alone, _ = tiny.run(course(good="2", failing="pass"), out, lessons=["0"], fresh=True)
    assert "good" in ran()
    assert [(one.lesson, one.kept) for one in one_alone.notebooks] == [("00_good", False)]

    again, _ = tiny.run(course(good="2", failing="pass"), out)
    assert set(ran()) <= {"outside"}
    assert [one.kept for one in again.notebooks] == [True, True, True]
    assert json.loads((out / "results.json").read_text())["notebooks"][2]["results"][0]["held"] is True


DAMAGED = {
    "no dictionary": lambda notebook: notebook["metadata"].update(ampcourse=5),
    "no metadata": lambda notebook: notebook.update(metadata=[]),
    "status alone": lambda notebook: notebook["metadata"].update(ampcourse={"status": "ok"}),
    "no seconds": lambda notebook: notebook["metadata"]["ampcourse"].pop("seconds"),
    "seconds in words": lambda notebook: notebook["metadata"]["ampcourse"].update(seconds="few"),
    "a cell is a number": lambda notebook: notebook["cells"].append(3),
    "outputs are a number": lambda notebook: notebook["cells"][-1].update(outputs=3),
    "data is a list": lambda notebook: notebook["cells"][-1].update(outputs=[{"data": []}]),
}


def test_an_executed_notebook_that_was_edited_or_damaged_is_run_again(tiny, tmp_path):
    slugs = [f"{number:02}_a" for number in range(len(DAMAGED))]
    course, out = tiny.make_course(tmp_path / "course", {slug: ["a = 1"] for slug in slugs}), tmp_path / "out"
    assert tiny.run(course, out)[0].exit_code == 0
    for slug, damage in zip(slugs, DAMAGED.values(), strict=True):
        path = out / "executed" / f"{slug}.ipynb"
        notebook = json.loads(path.read_text())
        damage(notebook)
        path.write_text(json.dumps(notebook))
    report, _ = tiny.run(course, out)
    assert report.exit_code == 0
    assert [row.lesson for row in report.notebooks if row.kept] == []


def test_what_an_earlier_run_recorded_never_passes_for_this_ones(tiny, tmp_path, monkeypatch):
    """The notebook's process dies before it has saved anything."""
    lessons = {"00_a": ["from ampcourse import record; record('x', 1)"]}
    course, out = (
        tiny.make_course(tmp_path / "course", lessons, results={"00_a": tiny.expects("x", 1, 1)}),
        tmp_path / "out",
    )
    assert tiny.run(course, out)[0].exit_code == 0
    dies = tmp_path / "python"
    dies.write_text("#!/bin/sh\nexit 3\n")
    dies.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(dies))
    report, _ = tiny.run(course, out, fresh=True)
    (row,) = report.notebooks
    assert (row.status, row.held, row.expected) == ("killed", 0, 1)
    assert row.results[0].note == "never recorded"
    assert not (out / "executed" / "00_a.ipynb").exists()


def test_a_fingerprint_follows_all_that_decides_the_results(tiny, tmp_path, monkeypatch):
    course = load_course(tiny.make_course(tmp_path / "course", {"00_a": ["x = 1"], "01_b": ["x = 2"]}))
    first, second = course.lessons

    def print_of(lesson=first, **parameters):
        return sources.fingerprint(course, lesson, {"profile": "cpu", "seed": 0, **parameters})

    usual = print_of()
    assert usual == print_of()
    others = [print_of(second), print_of(seed=1), print_of(profile="gpu"), print_of(more=1)]
    monkeypatch.setattr(sources, "_own_code", lambda: "changed")
    others.append(print_of())
    monkeypatch.undo()
    versions = sources.machine.versions()
    monkeypatch.setattr(sources.machine, "versions", lambda: {**versions, "tensorflow": "2.22.0"})
    others.append(print_of())
    assert len({usual, *others}) == 7


def test_our_code_and_data_are_part_of_the_fingerprint(tmp_path, monkeypatch):
    package = tmp_path / "ampcourse"
    (package / "sub").mkdir(parents=True)
    (package / "sub" / "a.py").write_text("a = 1")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "d.npz").write_bytes(b"1")
    monkeypatch.setattr(sources, "_PACKAGE", package)
    seen = set()

    def look():
        sources._own_code.cache_clear()
        seen.add(sources._own_code())
        return len(seen)

    assert look() == 1
    assert look() == 1
    Path(package / "sub" / "a.py").write_text("a = 2")
    assert look() == 2
    Path(tmp_path / "data" / "d.npz").write_bytes(b"2")
    assert look() == 3
    sources._own_code.cache_clear()
