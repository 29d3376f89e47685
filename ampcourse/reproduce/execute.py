"""One notebook, run with papermill in a process of its own: `python -m ampcourse.reproduce.execute JOB.json`.

The process talks to the run's head in lines of JSON on its standard output; whatever else is printed goes to its log.
It ends its kernel when time is up, or when the head is gone (its standard input closes).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from ampcourse.reproduce import executed, files, processes
from ampcourse.reproduce.job import Job, Outcome


class Watchdog:
    """Ends the kernel and all its children when time is up or the head is gone."""

    def __init__(self, job: Job) -> None:
        self.job, self.fired = job, ""
        self._finished = threading.Event()
        threading.Thread(target=self._time, daemon=True).start()
        threading.Thread(target=self._head, daemon=True).start()

    def _time(self) -> None:
        if not self._finished.wait(self.job.limit):
            self._fire("timeout")

    def _head(self) -> None:
        # Not sys.stdin: its lock would keep Python from shutting down while this thread waits.
        while os.read(0, 4096):
            pass
        self._fire("orphaned")

    def _fire(self, why: str) -> None:
        if not self._finished.is_set() and not self.fired:
            self.fired = why
            self.sweep()

    def finish(self) -> None:
        """The notebook is done: no time limit from here on, and nothing it started stays behind."""
        self._finished.set()
        self.sweep()

    def sweep(self) -> None:
        """End every process of this notebook but this one."""
        processes.kill(self.job.mark, spare=[os.getpid()])


def main(path: str) -> int:
    """Run the job in a file, save the executed notebook and its HTML page, and tell the head how it went."""
    # Standard output is the line to the head; everything else that writes there shall go to the log.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as line:
        os.dup2(2, 1)
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        job = Job(**json.loads(Path(path).read_text("utf-8")))
        # Loaded before the clock starts: it takes seconds on a busy machine, and they are not the notebook's.
        import ampcourse.reproduce.engine  # noqa: F401

        watchdog = Watchdog(job)
        outcome, notebook = _run(job, watchdog, line)
        if notebook is not None:
            _keep(job, outcome, notebook)
        if watchdog.fired == "orphaned":
            # Nobody else is left to tidy up; the last of several at once takes their common folder too.
            shutil.rmtree(job.scratch, ignore_errors=True)
            with contextlib.suppress(OSError):
                Path(job.scratch).parent.rmdir()
        _tell(line, {"event": "done", **asdict(outcome), "results": [asdict(one) for one in _results(notebook)]})
    return 0


def _run(job: Job, watchdog: Watchdog, line: TextIO) -> tuple[Outcome, dict[str, Any] | None]:
    from ampcourse.reproduce.engine import run_papermill

    started, problem, engine = time.monotonic(), None, None
    try:
        engine = run_papermill(job, lambda index, of: _tell(line, {"event": "cell", "index": index, "of": of}))
        problem = engine.problem
    except (Exception, SystemExit) as error:  # papermill's own fault, or a notebook it cannot read
        problem = error
    finally:
        watchdog.finish()
    notebook = engine.notebook if engine else None
    if notebook is not None:
        executed.mend(notebook)
    outcome = _judge(job, watchdog, notebook, problem, engine.exit_code if engine else None)
    outcome.seconds = round(time.monotonic() - started, 2)
    return outcome, notebook


def _judge(
    job: Job, watchdog: Watchdog, notebook: dict[str, Any] | None, problem: BaseException | None, exit_code: int | None
) -> Outcome:
    """Name what happened; what this side did to the kernel comes before what it looks like."""
    where = executed.place(executed.stopped(notebook) if notebook else None)
    if watchdog.fired == "timeout":
        return Outcome("timeout", f"{where} was running when the time limit of {job.limit:.0f} s was reached.")
    if watchdog.fired == "orphaned":
        return Outcome("killed", f"{where} was running when the run was ended.")
    if notebook and (own := executed.failure(notebook)):
        return Outcome("failed", own)
    if exit_code is not None:
        return Outcome("killed", f"{where}: {executed.death(exit_code)}.")
    if problem is not None:
        named = "" if isinstance(problem, executed.KernelEndedError) else f"{type(problem).__name__}: "
        return Outcome("failed", f"{where}: {named}{' '.join(str(problem).split()).rstrip('.')[:300]}.")
    if notebook is None or executed.stopped(notebook) or executed.NOT_RUN in executed.statuses(notebook):
        return Outcome("failed", f"{where} did not run to its end.")
    return Outcome("ok")


def _keep(job: Job, outcome: Outcome, notebook: dict[str, Any]) -> None:
    """Save the executed notebook and its page; a full disk turns even a good run into a failed one."""
    target = Path(job.target)
    notebook["metadata"]["ampcourse"] = {**job.note, **asdict(outcome)}
    executed.label(notebook, outcome.status, outcome.reason)
    try:
        files.write(target, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    except files.OutputError as error:
        outcome.status, outcome.reason = "failed", str(error)
        # What an earlier moment of this run left there would tell a wrong story.
        target.unlink(missing_ok=True)
        return
    try:
        from ampcourse.reproduce.pages import write_page

        write_page(notebook, job.title, target.with_suffix(".html"))
    except Exception:
        logging.getLogger(__name__).exception("no HTML page for %s", job.lesson)


def _results(notebook: dict[str, Any] | None) -> list[executed.Recorded]:
    return executed.recorded(notebook) if notebook else []


def _tell(line: TextIO, event: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the head is gone; the watchdog sees to the rest
        line.write(json.dumps(event) + "\n")
        line.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
