"""What the commands print: tables that read well on a terminal, in a file and through a screen reader."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

_STYLES = {
    "ok": "green",
    "right": "green",
    "answered": "green",
    "warning": "yellow",
    "not attempted": "yellow",
    "not answered yet": "yellow",
    "problem": "red",
    "wrong": "red",
    "raised": "red",
    "not run": "red",
    "timed out": "red",
}


def is_terminal() -> bool:
    """Whether a person is looking: otherwise output is plain text without colour, boxes or line wrapping."""
    return sys.stdout.isatty()


def clean(text: object) -> str:
    """One line without control characters, so that a file name or an error message cannot steer the terminal."""
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


@contextmanager
def waiting(what: str) -> Iterator[Callable[[str], None]]:
    """Show what is being waited for where a person watches stderr; yields a function that changes the words."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(clean(what)) as status:
        yield lambda words: status.update(clean(words))


def say(text: str = "") -> None:
    """Print one paragraph."""
    sys.stdout.write(text + "\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: framed and coloured on a terminal, aligned plain text elsewhere; words carry every status.

    A column without a word takes no room, and words that do not fit into a narrow terminal are folded, never cut off.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    worded = [i for i, column in enumerate(columns) if column or any(row[i] for row in cells)]
    columns, cells = [columns[i] for i in worded], [[row[i] for i in worded] for row in cells]
    if is_terminal():
        _framed(columns, cells)
        return
    lines = [columns, *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _framed(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    framed = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        framed.add_column(Text(column), overflow="fold")
    for row in rows:
        framed.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console(file=sys.stdout).print(framed)


def points(number: float) -> str:
    """Points as people write them: 4, 2.5."""
    return f"{number:g}"
