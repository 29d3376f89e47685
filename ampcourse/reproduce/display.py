"""What a person sees while a course runs: a bar with the time left, or plain lines where there is no terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ampcourse.reproduce import report as words
from ampcourse.reproduce.results import NotebookResult

if TYPE_CHECKING:
    from rich.console import Console


class Display:
    """Progress of a run; `weights` are the notebooks' expected seconds, from which the time left is reckoned."""

    def __init__(self, weights: Mapping[str, float], console: Console | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._weights, self._done = dict(weights), dict.fromkeys(weights, 0.0)
        self._console = console or Console()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
            # Cells may take minutes, so the pace is that of the whole run, not of the last seconds.
            speed_estimate_period=24 * 3600,
        )
        self._task = self._bar.add_task("starting", total=sum(weights.values()) or 1.0)
        self._running: dict[str, str] = {}

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def cell(self, lesson: str, index: int, of: int) -> None:
        """A notebook has reached a cell."""
        self._running[lesson] = f"{lesson} {index + 1}/{of}"
        self._advance(lesson, index / of)

    def finished(self, notebook: NotebookResult) -> None:
        """A notebook is done; say so in a line."""
        self._running.pop(notebook.lesson, None)
        self._advance(notebook.lesson, 1.0)
        line = f"{notebook.lesson}: {words.status(notebook)}"
        if not notebook.kept and notebook.status != "skipped":
            line += f" after {notebook.seconds:.1f} s"
        if notebook.expected and notebook.status == "ok":
            line += f", {words.held(notebook)} results held"
        detail = words.reason(notebook)
        self._console.print(f"{line}{'. ' + detail if detail else ''}", markup=False, highlight=False, soft_wrap=True)

    def _advance(self, lesson: str, fraction: float) -> None:
        if lesson in self._done:
            self._done[lesson] = fraction * self._weights[lesson]
        self._bar.update(
            self._task, completed=sum(self._done.values()), description=", ".join(self._running.values()) or "finishing"
        )
