"""One run of a course in which everything goes wrong that can: each failure is a row, and the others still run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import psutil
import pytest

from ampcourse.reproduce import processes
from ampcourse.reproduce.quick import import_jsonschema
from ampcourse.reproduce.report import print_table

CHILD = """import subprocess, sys
code = "import os, time; os.setsid(); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code])
open(r"{pids}/{name}", "w").write(str(child.pid));"""
OLD_FORMAT = json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": []}]})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a place wíth spaces {and braces}")
    (folder / "pids").mkdir()
    return folder


@pytest.fixture(scope="module")
def failures(tiny, place):
    def child(name):
        return CHILD.format(pids=place / "pids", name=name)

    x = tiny.expects("x", 1, 2)
    bare = tiny.notebook(["import sys; print('hidden', file=sys.stderr); print(profile, seed)"])
    bare["metadata"] = {}
    course = tiny.make_course(
        place / "course",
        {
            "00_good": ["from ampcourse import record", "record('x', 1.5)"],
            "01_raises": ["a = 1", "1 / 0", "# never", "b = 2"],
            "02_killed": ["a = 1", "import os, signal; os.kill(os.getpid(), 9)", "b = 2"],
            "03_segfault": ["import ctypes; ctypes.string_at(0)", "b = 2"],
            "04_sys_exit": ["a = 1", "import sys; sys.exit(0)", "b = 2"],
            "05_quits": ["a = 1", "exit()", "b = 2"],
            "06_os_exit": ["import os; os._exit(0)", "b = 2"],
            "07_slow": ["a = 1", child("slow") + "\nimport time; time.sleep(600)", "# never", "b = 2"],
            "08_untagged": tiny.notebook(["a = 1"], parameters=None),
            "09_absent": None,
            "10_not_json": "<html>log in first</html>",
            "11_no_seed": tiny.notebook(["a = 1"], parameters='profile = "cpu"'),
            "12_kills_runner": [
                "a = 1",
                child("orphan") + "\nimport os; os.kill(os.getppid(), 9); import time; time.sleep(60)",
            ],
            "13_leaves_child": [child("left")],
            "14_floods": ["print('x' * 30_000_000)", "for _ in range(100_000): print('line')", "b = 2"],
            "15_asks": ["input('name? ')"],
            "16_old_format": OLD_FORMAT,
            "17_wrong_value": ["from ampcourse import record", "record('x', 1.5); record('x', 9.0)"],
            "18_good_too": bare,
        },
        seconds={"07_slow": 6},
        results={"00_good": x, "17_wrong_value": x + tiny.expects("y", 0, 1)},
    )
    before = set(Path(os.environ.get("JUPYTER_RUNTIME_DIR", Path.home() / ".local/share/jupyter/runtime")).glob("*"))
    scratch = place / "t"
    scratch.mkdir()
    patch = pytest.MonkeyPatch()
    patch.setattr("tempfile.tempdir", str(scratch))
    patch.setenv("AMPCOURSE_PATIENCE", "1")
    report, printed = tiny.run(course, place / "out", jobs=2, seed=7)
    patch.undo()
    after = set(Path(os.environ.get("JUPYTER_RUNTIME_DIR", Path.home() / ".local/share/jupyter/runtime")).glob("*"))
    return {"report": report, "printed": printed, "scratch": scratch, "runtime": after - before}


@pytest.fixture(scope="module")
def report(failures):
    return failures["report"]


def test_good_notebooks_run_whatever_the_others_do(tiny, report):
    assert tiny.row(report, "00_good").good
    assert tiny.row(report, "18_good_too").good
    assert "cpu 7" in (report.out / "executed" / "18_good_too.ipynb").read_text()
    assert report.exit_code == 1


def test_an_exception_is_named_with_its_cell_and_later_cells_did_not_run(tiny, report):
    raised = tiny.row(report, "01_raises")
    assert raised.status == "failed"
    assert '("1 / 0") raised ZeroDivisionError: division by zero.' in raised.reason
    assert tiny.executed_cells(report, "01_raises")[-4:] == [
        ("a = 1", "completed"),
        ("1 / 0", "failed"),
        ("# never", "not run"),
        ("b = 2", "not run"),
    ]


@pytest.mark.parametrize(
    ("slug", "words"),
    [
        ("02_killed", "the kernel was killed from outside (SIGKILL; often the machine had no memory left)."),
        ("03_segfault", "the kernel crashed (SIGSEGV, a segmentation fault)."),
        ("06_os_exit", "the kernel ended itself with exit code 0."),
    ],
)
def test_a_dead_kernel_is_killed_and_says_how(tiny, report, slug, words):
    dead = tiny.row(report, slug)
    assert dead.status == "killed"
    assert dead.reason.endswith(words)
    assert [status for _, status in tiny.executed_cells(report, slug)[-2:]] == ["failed", "not run"]


@pytest.mark.parametrize("slug", ["04_sys_exit", "05_quits"])
def test_leaving_early_is_a_failure_not_a_success(tiny, report, slug):
    left = tiny.row(report, slug)
    assert left.status == "failed"
    assert "exit" in left.reason.lower()
    assert [status for _, status in tiny.executed_cells(report, slug)[-3:]] == ["completed", "failed", "not run"]


def test_a_time_out_names_the_cell_keeps_what_ran_and_kills_all_children(tiny, report, place):
    slow = tiny.row(report, "07_slow")
    assert slow.status == "timeout"
    assert "was running when the time limit of 12 s was reached" in slow.reason
    assert 12 <= slow.seconds < 40
    assert [status for _, status in tiny.executed_cells(report, "07_slow")[-4:]] == [
        "completed",
        "failed",
        "not run",
        "not run",
    ]
    assert _ended(place / "pids" / "slow")
    cells = json.loads((report.out / "executed" / "07_slow.ipynb").read_text())["cells"]
    assert "".join(cells[0]["source"]) == f"**This run: timeout.** {slow.reason}"
    assert len([cell for cell in cells if "papermill-error-cell-tag" in cell["metadata"].get("tags", [])]) == 1


@pytest.mark.parametrize(
    ("slug", "words"),
    [
        ("08_untagged", "has no cell tagged 'parameters': add one that sets profile and seed."),
        ("09_absent", "does not exist: the notebook of 09_absent with its solutions is missing."),
        ("10_not_json", "is not a notebook that can be read: restore it from the repository."),
        ("11_no_seed", "has no parameter 'seed' in the cell tagged 'parameters'; it has: profile."),
        ("16_old_format", "is not a notebook that can be read: restore it from the repository."),
    ],
)
def test_what_cannot_be_run_is_known_before_the_start(tiny, report, slug, words):
    impossible = tiny.row(report, slug)
    assert (impossible.status, impossible.seconds) == ("failed", 0)
    assert impossible.reason.endswith(words)
    assert not (report.out / "executed" / f"{slug}.ipynb").exists()


def test_a_dead_worker_leaves_an_honest_notebook_and_no_kernel(tiny, report, place):
    dead = tiny.row(report, "12_kills_runner")
    assert dead.status == "killed"
    assert "Its own process was killed" in dead.reason
    assert "completed" not in [status for _, status in tiny.executed_cells(report, "12_kills_runner")[-1:]]
    assert _ended(place / "pids" / "orphan")


def test_a_process_left_behind_is_ended(tiny, report, place):
    assert tiny.row(report, "13_leaves_child").good
    assert _ended(place / "pids" / "left")


def test_a_flood_of_text_is_cut_and_says_so(tiny, report):
    assert tiny.row(report, "14_floods").good
    path = report.out / "executed" / "14_floods.ipynb"
    assert path.stat().st_size < 2_500_000
    assert "[output cut here: 29,000,001 more characters were printed]" in path.read_text()


def test_asking_for_input_fails_at_once(tiny, report):
    asked = tiny.row(report, "15_asks")
    assert asked.status == "failed"
    assert "StdinNotImplementedError" in asked.reason


def test_results_outside_or_missing_are_not_held(tiny, report):
    wrong = tiny.row(report, "17_wrong_value")
    assert (wrong.status, wrong.good, wrong.held, wrong.expected) == ("ok", False, 0, 2)
    x, y = wrong.results
    assert (x.value, x.held, x.note) == (9.0, False, "recorded 2 times, the last counts")
    assert (y.value, y.held, y.note) == (None, False, "never recorded")


def test_results_file_is_strict_and_agrees_with_the_report(report):
    def refuse(text):
        raise AssertionError(text)

    content = json.loads((report.out / "results.json").read_text(), parse_constant=refuse)
    assert content["profile"] == "cpu"
    assert content["seed"] == 7
    assert content["versions"]["python"]
    assert [one["lesson"] for one in content["notebooks"]] == [one.lesson for one in report.notebooks]
    assert [one["status"] for one in content["notebooks"]] == [one.status for one in report.notebooks]


def test_executed_notebooks_are_valid_notebooks(report):
    import_jsonschema()
    import nbformat

    for path in (report.out / "executed").glob("*.ipynb"):
        nbformat.validate(nbformat.read(path, as_version=nbformat.NO_CONVERT))


def test_nothing_is_left_behind(failures):
    report = failures["report"]
    assert list(failures["scratch"].iterdir()) == []
    assert failures["runtime"] == set()
    assert list(report.out.rglob(".*")) == []
    assert [one for one in psutil.process_iter() if _belongs(one, failures["scratch"])] == []


def test_every_notebook_that_ran_has_a_page_and_a_log_and_the_terminal_stays_clean(failures):
    report = failures["report"]
    for notebook_path in (report.out / "executed").glob("*.ipynb"):
        assert notebook_path.with_suffix(".html").is_file(), notebook_path
        assert (report.out / "logs" / f"{notebook_path.stem}.log").is_file()
    assert "hidden" not in failures["printed"]
    assert "Traceback" not in failures["printed"]
    assert len(failures["printed"].splitlines()) == len(report.notebooks)
    page = (report.out / "executed" / "07_slow.html").read_text()
    assert "The run stopped in the next cell.</strong> 1 code cell below did not run." in page
    assert '<a href="#stopped">' in page


def test_the_table_names_every_lesson_with_its_reason(failures, capsys):
    print_table(failures["report"])
    printed = capsys.readouterr().out
    for one in failures["report"].notebooks:
        assert one.lesson in printed
    assert "5 of 19 notebooks ran to their end; 1 of 3 expected results held." in " ".join(printed.split())


def _ended(pid_file: Path) -> bool:
    pid = int(pid_file.read_text())
    for _ in range(50):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


def _belongs(process: psutil.Process, scratch: Path) -> bool:
    try:
        return process.environ().get("AMPCOURSE_HOME", "").startswith(str(scratch))
    except (psutil.Error, OSError):
        return False


def test_a_kernel_that_does_not_start_leaves_no_cell_marked_as_run(tiny, tmp_path, monkeypatch):
    furnish = processes.furnish

    def broken(scratch):
        furnish(scratch)
        kernel = scratch / "jupyter" / "kernels" / "python3" / "kernel.json"
        kernel.write_text(json.dumps({"argv": ["false"], "display_name": "Python 3", "language": "python"}))

    monkeypatch.setattr(processes, "furnish", broken)
    report, _ = tiny.run(tiny.make_course(tmp_path / "course", {"00_a": ["a = 1", "# text"]}), tmp_path / "out")
    dead = tiny.row(report, "00_a")
    assert dead.status == "killed"
    assert dead.reason == "The notebook: the kernel ended itself with exit code 1."
    assert {status for _, status in tiny.executed_cells(report, "00_a")} == {"not run"}
