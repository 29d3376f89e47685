"""A real Dask cluster of processes grades as one machine does, whatever happens to its workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import KINDS, LESSON, RIGHT, fill, filled, make_course, submit

from ampcourse.grading.batch import cluster, grade_lesson, there
from ampcourse.grading.model import GradingError
from ampcourse.grading.records import load_records

GRADER = "standin_grader:grade"
PATIENCE = float(os.environ.get("AMPCOURSE_PATIENCE", "1"))


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made:
        yield made


@pytest.fixture
def scheduler(dask: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The address; workers grade with the stand-in, in hosts that start no kernels."""
    real = cluster.Cluster

    def stand_in(*arguments: Any) -> Any:
        return real(*arguments, GRADER)

    monkeypatch.setattr(cluster, "Cluster", stand_in)
    return dask.scheduler_address


def workers(dask: Any) -> dict[str, int]:
    """Address and process of each worker."""
    from distributed import Client

    with Client(dask.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60 * PATIENCE)
        return client.run(os.getpid)


def in_background(course: Path, address: str) -> tuple[threading.Thread, list[Any], list[str]]:
    found: list[Any] = []
    said: list[str] = []

    def work() -> None:
        found.append(
            grade_lesson(course, LESSON, scheduler=address, unsafe=True, tell=lambda level, line: said.append(line))
        )

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, found, said


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60 * PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_cluster_gives_what_one_machine_gives(
    tmp_path: Path, standin: Any, scheduler: str, book: Callable[..., Any]
) -> None:
    here, there_ = make_course(tmp_path / "here"), make_course(tmp_path / "there")
    made = fill(here, 2 * len(KINDS))
    fill(there_, 2 * len(KINDS))
    grade_lesson(here, LESSON, jobs=2)
    summary = grade_lesson(there_, LESSON, scheduler=scheduler, unsafe=True)
    assert {r.student: r.score for r in summary.results} == {s: kind.score for s, kind in made.items()}
    one, other = load_records(here, LESSON), load_records(there_, LESSON)
    assert {s: r.parts for s, r in one.items()} == {s: r.parts for s, r in other.items()}
    rows = [{s: (r.points, r.waiting, r.comments) for s, r in book(root).items()} for root in (here, there_)]
    assert rows[0] == rows[1]
    assert other["s0000"].sandbox == "unsafe cluster"
    assert grade_lesson(there_, LESSON, scheduler=scheduler, unsafe=True).graded == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_what_a_lost_worker_was_at_is_graded_by_another_and_entered_once(
    course: Path, dask: Any, scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    monkeypatch.setattr(cluster, "SILENT_SECONDS", 6 * PATIENCE)
    from ampcourse.grading.batch import store

    saved: list[str] = []
    monkeypatch.setattr(store, "reached", lambda point, student: saved.append(student) if point == "booked" else None)
    counter = tmp_path / "tries"
    for n in range(6):
        orders = f"#! count {counter}{n} #! sleep {1.5 if n == 0 else 0.2}"
        submit(course, f"s{n}", nbformat.writes(filled(*RIGHT, orders)).encode())
    pids = workers(dask)
    thread, found, said = in_background(course, scheduler)
    until(Path(f"{counter}0").exists)
    lost = _whose(counter, pids)
    os.kill(lost, number)
    try:
        thread.join(90 * PATIENCE)
        assert found, said
    finally:
        if number == signal.SIGSTOP:
            os.kill(lost, signal.SIGCONT)
    assert {r.student: r.score for r in found[0].results} == {f"s{n}": 5.0 for n in range(6)}
    assert sorted(saved) == [f"s{n}" for n in range(6)]
    assert "is graded again by another worker" in "".join(said)


def _whose(counter: Path, pids: dict[str, int]) -> int:
    """The Dask worker whose worker process grades s0 now."""
    import psutil

    for pid in pids.values():
        for child in psutil.Process(pid).children(recursive=True):
            if "ampcourse.grading.batch.worker" in " ".join(child.cmdline()):
                return pid
    raise AssertionError("no worker is at work")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "127.0.0.1:1"])
def test_no_scheduler_is_one_sentence_within_seconds(course: Path, standin: Any, address: str) -> None:
    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    started = time.monotonic()
    with pytest.raises(GradingError, match=r"There is no Dask scheduler at|is no scheduler's address"):
        grade_lesson(course, LESSON, scheduler=address)
    assert time.monotonic() - started < 15 * PATIENCE
    assert not load_records(course, LESSON)


def test_a_scheduler_without_workers(course: Path, standin: Any) -> None:
    from distributed import LocalCluster

    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        pytest.raises(GradingError, match="has no worker: start some with 'dask worker"),
    ):
        grade_lesson(course, LESSON, scheduler=empty.scheduler_address)


def test_workers_with_another_package_or_without_a_sandbox_are_not_used(
    course: Path, standin: Any, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    said: list[str] = []
    monkeypatch.setattr(there, "package", lambda: "another")
    with pytest.raises(GradingError, match="no worker that can be used"):
        grade_lesson(course, LESSON, scheduler=scheduler, unsafe=True, tell=lambda _, line: said.append(line))
    assert len([line for line in said if "is not used: it has another state of ampcourse's files" in line]) == 2


def test_reasons_of_an_incomplete_sandbox_are_told(scheduler: str) -> None:
    class Answer:
        status = "finished"

        def result(self) -> dict[str, Any]:
            return there.check(unsafe=True) | {"reasons": ["bubblewrap is not installed."]}

    assert cluster._verdict(Answer()) == "bubblewrap is not installed"


def test_a_host_that_nobody_uses_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeHost:
        closed = False

        def grade(self, work: Any) -> Any:
            return work

        def close(self) -> None:
            self.closed = True

    made = FakeHost()
    monkeypatch.setattr(there, "make_host", lambda *_, **__: made)
    monkeypatch.setattr(there, "IDLE_SECONDS", 0.5)
    import pickle

    told = there.Told("run", True, True, GRADER)
    assert there.grade(told, pickle.dumps("x"), 1) is None, "the assignments are asked for"
    assert there.grade(there.Told("run", True, True, GRADER, pickle.dumps(())), pickle.dumps("x"), 1) is not None
    until(lambda: made.closed)
    assert "run" not in there._hosts
