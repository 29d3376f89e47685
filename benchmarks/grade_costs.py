"""What grading one submission costs, step by step, and how much memory a run takes; for `bench_grade`.

No benchmark by itself.
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Memory:
    """The memory of a process and its descendants while the block runs, each shared page counted once (PSS)."""

    def __init__(self, pid: int, every: float = 0.5) -> None:
        self._pid, self._every = pid, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak = 0

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.peak = max(self.peak, sum(_pss(pid) for pid in descendants(self._pid)))


def descendants(pid: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                words = Path(entry.path, "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                children.setdefault(int(words[1]), []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


class Clock:
    """Adds up wall seconds by name."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = {}

    @contextlib.contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time the block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.taken.setdefault(name, []).append(time.perf_counter() - began)

    def median(self, name: str) -> float:
        """Milliseconds."""
        return 1000 * statistics.median(self.taken[name])


def costs(root: Path, kind: str, lesson: str) -> None:
    """Grade the class one by one in this process and print what each step takes, and what cannot be saved."""
    from ampcourse.grading.assignment import make_assignment
    from ampcourse.grading.model import Submission
    from ampcourse.grading.sandbox import choose_starter
    from ampcourse.grading.submission import grade_submission

    clock = Clock()
    with clock.time("assignment, questions and right answers, once"):
        assignment = make_assignment(root, lesson)
    with clock.time("template, once"):
        starter = choose_starter(assignment.box, assignment.settings)
    try:
        timed = _Timed(starter, clock)
        for path in sorted(root.glob(f"submitted/*/{lesson}/{lesson}.ipynb")):
            before = resource.getrusage(resource.RUSAGE_SELF)
            with clock.time("one submission, without the gradebook"):
                graded = grade_submission(Submission(path.parts[-3], path.read_bytes()), assignment, timed)
            after = resource.getrusage(resource.RUSAGE_SELF)
            clock.taken.setdefault("of that, processor time on the trusted side", []).append(
                after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            )
            if graded.score is None:
                raise SystemExit(f"{path}: {graded.status}: {graded.reason}")
    finally:
        starter.close()
    print(f"\n{kind}: what it costs ({starter.name}), milliseconds, medians")
    for name in clock.taken:
        print(f"  {clock.median(name):8.1f}  {name}")


class _Timed:
    """A starter whose kernels' lives are timed."""

    def __init__(self, starter: Any, clock: Clock) -> None:
        self._starter, self._clock, self.name = starter, clock, starter.name

    def start(self, files: Any, profile: str = "grade") -> Any:
        with self._clock.time("of that, starting the kernel (it loads on while we go on)"):
            kernel = self._starter.start(files, profile)
        stop = kernel.stop

        def timed_stop() -> None:
            with self._clock.time("of that, ending the kernel"):
                stop()

        kernel.stop = timed_stop
        return kernel

    def close(self) -> None:
        """Left to whoever made the starter."""
