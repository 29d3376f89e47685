"""Grading on an existing Dask cluster: the same function, the same results; only the head writes.

The head deals out the work itself: every task is bound to one worker, so many at a time as that worker has threads, and
where a worker vanishes, or gives no sign of life for a while, its submissions go to another one. So it does not matter
what the scheduler is set to; for the scheduler's own bookkeeping, `distributed.scheduler.worker-ttl` (5 minutes unless
set) says when it gives up a silent worker.

Workers need the same version of this package and a complete sandbox. One process with several threads is better than
several processes, for each process keeps a template in memory: `dask worker tcp://head:8786 --nworkers 1 --nthreads 8`.

A cluster must be closed to students: Dask's own connections carry pickled Python, so that whoever can connect to the
scheduler or to a worker can run anything there, and the submissions, and what is right, go over the network. Use a
network of your own, or Dask's TLS.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import threading
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ampcourse.grading.batch import there
from ampcourse.grading.batch.host import KILLED_TRIES, STUCK_TRIES, Closed, wall_limit
from ampcourse.grading.batch.there import Told
from ampcourse.grading.batch.work import GRADER, Done, Work
from ampcourse.grading.model import Assignment, GradingError

CONNECT_SECONDS = 5.0
CHECK_SECONDS = 30.0
SILENT_SECONDS = 30.0
"""After so long without a sign of life, a worker's submissions are graded elsewhere."""
DESERTED_SECONDS = 60.0
"""How long a cluster without any worker is waited for."""


class _Lost(Exception):
    """The worker of a task is gone; the text says how."""


class Cluster:
    """A Dask cluster, as something that grades. `grade` is called by as many threads as the cluster has.

    Args:
        address: the scheduler's.
        assignments: the notebooks of the lesson.
        unsafe: whether workers without a sandbox may be used.
        fast: as for a machine's host.
        tell: takes a sentence for each worker that is not used.
        grader: as for a machine's host.

    Raises:
        GradingError: if there is no scheduler, or no worker that can be used.
    """

    def __init__(
        self,
        address: str,
        assignments: Sequence[Assignment],
        unsafe: bool,
        fast: bool,
        tell: Callable[[str], None],
        grader: str = GRADER,
    ) -> None:
        self.name = "unsafe cluster" if unsafe else "cluster"
        self._address, self._unsafe, self._tell = address, unsafe, tell
        self._blob = pickle.dumps(tuple(assignments))
        self._told = Told(uuid.uuid4().hex, unsafe, fast, grader)
        limit = wall_limit(assignments[0].settings, len(assignments))
        self._limit = limit * max(STUCK_TRIES, KILLED_TRIES) + 60
        self._changed = threading.Condition()
        self._asked: dict[str, Any] = {}  # workers that were asked to check themselves, with the answer to come
        self._good: dict[str, int] = {}  # workers that can be used, with their threads
        self._busy: Counter[str] = Counter()
        self._seen: dict[str, tuple[float, float]] = {}  # last sign of life by the scheduler's clock; when it was new
        self._knows: set[str] = set()  # workers that have the assignments
        self._closed, self._gone = False, ""
        self._client = _connect(address)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def slots(self) -> int:
        """Submissions at a time; more than there are threads now, for workers may join."""
        return max(4, 2 * sum(self._good.values()))

    def _begin(self) -> None:
        """Find out which workers can be used, and keep watching them."""
        deadline = time.monotonic() + CHECK_SECONDS
        self._look()
        while any(not answer.done() for answer in self._asked.values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for worker, answer in self._asked.items():
            if not answer.done():
                self._tell(f"The worker {worker} does not answer, so it is not used.")
        self._look()
        if not self._good:
            none = "no worker that can be used" if self._asked else "no worker"
            raise GradingError(
                f"The Dask scheduler at {self._address} has {none}: start some with "
                f"'dask worker {self._address} --nworkers 1'."
            )
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        deserted = time.monotonic()
        while not self._closed:
            time.sleep(0.5)
            try:
                self._look()
            except Exception as error:  # whatever the connection raises: it is lost
                self._give_up(f"The Dask scheduler at {self._address} is gone ({type(error).__name__}).")
                return
            if self._good:
                deserted = time.monotonic()
            elif time.monotonic() - deserted > DESERTED_SECONDS:
                self._give_up(f"The Dask scheduler at {self._address} has had no worker for {DESERTED_SECONDS:.0f} s.")
                return

    def _give_up(self, sentence: str) -> None:
        with self._changed:
            if not self._closed:
                self._gone = f"{sentence} What was graded stays; run this again when it is back."
            self._changed.notify_all()

    def _look(self) -> None:
        """Ask the scheduler who is there; check newcomers."""
        workers, now = self._client.scheduler_info(n_workers=-1)["workers"], time.monotonic()
        for worker, about in workers.items():
            if self._seen.get(worker, (None, 0))[0] != about["last_seen"]:
                self._seen[worker] = about["last_seen"], now
            if worker not in self._asked:
                self._asked[worker] = self._submit(worker, there.check, self._unsafe)
        with self._changed:
            for worker in set(self._asked) - set(workers):
                del self._asked[worker]
                self._knows.discard(worker)
            usable = {w: about["nthreads"] for w, about in workers.items() if self._usable(w, now)}
            self._good = usable
            self._changed.notify_all()

    def _usable(self, worker: str, now: float) -> bool:
        answer = self._asked[worker]
        if now - self._seen[worker][1] > SILENT_SECONDS or not answer.done():
            return False
        if not isinstance(getattr(answer, "verdict", None), str):
            answer.verdict = _verdict(answer)
            if answer.verdict:
                self._tell(f"The worker {worker} is not used: {answer.verdict}.")
        return not answer.verdict

    def _submit(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the size of what is sent
            return self._client.submit(
                function, *arguments, key=f"ampcourse-{uuid.uuid4().hex}", workers=[worker], pure=False, retries=0
            )

    def grade(self, work: Work) -> Done:
        """Grade one submission on some worker; on another one if that is lost.

        Raises:
            Closed: if the cluster was closed meanwhile.
            GradingError: if no worker is left.
        """
        packed, tries, avoid = pickle.dumps(work), 0, set()
        while True:
            worker = self._take(avoid)
            try:
                return self._graded(worker, packed)
            except _Lost as lost:
                tries += 1
                avoid.add(worker)
                if tries >= KILLED_TRIES:
                    return Done.failed(work, f"It could not be graded: {lost}, {tries} times.")
                self._tell(f"{work.student} is graded again by another worker: {lost}.")
            finally:
                with self._changed:
                    self._busy[worker] -= 1
                    self._changed.notify_all()

    def _take(self, avoid: set[str]) -> str:
        """A worker with a free thread, the least busy; one that has lost this submission before only if no other is."""
        with self._changed:
            while True:
                if self._closed:
                    raise Closed
                if self._gone:
                    raise GradingError(self._gone)
                others = set(self._good) - avoid or set(self._good)
                free = [w for w in others if self._busy[w] < self._good[w]]
                if free:
                    worker = min(free, key=lambda w: self._busy[w] / self._good[w])
                    self._busy[worker] += 1
                    return worker
                self._changed.wait(1.0)

    def _graded(self, worker: str, packed: bytes) -> Done:
        threads = self._good.get(worker, 1)
        told = self._told if worker in self._knows else replace(self._told, blob=self._blob)
        result = self._result(worker, self._submit(worker, there.grade, told, packed, threads))
        if result is None:
            told = replace(self._told, blob=self._blob)
            result = self._result(worker, self._submit(worker, there.grade, told, packed, threads))
        self._knows.add(worker)
        if result is None:
            raise _Lost(f"the worker {worker} does not keep the assignment")
        return pickle.loads(result)

    def _result(self, worker: str, future: Any) -> bytes | None:
        """What a task gave.

        Raises:
            _Lost: if its worker is gone, silent, or failed.
        """
        ready, deadline = threading.Event(), time.monotonic() + self._limit
        future.add_done_callback(lambda _: ready.set())
        try:
            while not ready.wait(0.25):
                if self._closed:
                    raise Closed
                if self._gone:
                    raise GradingError(self._gone)
                if worker not in self._good:
                    raise _Lost(f"the worker {worker} was lost")
                if time.monotonic() > deadline:
                    raise _Lost(f"the worker {worker} gave no result within {self._limit:.0f} s")
            if future.status == "finished":
                return future.result(timeout=CHECK_SECONDS)
            error = future.exception(timeout=CHECK_SECONDS) if future.status == "error" else future.status
            raise _Lost(f"the worker {worker} failed ({' '.join(str(error).split())[:300]})")
        except (TimeoutError, OSError) as error:
            raise _Lost(f"the worker {worker} was lost ({type(error).__name__})") from None
        finally:
            with contextlib.suppress(Exception):
                future.release()
                if not ready.is_set():
                    future.cancel(force=True)

    def close(self) -> None:
        """End what is under way and what the workers keep for this run; may be called again."""
        with self._changed:
            again, self._closed = self._closed, True
            good = list(self._good)
            self._changed.notify_all()
        if again:
            return
        if not self._gone:
            with contextlib.suppress(Exception):
                tasks = [self._submit(worker, there.close, self._told.run) for worker in good]
                deadline = time.monotonic() + CONNECT_SECONDS
                while any(not task.done() for task in tasks) and time.monotonic() < deadline:
                    time.sleep(0.02)
        with contextlib.suppress(Exception):
            self._client.close(timeout=CONNECT_SECONDS)


def _verdict(answer: Any) -> str:
    """Why a worker cannot be used; empty if it can."""
    if answer.status != "finished":
        error = answer.exception() if answer.status == "error" else None
        if isinstance(error, ImportError):
            return f"this package is not installed there, or is another version ({error})"
        return f"it failed to check itself ({error or answer.status})"
    said, ours = answer.result(), there.check(unsafe=True)
    for name, words in (("version", "ampcourse"), ("python", "Python"), ("package", "state of ampcourse's files")):
        if said[name] != ours[name]:
            theirs, here = (".".join(v) if name == "python" else v for v in (said[name], ours[name]))
            return f"it has another {words}, {theirs} and not {here}"
    return "; ".join(said["reasons"]).rstrip(".")


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise GradingError("Dask is not installed here: pip install 'ampcourse[cluster]'.") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it says, our sentences say
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except ValueError as error:
        raise GradingError(f"'{address}' is no scheduler's address ({error}): write tcp://host:8786.") from None
    except (OSError, TimeoutError) as error:
        raise GradingError(
            f"There is no Dask scheduler at {address} ({type(error).__name__}): start one with 'dask scheduler', or "
            "grade on this machine without --scheduler."
        ) from None
