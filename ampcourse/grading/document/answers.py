"""The text of an answer whose cell was copied or split, or that stands in a cell of the student's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ampcourse.grading.document.code import normalised, parsed
from ampcourse.grading.document.reading import Piece
from ampcourse.grading.document.slots import Slot

_PARTS = 8  # pieces into which one answer may have been split


@dataclass
class Chosen:
    """What was made of the pieces of one answer.

    Attributes:
        text: the answer.
        kept: pieces that stay cells of the student's own, at their places.
        parts: how many pieces the text was joined from.
        copies: how many were left out because they hold nothing else.
        attachments: pictures that belong to the text.
    """

    text: str
    kept: list[Piece] = field(default_factory=list)
    parts: int = 1
    copies: int = 0
    attachments: dict | None = None


def untouched(slot: Slot, text: str) -> bool:
    """Whether a text is the empty answer as it was released."""
    return normalised(text) in slot.keys


def choose(slot: Slot, pieces: Sequence[Piece]) -> Chosen:
    """The answer in one or more pieces that carry its name.

    Empty cells, empty answers and exact copies beside another piece are left out. Pieces of which one cannot stand
    alone, or that follow each other, are joined. Of several whole answers the first takes the place and the others stay
    where they are, so that the last one before the check counts, as in Jupyter.
    """
    telling: list[Piece] = []
    for piece in pieces:
        if piece.key and not untouched(slot, piece.text) and piece.key not in [other.key for other in telling]:
            telling.append(piece)
    if not telling:
        return Chosen(pieces[0].text, copies=len(pieces) - 1, attachments=pieces[0].attachments)
    copies = len(pieces) - len(telling)
    if slot.kind != "code":
        return Chosen(
            "\n\n".join(piece.text.strip("\n") for piece in telling) if len(telling) > 1 else telling[0].text,
            parts=len(telling),
            copies=copies,
            attachments=merged(telling),
        )
    return _code(slot, telling, copies)


def _code(slot: Slot, telling: list[Piece], copies: int) -> Chosen:
    whole = [piece for piece in telling if slot.made and slot.made <= piece.made and parsed(piece.text) is not None]
    if len(whole) > 1 and len(whole) == len(telling):
        return Chosen(whole[0].text, kept=whole[1:], copies=copies)
    first, joined, kept = telling[0], [telling[0]], []
    for piece in telling[1:]:
        follows = piece.number == joined[-1].number + 1
        if follows or parsed(piece.text) is None or parsed(first.text) is None:
            joined.append(piece)
        else:
            kept.append(piece)
    if kept and slot.made and not any(slot.made <= piece.made for piece in joined):
        # The first piece is a helper of the student's own, and the answer itself stands further below.
        better = next((piece for piece in kept if slot.made <= piece.made), None)
        if better is not None:
            return Chosen(better.text, kept=[p for p in telling if p is not better], copies=copies)
    text = "\n".join(piece.text.rstrip("\n") for piece in joined) if len(joined) > 1 else first.text
    return Chosen(text, kept=kept, parts=len(joined), copies=copies)


def continued(text: str, following: Sequence[Piece]) -> list[int]:
    """Which of the cells that follow an answer are its own, split off: alone they are no Python, joined they are."""
    parts = [text]
    for count, piece in enumerate(following[:_PARTS], 1):
        if piece.kind != "code" or (count == 1 and parsed(piece.text) is not None and parsed(text) is not None):
            break
        parts.append(piece.text)
        if parsed("\n".join(parts)) is not None:
            return list(range(count))
    for place, piece in enumerate(following[:_PARTS]):  # something else may have come between
        if piece.kind == "code" and parsed(piece.text) is None and parsed(f"{text}\n{piece.text}") is not None:
            return [place]
    return []


def merged(pieces: Sequence[Piece]) -> dict | None:
    """The pictures of several pieces together."""
    pictures: dict = {}
    for piece in pieces:
        pictures |= piece.attachments or {}
    return pictures or None
