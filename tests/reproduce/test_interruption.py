"""Ctrl-C, and a head that is killed: no kernel outlives the run, and what is finished is kept."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

HEAD = """
import sys
from pathlib import Path
from ampcourse.reproduce.report import print_table
from ampcourse.reproduce.run import run_course
report = run_course(course_root=Path(sys.argv[1]), out=Path(sys.argv[2]), jobs=1)
print_table(report)
sys.exit(report.exit_code)
"""


@pytest.fixture
def running(tiny, tmp_path):
    """A run whose first notebook is finished and whose second waits in its third cell."""
    pid = tmp_path / "pid"
    waits = f"import os, time; open(r'{pid}', 'w').write(str(os.getpid())); time.sleep(600)"
    course = tiny.make_course(
        tmp_path / "course",
        {"00_done": ["a = 1"], "01_waits": ["print('kept')", waits, "b = 2"], "02_never": ["c = 3"]},
        seconds={"00_done": 300, "01_waits": 200, "02_never": 100},
    )
    out = tmp_path / "out"
    with (tmp_path / "printed").open("w+") as printed:
        head = subprocess.Popen(
            [sys.executable, "-c", HEAD, str(course), str(out)],
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            assert _until(lambda: pid.exists() and pid.read_text()), (tmp_path / "printed").read_text()
            yield head, out, int(pid.read_text()), tmp_path / "printed"
        finally:
            head.kill()
            head.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_kernels_and_keeps_what_is_finished(running, number):
    head, out, kernel, printed = running
    head.send_signal(number)
    assert head.wait(60) == 130
    assert _until(lambda: not psutil.pid_exists(kernel))
    text = " ".join(printed.read_text().split())
    assert "The run was interrupted; what is finished (1 of 3 notebooks) is kept: run again to go on." in text
    assert "Traceback" not in text
    content = json.loads((out / "results.json").read_text())
    assert content["interrupted"] is True
    assert [one["status"] for one in content["notebooks"]] == ["ok", "killed", "skipped"]
    assert "was running when the run was ended" in content["notebooks"][1]["reason"]
    assert content["notebooks"][2]["reason"] == "It was not started, because the run was interrupted."
    waits = json.loads((out / "executed" / "01_waits.ipynb").read_text())
    states = [cell["metadata"]["papermill"]["status"] for cell in waits["cells"] if cell["metadata"].get("papermill")]
    assert states == ["completed", "completed", "completed", "failed", "not run"]
    assert "kept" in json.dumps([cell.get("outputs") for cell in waits["cells"]])


def test_kernels_end_when_the_head_is_killed(running):
    head, out, kernel, _ = running
    scratch = Path(psutil.Process(kernel).environ()["AMPCOURSE_HOME"]).parent
    head.kill()
    assert _until(lambda: not psutil.pid_exists(kernel))
    assert _until(lambda: not scratch.parent.exists())
    content = json.loads((out / "results.json").read_text())
    assert [one["status"] for one in content["notebooks"]] == ["ok", "skipped", "skipped"]
    assert all("started" not in one["reason"] for one in content["notebooks"])  # the second one was


def _until(true, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.1)
    return False
