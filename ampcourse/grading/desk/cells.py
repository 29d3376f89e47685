"""Cells of an exported table: numbers as people write them, and texts that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ampcourse.course import UserError
from ampcourse.grading.files import write_atomically
from ampcourse.reproduce import files
from ampcourse.terminal import clean

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_INNER = re.compile(r"([;,|]\s*)(?=[=+\-@＝＋－＠])")  # a spreadsheet may split the line at another character


class ExportError(UserError):
    """The export cannot be made; the sentence says why and what to do."""


def number(value: float | None) -> str:
    """A number without needless digits; nothing where there is none."""
    return "" if value is None else f"{round(value, 4) + 0.0:.12g}"


def text(value: str) -> str:
    """A text that may come from a student, on one line; a spreadsheet shows it and computes nothing from it."""
    line = _INNER.sub(r"\1'", clean(value))
    return f"'{line}" if line.startswith(_FORMULA) else line


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def write(path: Path, content: str) -> None:
    """Write a table whole or not at all, readable by its owner only; "-" is standard output.

    Raises:
        ExportError: if it cannot be written; what was there before stays.
    """
    data = content.encode("utf-8", "backslashreplace")
    if str(path) == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        if path.exists() and not path.is_file():
            _into(path, data)
            return
        path = path.resolve()  # a link stays a link
        write_atomically(path, data)
    except OSError as error:
        raise ExportError(files.explain(error, path).replace("another output folder", "another file")) from None


def _into(path: Path, data: bytes) -> None:
    """Write to a device or a pipe."""
    if stat.S_ISDIR(path.stat().st_mode):
        raise ExportError(f"'{path}' is a folder: name a file, such as '{path / 'grades.csv'}'.")
    with path.open("wb") as file:
        file.write(data)
