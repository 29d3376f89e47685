"""From the bytes that a student handed in to the cells in them, or to one sentence that says what the bytes are."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ampcourse.grading.document.code import has_conflict, made, normalised, strings
from ampcourse.grading.document.names import size
from ampcourse.grading.model import GradingError

CELLS, TEXT = 20_000, 200_000
"""The most cells that are looked at, and the most characters in one: nobody writes as much."""

_DIGITS = 300  # a number with more is no notebook's, and Python refuses to read it
_MAGIC = (
    (b"PK\x03\x04", "a ZIP archive, or a document made by an office program"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x1f\x8b", "a compressed archive"),
    (b"7z\xbc\xaf", "a compressed archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "a database"),
)
_HINTS = {"skip-execution", "raises-exception"}


class Unreadable(GradingError):
    """What was handed in is no notebook; the sentence says what it is instead, and goes to the student."""


@dataclass(frozen=True)
class Piece:
    """One cell of a submission, with everything that a student's file may say about it reduced to plain, checked data.

    Attributes:
        number: its place in the file, from 1.
        kind: "code", "markdown" or "raw".
        text: what it holds.
        grade_id: nbgrader's name for it, if it has any.
        cell_id: the notebook format's name for it.
        marks: the rest of nbgrader's metadata.
        attachments: pictures pasted into it.
        hinted: whether it carries tags or hints that change how it is run.
        cleaned: whether characters that cannot be stored were replaced.
    """

    number: int
    kind: str
    text: str
    grade_id: str = ""
    cell_id: str = ""
    marks: tuple[tuple[str, Any], ...] = ()
    attachments: dict[str, Any] | None = None
    hinted: bool = False
    cleaned: bool = False

    @cached_property
    def key(self) -> str:
        """The text as it is compared."""
        return normalised(self.text)

    @cached_property
    def made(self) -> frozenset[str]:
        """What its code defines; nothing if it is no code."""
        return made(self.text) if self.kind == "code" else frozenset()

    @cached_property
    def would_make(self) -> frozenset[str]:
        """What it would define if it were code: an answer may have become text by a slip of the finger."""
        return made(self.text)


@dataclass(frozen=True)
class Document:
    """The cells of a submission, and what was noticed on the way."""

    pieces: tuple[Piece, ...]
    repairs: tuple[str, ...]
    troubles: tuple[str, ...]


def read(raw: bytes) -> Document:
    """The cells in a student's file, whichever encoding and notebook format it has.

    Raises:
        Unreadable: if it is no notebook; one sentence says what it is instead.
    """
    text, repairs = _text(raw)
    data = _json(text)
    cells, converted = _cells(data)
    pieces, troubles = [], []
    if len(cells) > CELLS:
        troubles.append(f"The notebook has {len(cells):,} cells; those after the first {CELLS:,} were left out.")
    for number, cell in enumerate(cells[:CELLS], 1):
        piece = _piece(number, cell)
        if piece is None:
            troubles.append(f"Entry {number} of the notebook is not a cell; it was left out.")
        else:
            if len(piece.text) > TEXT:
                troubles.append(f"Cell {number} of the notebook holds {size(len(piece.text))} of text; it was emptied.")
                piece = replace(piece, text="")
            pieces.append(piece)
            if strings(cell.get("source", cell.get("input", ""))) is None:
                troubles.append(f"Cell {number} of the notebook holds no text that can be read; it counts as empty.")
    if len(troubles) > 5:
        troubles = [*troubles[:5], f"{len(troubles) - 5} more entries of the notebook are damaged in the same way."]
    return Document(tuple(pieces), (*repairs, *converted), tuple(troubles))


def _text(raw: bytes) -> tuple[str, list[str]]:
    if not raw.strip(b" \t\r\n\0"):
        what = "holds nothing but NUL bytes: it was damaged when it was copied" if raw.strip() else "is empty"
        raise Unreadable(f"The file {what}. Save the notebook and hand it in again.")
    if found := next((what for start, what in _MAGIC if raw.startswith(start)), None):
        raise Unreadable(f"The file is {found}, not a notebook. Hand in the .ipynb file itself.")
    encoding = json.detect_encoding(raw)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"The file is not UTF-8 text (byte {error.start + 1} does not fit): it is no notebook, or was damaged, or "
            "was saved in another encoding. Save the notebook in Jupyter and hand it in again."
        ) from None
    if encoding.startswith(("utf-16", "utf-32")):
        return text.lstrip("\ufeff"), [f"The file was written in {encoding[:6].upper()}; it was read all the same."]
    return text.lstrip("\ufeff"), []


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _DIGITS else math.inf


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        raise Unreadable("The file is nested too deeply to be a notebook.") from None
    except MemoryError:
        raise Unreadable("The file needs too much memory to be a notebook.") from None
    except json.JSONDecodeError as error:
        raise Unreadable(_why_no_json(text, error)) from None
    except ValueError as error:
        raise Unreadable(f"The file is not a notebook: {str(error)[:120]}.") from None


def _why_no_json(text: str, error: json.JSONDecodeError) -> str:
    start = text.lstrip()[:500].lower()
    again = "Save the notebook in Jupyter and hand it in again."
    if start.startswith("<") and ("html" in start or "<head" in start or "<script" in start):
        return (
            "The file is an HTML page, perhaps a login page or an exported notebook, not a notebook. Hand in the "
            ".ipynb file itself."
        )
    if start.startswith("<?xml"):
        return "The file is an XML document, not a notebook. Hand in the .ipynb file itself."
    if has_conflict(text):
        line = next(i for i, line in enumerate(text.splitlines(), 1) if line.startswith("<<<<<<<"))
        return (
            f"The file holds git's marks of a conflict (the first in line {line}): two versions of the notebook were "
            "merged and nobody chose between them. Choose one and hand it in again."
        )
    if not start.startswith(("{", "[")):
        return (
            "The file is text, but not a notebook (which is JSON and begins with '{'). Hand in the .ipynb file itself."
        )
    if error.msg.startswith("Unterminated string") or not text[error.pos :].strip():
        return f"The file is cut off: the end of the notebook is missing. {again}"
    place = f"line {error.lineno}, column {error.colno}"
    return f"The file begins like a notebook but is damaged at {place}. {again}"


def _cells(data: Any) -> tuple[list[Any], list[str]]:
    if not isinstance(data, dict):
        raise Unreadable("The file is JSON, but not a notebook. Hand in the .ipynb file itself.")
    cells, version = data.get("cells"), data.get("nbformat")
    if isinstance(cells, list):
        odd = isinstance(version, int | float) and not isinstance(version, bool) and version > 4
        return cells, ["The notebook's format is newer than 4; it was read as format 4."] if odd else []
    sheets = data.get("worksheets")
    if isinstance(sheets, list):
        inside = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
        found = [cell for cells in inside if isinstance(cells, list) for cell in cells]
        return found, ["The notebook was in the old format 3; it was converted."]
    raise Unreadable("The file is JSON, but not a notebook: it has no list of cells. Hand in the .ipynb file itself.")


def _piece(number: int, cell: Any) -> Piece | None:
    if not isinstance(cell, dict):
        return None
    kind = cell.get("cell_type")
    kind = {"heading": "markdown", "html": "markdown"}.get(kind, kind) if isinstance(kind, str) else ""
    if kind not in ("code", "markdown", "raw"):
        kind = "code" if "outputs" in cell else "raw"
    text = strings(cell.get("source", cell.get("input", ""))) or ""
    if cell.get("cell_type") == "heading":
        level = cell.get("level")
        text = "#" * (min(max(level, 1), 6) if isinstance(level, int) else 1) + " " + text
    text, cleaned = storable(text)
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    marks = metadata.get("nbgrader")
    marks = marks if isinstance(marks, dict) else {}
    tags = metadata.get("tags")
    tagged = isinstance(tags, list) and any(isinstance(tag, str) and tag in _HINTS for tag in tags)
    return Piece(
        number=number,
        kind=kind,
        text=text,
        grade_id=_name(marks.get("grade_id")),
        cell_id=_name(cell.get("id")),
        marks=tuple(sorted((k, v) for k, v in marks.items() if isinstance(v, bool | int | float | str))),
        attachments=_pictures(cell.get("attachments")) if kind != "code" else None,
        hinted=tagged or ("execution" in metadata and bool(metadata["execution"]) and _limits(metadata["execution"])),
        cleaned=cleaned,
    )


def _limits(execution: Any) -> bool:
    """Whether execution hints are more than the times at which Jupyter ran the cell."""
    return not isinstance(execution, dict) or any("." not in key for key in execution)


def _name(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= 200 else ""


def _pictures(value: Any) -> dict[str, Any] | None:
    """The pictures among a cell's attachments; anything else is left out."""
    if not isinstance(value, dict):
        return None
    kept = {}
    for name, kinds in value.items():
        if isinstance(kinds, dict) and storable(name)[0] == name:
            images = {k: v for k, v in kinds.items() if _is_picture(k, v)}
            if images:
                kept[name] = images
    return kept or None


def _is_picture(kind: str, data: Any) -> bool:
    return kind in ("image/png", "image/jpeg", "image/gif") and isinstance(data, str) and data.isascii()


def storable(text: str) -> tuple[str, bool]:
    """A text with line ends as Jupyter writes them and without what no file or database takes, and whether it had any.

    Lone surrogates (half of a character) become the replacement character, NUL bytes go.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        text.encode()
    except UnicodeEncodeError:
        clean = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", "")
        return clean, True
    return text.replace("\0", ""), "\0" in text
