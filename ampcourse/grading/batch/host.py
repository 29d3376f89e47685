"""What grades on one machine: worker processes, and the starter that gives kernels to all of them."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from ampcourse.grading.batch.remote import Owner
from ampcourse.grading.batch.work import GRADER, Done, Work
from ampcourse.grading.batch.worker import environment
from ampcourse.grading.model import Assignment, GradingError, Starter
from ampcourse.grading.settings import Settings

STUCK_TRIES = 2  # a worker that is stuck costs its whole time limit, so its submission gets one more chance
KILLED_TRIES = 3
_LIFE = 300  # submissions after which a worker is replaced, so that nothing can pile up in it
_GRACE = 30.0  # seconds beyond a submission's own limit in which judging and tidying up must end
_READY = 120.0  # seconds for a worker to start, on a machine that is very busy
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from ampcourse.grading.batch.worker import main; main(int(sys.argv[1]), sys.argv[3])"
)


class Closed(Exception):
    """The host was closed while it was at work."""


class _Lost(Exception):
    """A worker did not give its result. `stuck`: it ran out of time; otherwise it died."""

    def __init__(self, stuck: bool, how: str, said: Sequence[str] = ()) -> None:
        super().__init__(how)
        self.stuck, self.how, self.said = stuck, how, said


def wall_limit(settings: Settings, notebooks: int) -> float:
    """Seconds after which a worker counts as stuck."""
    return notebooks * settings.submission_seconds + settings.start_seconds + _GRACE


class Host:
    """Grades pieces of work, each in a worker process, as many at a time as threads call `grade`.

    Args:
        assignments: the notebooks of the lesson.
        starters: one for each of them; the host closes them.
        grader: the function that grades one notebook, as "module:function".
        workers: some that have been started already.
    """

    def __init__(
        self,
        assignments: Sequence[Assignment],
        starters: Sequence[Starter],
        grader: str = GRADER,
        workers: Sequence[_Worker] = (),
    ) -> None:
        self._told = (tuple(assignments), tuple(starter.name for starter in starters))
        self._grader = grader
        self._starters = starters
        self._limit = wall_limit(assignments[0].settings, len(assignments))
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._workers = set(workers)
        for worker in workers:
            self._idle.put(worker)
        self._lock = threading.Lock()
        self._closed = False

    @property
    def name(self) -> str:
        """How kernels are started."""
        return self._told[1][0]

    def grade(self, work: Work) -> Done:
        """Grade one submission; where a worker is lost, another one tries again.

        Raises:
            Closed: if the host is closed meanwhile.
        """
        stuck = killed = 0
        while True:
            try:
                return self._try(work)
            except _Lost as lost:
                if self._closed:
                    raise Closed from None
                stuck, killed = stuck + lost.stuck, killed + (not lost.stuck)
                if stuck >= STUCK_TRIES or killed >= KILLED_TRIES:
                    return Done.failed(work, f"It could not be graded: {lost.how}, {stuck + killed} times.", lost.said)

    def _try(self, work: Work) -> Done:
        worker = self._worker()
        try:
            worker.begin(self._told, self._starters)
            done = worker.run(work, self._limit)
        except BaseException:
            worker.end()
            with self._lock:
                self._workers.discard(worker)
            raise
        if worker.count >= _LIFE:
            worker.end()
            with self._lock:
                self._workers.discard(worker)
        else:
            self._idle.put(worker)
        return done

    def _worker(self) -> _Worker:
        with contextlib.suppress(queue.Empty):
            while True:
                worker = self._idle.get_nowait()
                if worker.running():
                    return worker
                worker.end()
        return self._new()

    def _new(self) -> _Worker:
        with self._lock:
            if self._closed:
                raise Closed
            worker = _Worker(self._grader)
            self._workers.add(worker)
        return worker

    def pids(self) -> list[int]:
        """The worker processes."""
        with self._lock:
            return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """End all workers and kernels, now; may be called again, and while others are in `grade`."""
        with self._lock:
            self._closed = True
            workers, self._workers = self._workers, set()
        for worker in workers:
            worker.end()
        for starter in self._starters:
            starter.close()


class _Worker:
    """One worker process, seen from its host. One thread at a time may use it; `end` may be called by any."""

    def __init__(self, grader: str) -> None:
        self.count = 0
        self._owner: Owner | None = None
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in `end`
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START, str(theirs.fileno()), json.dumps(sys.path), grader],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=environment(),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())

    def begin(self, told: tuple[Any, ...], starters: Sequence[Starter]) -> None:
        """Tell it about the assignments, once.

        Raises:
            _Lost: if it dies or does not start.
        """
        if self._owner is not None:
            return
        self._owner = Owner(starters)
        try:
            self._connection.send(told)
            self._listen(_READY, "its worker process did not start in time")
        except (EOFError, OSError):
            raise self._ended() from None

    def running(self) -> bool:
        """Whether its process is there."""
        return self.process.poll() is None

    def run(self, work: Work, limit: float) -> Done:
        """Have one submission graded, and answer the worker's questions meanwhile.

        Raises:
            _Lost: if the worker dies or takes too long.
        """
        try:
            self.count += 1
            self._connection.send(work)
            return self._listen(limit, f"its worker process gave no result within {limit:.0f} s")
        except (EOFError, OSError):
            raise self._ended() from None
        finally:
            if self._owner is not None:
                self._owner.stop_all()

    def _ended(self) -> _Lost:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)  # it has closed the pipe, so it is ending
        return _Lost(False, _death(self.process.poll()), self._said())

    def _listen(self, seconds: float, overdue: str) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            if not self._connection.poll(max(0.0, deadline - time.monotonic())):
                raise _Lost(True, overdue, self._said())
            message = self._connection.recv()
            if message[0] == "ready":
                return None
            if message[0] == "done":
                return message[1]
            if self._owner is not None:
                self._owner.answer(self._connection, message)

    def _said(self) -> list[str]:
        """The last that it wrote to stderr."""
        with contextlib.suppress(OSError, ValueError):
            size = self._errors.seek(0, 2)
            self._errors.seek(max(0, size - 5000))
            return self._errors.read().decode("utf-8", "replace").splitlines()[-30:]
        return []

    def end(self) -> None:
        """Kill it; may be called again."""
        with contextlib.suppress(OSError):
            self.process.kill()
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()
        if self._owner is not None:
            self._owner.stop_all()


def _death(code: int | None) -> str:
    if code is None:
        return "its worker process closed its pipe"
    if code == -signal.SIGKILL:
        return "its worker process was killed (SIGKILL), as the system does when memory runs out"
    if code < 0:
        return f"its worker process was ended by {signal.Signals(-code).name}"
    return f"its worker process ended with exit code {code}"


def make_host(
    assignments: Sequence[Assignment],
    slots: int,
    *,
    unsafe: bool = False,
    fast: bool = True,
    grader: str = GRADER,
) -> Host:
    """A host for this machine. Its workers begin to import what they need while the template does.

    Raises:
        GradingError: if kernels cannot be isolated here and `unsafe` is not asked for.
    """
    from ampcourse.grading.sandbox import choose_starter

    workers = [_Worker(grader) for _ in range(slots)]
    starters: list[Starter] = []
    try:
        for one in assignments:
            starters.append(choose_starter(one.box, one.settings, unsafe=unsafe, fast=fast, slots=slots))
    except BaseException as error:
        for worker in workers:
            worker.end()
        for starter in starters:
            starter.close()
        if isinstance(error, OSError):
            raise GradingError(f"Kernels cannot be started on this machine: {error}.") from error
        raise
    return Host(assignments, starters, grader, workers)
