"""The instructor's notebook as the places that a submission's cells have to fill."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nbformat import NotebookNode

from ampcourse.grading.cells import INTERPRETATION, PARAMETERS, about, tags
from ampcourse.grading.document.code import bound, made, normalised, parsed
from ampcourse.grading.document.stubs import released

ANSWER, LOCKED, GIVEN, SETTINGS = "answer", "locked", "given", "settings"
"""What a cell of the lesson is to a student: the place for an answer; not to be changed; free to be changed; the cell
with the lesson's parameters."""


@dataclass(frozen=True)
class Slot:
    """One cell of the lesson as a student gets it.

    Attributes:
        place: its index in the instructor's notebook.
        role: `ANSWER`, `LOCKED`, `GIVEN` or `SETTINGS`.
        kind: "code", "markdown" or "raw".
        text: what the graded notebook holds where the student gives nothing: the empty answer, or the lesson's text
            with its hidden tests.
        released: what the student got.
        grade_id: nbgrader's name; empty for a cell without marks.
        cell_id: the notebook format's name.
        metadata: the instructor's.
    """

    place: int
    role: str
    kind: str
    text: str
    released: str
    grade_id: str
    cell_id: str
    metadata: dict[str, Any]

    @cached_property
    def keys(self) -> frozenset[str]:
        """The texts by which it is recognised, as they are compared."""
        return frozenset({normalised(self.text), normalised(self.released)})

    @cached_property
    def made(self) -> frozenset[str]:
        """What its code defines."""
        return made(self.released) if self.kind == "code" else frozenset()

    @cached_property
    def bound(self) -> frozenset[str]:
        """All names that its code binds, imported ones included."""
        return bound(self.released) if self.kind == "code" else frozenset()

    @property
    def written(self) -> bool:
        """Whether a person marks it: an answer that is also what is graded."""
        return self.role == ANSWER and bool(self.metadata.get("nbgrader", {}).get("grade"))

    @property
    def title(self) -> str:
        """What to call it to people."""
        if self.grade_id or self.role == SETTINGS:
            return f"'{self.grade_id or 'parameters'}'"
        first = next((line.strip() for line in self.released.splitlines() if line.strip()), "")
        return f"'{self.cell_id or (first if len(first) <= 40 else first[:39] + '…')}'"


@dataclass(frozen=True)
class Lesson:
    """All slots of a lesson in order, and what stands in the instructor's notebook only."""

    slots: tuple[Slot, ...]
    unreleased: frozenset[str]
    settings: frozenset[str]


def lesson_of(source: NotebookNode) -> Lesson:
    """The slots of an instructor's notebook. The last few notebooks are remembered: a class has one.

    Raises:
        GradingError: if the notebook itself cannot be released; that is nobody's zero.
    """
    return _lesson(tuple(_plain(cell) for cell in source.cells))


def _plain(cell: NotebookNode) -> tuple[str, str, str, str]:
    return cell.cell_type, cell.source, cell.get("id", ""), json.dumps(cell.metadata, sort_keys=True)


@functools.lru_cache(maxsize=16)
def _lesson(plain: tuple[tuple[str, str, str, str], ...]) -> Lesson:
    cells = [
        NotebookNode(cell_type=kind, source=text, id=cell_id, metadata=_node(json.loads(metadata)))
        for kind, text, cell_id, metadata in plain
    ]
    slots, unreleased, taken = [], set(), set()
    for place, cell in enumerate(cells):
        if INTERPRETATION in tags(cell):
            unreleased.add(normalised(cell.source))
            continue
        slot = _slot(place, cell, taken)
        taken.add(slot.cell_id)
        slots.append(slot)
    settings = frozenset(name for slot in slots if slot.role == SETTINGS for name in slot.made)
    return Lesson(tuple(slots), frozenset(unreleased), settings)


def _slot(place: int, cell: NotebookNode, taken: set[str]) -> Slot:
    marks = about(cell)
    text = released(cell.cell_type, cell.source, bool(marks.get("solution")))
    role = GIVEN
    if marks.get("solution"):
        role = ANSWER
    elif marks.get("grade") or marks.get("task") or marks.get("locked"):
        role = LOCKED
    elif cell.cell_type == "code" and PARAMETERS in tags(cell):
        role = SETTINGS
    cell_id = str(cell.id or f"cell-{place}")
    return Slot(
        place=place,
        role=role,
        kind=cell.cell_type,
        text=cell.source if role == LOCKED else text,
        released=text,
        grade_id=str(marks.get("grade_id", "")) if role in (ANSWER, LOCKED) else "",
        cell_id=cell_id if cell_id not in taken else f"{cell_id[:50]}-{place}",
        metadata=cell.metadata,
    )


def _node(value: Any) -> Any:
    if isinstance(value, dict):
        return NotebookNode({key: _node(inner) for key, inner in value.items()})
    return [_node(inner) for inner in value] if isinstance(value, list) else value


def complete(slot: Slot, text: str) -> bool:
    """Whether a changed text of a given cell still does what the rest of the lesson needs: it makes the same names."""
    return slot.kind != "code" or (parsed(text) is not None and slot.bound <= bound(text))
