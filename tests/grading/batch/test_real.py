"""The same class in the real sandbox: on this machine, on a cluster, and by a run that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from classroom import KINDS, LESSON, fill

from ampcourse.grading.batch import grade_lesson
from ampcourse.grading.records import load_records

pytestmark = pytest.mark.sandbox
PATIENCE = float(os.environ.get("AMPCOURSE_PATIENCE", "1"))
RUN = """
import sys
from pathlib import Path
from ampcourse.grading.batch import grade_lesson
grade_lesson(Path(sys.argv[1]), "ps1", jobs=2, catch_signals=True)
"""


def test_a_cluster_with_sandboxes_gives_the_same(course: Path, book: Callable[..., Any]) -> None:
    from distributed import LocalCluster

    made = fill(course, len(KINDS))
    grade_lesson(course, LESSON, jobs=2)
    one, rows = load_records(course, LESSON), book(course)
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as dask:
        summary = grade_lesson(course, LESSON, scheduler=dask.scheduler_address, fresh=True)
    assert {r.student: r.score for r in summary.results} == {s: kind.score for s, kind in made.items()}
    other = load_records(course, LESSON)
    assert {s: r.questions for s, r in one.items()} == {s: r.questions for s, r in other.items()}
    assert {s: r.points for s, r in rows.items()} == {s: r.points for s, r in book(course).items()}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_ends_early_leaves_no_process_and_goes_on(course: Path, number: int) -> None:
    made = fill(course, 30, KINDS[:4])
    process = subprocess.Popen([sys.executable, "-c", RUN, str(course)], start_new_session=True)
    folder, deadline = course / "grading" / "records" / LESSON, time.monotonic() + 60 * PATIENCE
    while len(list(folder.glob("*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    process.wait(30 * PATIENCE)
    _, alive = psutil.wait_procs(below, 20 * PATIENCE)
    assert below and not alive, [p.cmdline() for p in alive]
    kept = len(load_records(course, LESSON))
    assert 3 <= kept < 30
    summary = grade_lesson(course, LESSON, jobs=2)
    assert summary.graded >= 30 - kept - 1
    assert {r.student: r.score for r in summary.results} == {s: kind.score for s, kind in made.items()}
