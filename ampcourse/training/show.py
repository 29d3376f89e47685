"""What a run shows while it goes on: a progress bar on a terminal, one line an epoch everywhere."""

from __future__ import annotations

import sys
from typing import Any

from ampcourse import terminal
from ampcourse.training.session import Plan


class Show:
    """Where nobody watches stderr there is no bar; with `on` false there is nothing at all."""

    def __init__(self, on: bool) -> None:
        self.on = on
        self._bar: Any = None
        self._task: Any = None

    def begin(self, plan: Plan, done: int) -> None:
        """The run starts, or goes on after `done` updates."""
        if not self.on or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("training", total=plan.total, completed=done)
        self._bar.start()

    def update(self, done: int) -> None:
        """So many updates are done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def epoch(self, row: dict[str, Any], plan: Plan) -> None:
        """One line when an epoch is over."""
        skipped = f", {row['skipped']:,} updates skipped so far" if row["skipped"] else ""
        self.say(
            f"epoch {row['epoch']} of {plan.epochs}: loss {row['loss']:.4f}, {row['accuracy']:.1%} right; test "
            f"{row['test_loss']:.4f}, {row['test_accuracy']:.1%}; {row['seconds']:.1f} s{skipped}"
        )

    def say(self, sentence: str) -> None:
        """One line."""
        if self.on:
            terminal.say(terminal.clean(sentence))

    def end(self) -> None:
        """The bar goes away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
