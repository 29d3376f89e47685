"""A class that is graded without kernels: what the answers say decides, quickly, and what goes wrong is chosen."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ampcourse.grading.place import find_alembic

HERE = Path(__file__).parent
GRADER = "standin_grader:grade"
sys.path[:0] = [str(HERE), str(HERE / "site")]  # for the tests, and for the workers, which get the same path


class FakeKernel:
    def __init__(self, starter: FakeStarter) -> None:
        self.connection = {"key": "k"}
        self._starter, self._alive = starter, True

    def alive(self) -> bool:
        return self._alive

    def reason(self) -> str:
        return ""

    def stop(self) -> None:
        if self._alive:
            self._alive = False
            with self._starter.lock:
                self._starter.running -= 1


class FakeStarter:
    name = "unsafe"

    def __init__(self) -> None:
        self.running = self.started = 0
        self.closed = False
        self.lock = threading.Lock()

    def start(self, files: Mapping[str, bytes], profile: str = "grade") -> FakeKernel:
        with self.lock:
            self.running += 1
            self.started += 1
        return FakeKernel(self)

    def close(self) -> None:
        self.closed = True


@functools.cache
def _alembic_version() -> str:
    from nbgrader.api import get_alembic_version

    find_alembic()
    return get_alembic_version()


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Grade with the stand-in; the hosts that were made are kept for looking at them."""
    from ampcourse.grading.batch import grade, host

    kept = SimpleNamespace(hosts=[], starters=[], limit=None)

    def make(assignments: Any, slots: int, **_: Any) -> host.Host:
        starter = FakeStarter()
        made = host.Host(assignments, [starter] * len(assignments), GRADER)
        if kept.limit:
            made._limit = kept.limit
        kept.hosts.append(made)
        kept.starters.append(starter)
        return made

    monkeypatch.setattr(grade, "make_host", make)
    version = _alembic_version()
    monkeypatch.setattr(
        "nbgrader.api.get_alembic_version", lambda: version
    )  # it starts a program, for each new gradebook
    return kept


@pytest.fixture
def run_python() -> Callable[[str], str]:
    """What a program prints in a Python of its own."""

    def run(code: str) -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    return run


@pytest.fixture
def course(tmp_path: Path) -> Path:
    from classroom import make_course

    return make_course(tmp_path / "kurs für alle")


@pytest.fixture
def book() -> Callable[[Path], dict[str, SimpleNamespace]]:
    """Everybody's scores in the gradebook."""

    def read(root: Path, db: str | None = None, lesson: str = "ps1") -> dict[str, SimpleNamespace]:
        from ampcourse.grading.gradebook import reading

        found = {}
        with reading(root, db) as gradebook:
            for one in gradebook.assignment_submissions(lesson):
                cells = {g.name: g for n in one.notebooks for g in n.grades}
                found[one.student.id] = SimpleNamespace(
                    score=one.score,
                    maximum=one.max_score,
                    timestamp=one.timestamp,
                    penalty=one.late_submission_penalty,
                    points={name: g.auto_score for name, g in cells.items()},
                    manual={name: g.manual_score for name, g in cells.items()},
                    waiting={name for name, g in cells.items() if g.needs_manual_grade},
                    comments={c.name: c.auto_comment for n in one.notebooks for c in n.comments},
                )
        return found

    return read
