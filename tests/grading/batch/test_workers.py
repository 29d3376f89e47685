"""Worker processes may hang, be killed or fail: that costs one submission at most, and nobody else's anything."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from classroom import LESSON, RIGHT, filled, submit

from ampcourse.exercises.model import BrokenExercise
from ampcourse.grading.batch import grade_lesson, host
from ampcourse.grading.records import load_records

PATIENCE = float(os.environ.get("AMPCOURSE_PATIENCE", "1"))


def hand_in(root: Path, student: str, orders: str = "") -> None:
    notebook = filled(*RIGHT, f"It grows. {orders}")
    submit(root, student, nbformat.writes(notebook).encode())


def gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 10 * PATIENCE
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(psutil.pid_exists(pid) for pid in pids)


def test_a_submission_whose_worker_was_killed_is_graded_by_another(course: Path, standin: Any, tmp_path: Path) -> None:
    hand_in(course, "ada", f"#! once {tmp_path / 'first'}")
    hand_in(course, "bob")
    summary = grade_lesson(course, LESSON, jobs=1)
    assert {r.student: r.score for r in summary.results} == {"ada": 5, "bob": 5} and summary.ok


def test_one_that_kills_every_worker_is_failed_and_graded_again_the_next_time(
    course: Path, standin: Any, book: Callable[..., Any], tmp_path: Path
) -> None:
    hand_in(course, "ada", f"#! count {tmp_path / 'tries'} #! kill")
    hand_in(course, "bob")
    summary = grade_lesson(course, LESSON, jobs=2)
    results = {r.student: r for r in summary.results}
    assert results["bob"].score == 5
    assert results["ada"].status == "failed" and "was killed (SIGKILL)" in results["ada"].reason
    assert (tmp_path / "tries").read_text("utf-8") == "x" * host.KILLED_TRIES
    assert book(course)["ada"].waiting == {"why", "square-test", "cube-test"}, "not an ordinary 0"
    hand_in(course, "ada")
    assert grade_lesson(course, LESSON, jobs=1).graded == 1
    assert book(course)["ada"].waiting == {"why"} and book(course)["ada"].score == 5


def test_a_failure_leaves_the_old_score(course: Path, standin: Any, book: Callable[..., Any]) -> None:
    hand_in(course, "ada")
    grade_lesson(course, LESSON, jobs=1)
    hand_in(course, "ada", "#! bug")
    summary = grade_lesson(course, LESSON, jobs=1)
    assert summary.results[0].status == "failed" and "KeyError: 'no such thing'" in summary.results[0].reason
    assert book(course)["ada"].score == 5
    log = (course / "grading" / "logs" / LESSON / "ada.log").read_text("utf-8")
    assert "Traceback" in log and "_misbehave" in log


def test_a_worker_that_hangs_is_replaced(course: Path, standin: Any, tmp_path: Path) -> None:
    standin.limit = 1.5 * PATIENCE
    hand_in(course, "ada", f"#! count {tmp_path / 'tries'} #! sleep 3600")
    hand_in(course, "bob")
    summary = grade_lesson(course, LESSON, jobs=1)
    results = {r.student: r for r in summary.results}
    assert "gave no result within" in results["ada"].reason and results["bob"].score == 5
    assert (tmp_path / "tries").read_text("utf-8") == "x" * host.STUCK_TRIES


def test_kernels_are_the_hosts_and_none_is_left(course: Path, standin: Any, tmp_path: Path) -> None:
    hand_in(course, "ada", "#! kernel")
    hand_in(course, "bob", "#! kernel leave")
    hand_in(course, "eve", f"#! kernel leave #! once {tmp_path / 'first'}")
    assert grade_lesson(course, LESSON, jobs=2).ok
    assert standin.starters[0].started == 4 and standin.starters[0].running == 0


def test_an_error_of_the_starter_is_the_submissions_reason(course: Path, standin: Any) -> None:
    hand_in(course, "ada", "#! nokernel")
    assert "No kernel can be started here." in grade_lesson(course, LESSON, jobs=1).results[0].reason


def test_a_broken_exercise_stops_everything(course: Path, standin: Any) -> None:
    hand_in(course, "ada", "#! broken")
    with pytest.raises(BrokenExercise, match=r"powers.square"):
        grade_lesson(course, LESSON, jobs=1)
    assert not load_records(course, LESSON) and standin.starters[0].closed


def test_workers_end_with_the_run_and_are_replaced_now_and_then(
    course: Path, standin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_LIFE", 2)
    pids: set[int] = set()
    watching = threading.Event()

    def watch() -> None:
        while not watching.wait(0.005):
            for made in standin.hosts:
                pids.update(made.pids())

    thread = threading.Thread(target=watch)
    thread.start()
    for number in range(5):
        hand_in(course, f"s{number}", "#! sleep 0.05")
    assert grade_lesson(course, LESSON, jobs=1).ok
    watching.set()
    thread.join()
    assert len(pids) == 3
    assert gone(list(pids))


def test_grading_may_be_called_from_any_thread(course: Path, standin: Any) -> None:
    hand_in(course, "ada")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(grade_lesson(course, LESSON, catch_signals=True, jobs=1)))
    thread.start()
    thread.join(60 * PATIENCE)
    assert found[0].results[0].score == 5
