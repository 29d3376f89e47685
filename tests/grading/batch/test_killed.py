"""A run that is killed at any point leaves old scores, and the next one reaches the same end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import KINDS, LESSON, RIGHT, WRONG, fill, filled, submit

from ampcourse.grading.batch import grade_lesson
from ampcourse.grading.records import load_records

HERE = Path(__file__).parent
PATIENCE = float(os.environ.get("AMPCOURSE_PATIENCE", "1"))
POINTS = ("filled", "marked", "booked", "swapped", "logged")
SOME = [p if p in ("booked", "swapped") else pytest.param(p, marks=pytest.mark.full) for p in POINTS]
RUN = """
import os, signal, sys
sys.path[:0] = {path!r}
from pathlib import Path
from conftest import FakeStarter
from ampcourse.grading.batch import grade, host, store
grade.make_host = lambda assignments, slots, **_: host.Host(assignments, [FakeStarter()], "standin_grader:grade")
point, student = sys.argv[2:4]
def reached(here, whose):
    if (here, whose) == (point, student):
        os.kill(os.getpid(), signal.SIGKILL)
store.reached = reached
watcher = __import__("ampcourse.grading.batch.display", fromlist=["Display"]).Display(sys.stdout, every=0)
summary = grade.grade_lesson(Path(sys.argv[1]), "ps1", jobs=2, fresh=len(sys.argv) > 4, watcher=watcher,
                             catch_signals=True)
print(*summary.lines(), sep="\\n")
sys.exit(130 if summary.interrupted else 0)
"""


def command(root: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-c", RUN.format(path=[str(HERE), str(HERE / "site")]), str(root), *arguments]


def state(root: Path, book: Callable[..., Any]) -> dict[str, Any]:
    """Everything that a run leaves, without times."""
    rows = {s: (r.score, r.points, r.waiting, r.comments) for s, r in book(root).items()}
    records = {s: (r.status, r.reason, r.score, r.questions, r.key) for s, r in load_records(root, LESSON).items()}
    made = {p.relative_to(root): p.read_bytes() for p in (root / "autograded").rglob("*") if p.is_file()}
    return {"rows": rows, "records": records, "autograded": made}


@pytest.mark.parametrize("point", SOME)
def test_a_first_run_that_is_killed_goes_on(course: Path, standin: Any, book: Callable[..., Any], point: str) -> None:
    fill(course, len(KINDS))
    killed = subprocess.run(command(course, point, "s0002"), capture_output=True, timeout=60 * PATIENCE, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert load_records(course, LESSON).keys() < {f"s{n:04d}" for n in range(len(KINDS))}
    assert grade_lesson(course, LESSON, jobs=1).graded >= 1
    after = state(course, book)
    grade_lesson(course, LESSON, jobs=1, fresh=True)
    assert state(course, book) == after
    assert not list((course / "autograded").glob("*/.*"))


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("point", SOME)
def test_a_killed_regrade_leaves_a_whole_old_or_new_score(
    course: Path, standin: Any, book: Callable[..., Any], point: str, fresh: bool
) -> None:
    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    grade_lesson(course, LESSON, jobs=1)
    if not fresh:
        submit(course, "ada", nbformat.writes(filled(RIGHT[0], WRONG[1])).encode())
    arguments = [point, "ada", *["fresh"] * fresh]
    killed = subprocess.run(command(course, *arguments), capture_output=True, timeout=60 * PATIENCE, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    row = book(course)["ada"]
    assert row.points in ({"square-test": 2, "cube-test": 3, "why": 0}, {"square-test": 2, "cube-test": 0, "why": 0})
    assert nbformat.read(course / "autograded" / "ada" / LESSON / f"{LESSON}.ipynb", as_version=4).cells
    again = grade_lesson(course, LESSON, jobs=1)
    # A killed --fresh may have finished with this one, or not yet begun to write; otherwise it is done again.
    assert again.graded == (0 if fresh and point == "filled" else 1)
    assert book(course)["ada"].score == (5 if fresh else 2)
    assert grade_lesson(course, LESSON, jobs=1).graded == 0


def wait_for(process: subprocess.Popen[str], words: str) -> str:
    said = ""
    for line in process.stdout or ():
        said += line
        if words in line:
            return said
    raise AssertionError(said)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_where_it_stopped_and_leaves_no_process(
    course: Path, standin: Any, book: Callable[..., Any], number: int
) -> None:
    fill(course, 2, KINDS[:1])
    for name in ("t1", "t2"):
        submit(course, name, nbformat.writes(filled(*RIGHT, "#! sleep 600")).encode())
    process = subprocess.Popen(command(course, "", ""), stdout=subprocess.PIPE, text=True, start_new_session=True)
    said = wait_for(process, "2 of 4 graded")
    workers = _children(process.pid)
    process.send_signal(number)
    rest, _ = process.communicate(timeout=30 * PATIENCE)
    assert process.returncode == 130, said + rest
    assert "Interrupted with 2 left: the same command goes on from here." in rest
    assert load_records(course, LESSON).keys() == {"s0000", "s0001"} == book(course).keys()
    assert workers and not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_workers_do_not_outlive_a_killed_head(course: Path, standin: Any) -> None:
    submit(course, "ada", nbformat.writes(filled(*RIGHT, "#! sleep 600")).encode())
    process = subprocess.Popen(command(course, "", ""), stdout=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(process, "Grading 1 submission")
    workers = _children(process.pid)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20 * PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert workers and not any(Path(f"/proc/{pid}").exists() for pid in workers)


def _children(pid: int) -> list[int]:
    import psutil

    deadline, found = time.monotonic() + 20 * PATIENCE, []
    while not found and time.monotonic() < deadline:
        found = [child.pid for child in psutil.Process(pid).children(recursive=True)]
        time.sleep(0.05)
    return found


def test_two_runs_on_one_course_do_not_meet(course: Path, standin: Any) -> None:
    from ampcourse.grading.model import GradingError

    submit(course, "ada", nbformat.writes(filled(*RIGHT, "#! sleep 600")).encode())
    process = subprocess.Popen(command(course, "", ""), stdout=subprocess.PIPE, text=True)
    try:
        wait_for(process, "Grading 1 submission")
        with pytest.raises(GradingError, match="Another run is grading the course"):
            grade_lesson(course, LESSON, jobs=1)
    finally:
        process.kill()
        process.communicate()
