"""A list of students that a learning platform gave out as CSV, and who of ours is who in it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ampcourse.grading.desk.cells import ExportError

_LARGEST = 50 << 20  # bytes; no list of students is larger


@dataclass(frozen=True)
class Roster:
    """The table as it is in the file.

    Attributes:
        path: the file.
        columns: the first row.
        rows: the others, each as long as the first.
    """

    path: Path
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, *names: str) -> int | None:
        """The place of the first column with one of these names, in any case; None if there is none."""
        known = [name.casefold() for name in self.columns]
        return next((known.index(name.casefold()) for name in names if name.casefold() in known), None)

    def cells(self, row: Sequence[str], *names: str) -> list[str]:
        """What a row holds in the columns with these names; empty cells are left out."""
        places = (self.column(name) for name in names)
        return [row[place].strip() for place in places if place is not None and row[place].strip()]


def read(path: Path) -> Roster:
    """Read a roster: comma, semicolon or tab between the cells, with or without a byte-order mark.

    Raises:
        ExportError: if the file cannot be read or is no table.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise ExportError(f"The roster '{path}' cannot be read ({error.strerror}): name the exported file.") from None
    if len(raw) > _LARGEST:
        raise ExportError(f"The roster '{path}' is larger than 50 MB: name the exported list of students.")
    try:
        content = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise ExportError(f"The roster '{path}' is not UTF-8 text: export it again as CSV.") from None
    first = content.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(content, newline=""), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise ExportError(f"The roster '{path}' is not CSV ({error}): export it again.") from None
    if len(rows) < 2 or len(rows[0]) < 2:
        raise ExportError(f"The roster '{path}' has no table of students: export it again as CSV.")
    width = len(rows[0])
    fitted = (tuple((row + [""] * width)[:width]) for row in rows[1:])
    return Roster(path, tuple(column.strip() for column in rows[0]), tuple(fitted))


def match(students: Iterable[str], names: Sequence[Sequence[Iterable[str]]], path: Path) -> dict[str, int]:
    """For each student found, the number of the row.

    Args:
        students: our student ids.
        names: for each row, what the student may be called, the surest first: `[[login], [name, other name]]`. A name
            that fits two rows fits none.
        path: the roster's, for the message.

    Raises:
        ExportError: if two of our students are the same row.
    """
    tiers: list[dict[str, int | None]] = []
    for row, called in enumerate(names):
        for tier, some in enumerate(called):
            while len(tiers) <= tier:
                tiers.append({})
            for name in {key for one in some for key in _keys(one)}:
                tiers[tier][name] = row if name not in tiers[tier] else None
    found: dict[str, int] = {}
    for student in students:
        rows = (row for tier in tiers for key in _keys(student) if (row := tier.get(key)) is not None)
        row = next(rows, None)
        if row is None:
            continue
        if other := next((one for one, taken in found.items() if taken == row), None):
            raise ExportError(
                f"'{other}' and '{student}' are the same student in the roster '{path}': "
                "rename one of the folders in submitted/, or use a roster that tells them apart."
            )
        found[student] = row
    return found


def _keys(name: str) -> list[str]:
    """A name as it stands, and with its letters and digits alone, as platforms make file names of it."""
    plain = " ".join(name.casefold().split())
    squeezed = "".join(c for c in plain if c.isalnum())
    return list(dict.fromkeys(key for key in (plain, squeezed) if key))
