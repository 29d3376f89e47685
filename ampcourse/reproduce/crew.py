"""Several notebooks at once, each in a process of its own that may die in any way without hurting the others."""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ampcourse.reproduce import executed, files, processes
from ampcourse.reproduce.executed import EXECUTED, Recorded
from ampcourse.reproduce.job import Job, Outcome

_GRACE = 30.0  # seconds beyond the limit in which a notebook's own process may tidy up and write its page
_FAREWELL = 15.0  # seconds in which it may keep what has run when the whole run is ended


@dataclass(frozen=True)
class Event:
    """News of a notebook: it reached a cell, or (`outcome`) it is finished."""

    job: Job
    index: int = 0
    of: int = 1
    outcome: Outcome | None = None
    results: tuple[Recorded, ...] = ()


class Crew:
    """Runs jobs, so many at once; use as a context, so that nothing is left behind whatever happens."""

    def __init__(self, jobs: Sequence[Job], at_once: int, profile: str, threads: int, logs: Path) -> None:
        self._jobs, self._profile, self._threads, self._logs = jobs, profile, threads, logs
        # A signal handler may put something in, which only this kind of queue allows.
        self._news: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._overdue: set[str] = set()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="notebook")
        self._left = len(jobs)

    def __enter__(self) -> Crew:
        for job in self._jobs:
            self._pool.submit(self._work, job)
        return self

    def __exit__(self, *_: Any) -> None:
        self._stopping.set()
        for job in self._jobs:
            if job.mark in self._running:
                processes.kill(job.mark)
        self._pool.shutdown(cancel_futures=True)

    def events(self) -> Iterator[Event]:
        """The news until every job is finished, or was ended because of `interrupt`."""
        while self._left:
            event = self._news.get()
            if event is None:
                self._stop()
                continue
            self._left -= event.outcome is not None
            yield event

    @property
    def interrupted(self) -> bool:
        """Whether the run was asked to end."""
        return self._stopping.is_set()

    def interrupt(self, *_: Any) -> None:
        """Ask the run to end, from a signal's handler; a second time, it ends at once.

        An exception at any moment could lose the news of a finished notebook; a message in the queue cannot.
        """
        if self._stopping.is_set():
            raise KeyboardInterrupt
        self._stopping.set()
        self._news.put(None)

    def _stop(self) -> None:
        """Let those that run end their kernels and keep what they have; slow ones are killed."""
        with self._lock:
            running = dict(self._running)
        for process in running.values():
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
        deadline = time.monotonic() + _FAREWELL
        for mark, process in running.items():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                processes.kill(mark)

    def _work(self, job: Job) -> None:
        try:
            event = self._run(job)
        except OSError as error:
            event = Event(job, outcome=Outcome("failed", files.explain(error, Path(error.filename or job.scratch))))
        except Exception as error:  # whatever it is, it must not stop the run: somebody waits for this event
            event = Event(job, outcome=Outcome("failed", f"The runner itself failed: {type(error).__name__}: {error}."))
        finally:
            shutil.rmtree(job.scratch, ignore_errors=True)
        self._news.put(event)

    def _run(self, job: Job) -> Event:
        started, scratch = time.monotonic(), Path(job.scratch)
        processes.furnish(scratch)
        # What an earlier run left must not pass for this one's, should its process die before it saves anything.
        Path(job.target).unlink(missing_ok=True)
        job.save(scratch / "job.json")
        with (self._logs / f"{job.lesson}.log").open("wb") as log:
            process = self._start(job, scratch, log)
            if process is None:
                return Event(job, outcome=Outcome("skipped", "It was not started, because the run was interrupted."))
            timer = threading.Timer(job.limit + _GRACE * max(1.0, job.patience), self._kill_overdue, [job])
            timer.daemon = True
            timer.start()
            final = self._listen(job, process)
            timer.cancel()
            code = process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
        processes.kill(job.mark)
        with self._lock:
            del self._running[job.mark]
        if final is not None:
            return final
        return self._salvage(job, code, round(time.monotonic() - started, 2))

    def _start(self, job: Job, scratch: Path, log: Any) -> subprocess.Popen[bytes] | None:
        surroundings = processes.environment(scratch, job.mark, self._profile, self._threads)
        surroundings[EXECUTED] = str(Path(job.target).parent)
        with self._lock:
            if self._stopping.is_set():
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", "ampcourse.reproduce.execute", str(scratch / "job.json")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=surroundings,
                cwd=scratch / "work",
                start_new_session=True,  # Ctrl-C in the terminal reaches the head alone, which then sees to the rest
            )
            self._running[job.mark] = process
        return process

    def _listen(self, job: Job, process: subprocess.Popen[bytes]) -> Event | None:
        """Pass on where the notebook is; the last line says how it went, unless its process died before."""
        final = None
        for line in process.stdout:  # type: ignore[union-attr]
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if said["event"] == "cell":
                self._news.put(Event(job, said["index"], said["of"]))
            else:
                outcome = Outcome(said["status"], said["reason"], said["seconds"])
                final = Event(job, outcome=outcome, results=tuple(Recorded(**one) for one in said["results"]))
        return final

    def _kill_overdue(self, job: Job) -> None:
        self._overdue.add(job.mark)
        processes.kill(job.mark)

    def _salvage(self, job: Job, code: int, seconds: float) -> Event:
        """The notebook's process died without a word: keep what it had saved, with honest statuses."""
        if job.mark in self._overdue:
            outcome = Outcome("timeout", f"It did not end within its time limit of {job.limit:.0f} s.", seconds)
        elif self._stopping.is_set():
            outcome = Outcome("killed", "It was running when the run was interrupted.", seconds)
        else:
            how = executed.death(code).replace("the kernel", "its own process")
            outcome = Outcome("killed", f"{how[0].upper()}{how[1:]} before it was finished; see its log.", seconds)
        notebook = executed.load(Path(job.target))
        if notebook is None:
            return Event(job, outcome=outcome)
        executed.mend(notebook)
        notebook["metadata"]["ampcourse"] = {**job.note, **asdict(outcome)}
        executed.label(notebook, outcome.status, outcome.reason)
        try:
            files.write(Path(job.target), json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        except files.OutputError as error:
            outcome.reason += f" {error}"
        return Event(job, outcome=outcome, results=tuple(executed.recorded(notebook)))
