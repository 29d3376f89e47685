"""What a person sees while a class is graded: a bar with the pace and the time left, or plain lines elsewhere."""

from __future__ import annotations

import time
from typing import IO

from ampcourse.grading.batch.summary import Watcher
from ampcourse.grading.model import GRADED, MISSING
from ampcourse.grading.records import Record
from ampcourse.terminal import clean

_EVERY = 10.0  # seconds between two lines about the progress, where there is no terminal


class Display(Watcher):
    """Progress on a stream.

    Args:
        stream: where to; a terminal gets a bar.
        every: seconds between two lines where it is none.
    """

    def __init__(self, stream: IO[str], every: float = _EVERY) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(file=stream)
        self._every, self._total, self._done = every, 0, 0
        self._started = self._told = time.monotonic()
        self._bar = Progress(
            TextColumn("grading"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[pace]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("grading", total=1, pace="")

    def begin(self, total: int, up_to_date: int) -> None:
        """Show how much there is to do, and start the clock."""
        self._total, self._started = total, time.monotonic()
        self._told = self._started
        if up_to_date:
            self._print(f"{up_to_date} up to date; to grade them all the same, add --fresh.")
        if total:
            self._print(f"Grading {total} {'submission' if total == 1 else 'submissions'}.")
            self._bar.update(self._task, total=total)
            self._bar.start()

    def finished(self, record: Record) -> None:
        """Move the bar; a line for what deserves a look."""
        self._done += 1
        if record.status != GRADED:
            what = "nothing was handed in" if record.status == MISSING else record.status
            self._print(f"{record.student}: {what}. {record.reason}".rstrip(". ") + ".")
        self._bar.update(self._task, completed=self._done, pace=self._pace())
        now = time.monotonic()
        if not self._console.is_terminal and now - self._told >= self._every:
            self._told = now
            self._print(f"{self._done} of {self._total} graded, {self._pace()}.")

    def say(self, level: str, sentence: str) -> None:
        """One line."""
        self._print(sentence)

    def close(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def _pace(self) -> str:
        seconds = time.monotonic() - self._started
        if not self._done or seconds <= 0:
            return ""
        left = (self._total - self._done) * seconds / self._done
        return f"{self._done / seconds * 60:.0f} a minute, {_time(left)} left"

    def _print(self, text: str) -> None:
        self._console.print(clean(text), markup=False, highlight=False, soft_wrap=True, emoji=False)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
