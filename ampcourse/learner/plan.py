"""Which code runs when a learner's notebook is checked: the learner's own, with the course's checks in their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ampcourse.learner.notebook import Cell, Check, Outline

_PARAMETERS = 'profile, seed = "grade", 0'  # as when graded: every lesson is quick then


@dataclass(frozen=True)
class Planned:
    """A code cell to run: its code or the check that it is, what to call it, and whether it is meant to raise."""

    label: str
    code: str = ""
    check: Check | None = None
    may_raise: bool = False


def plan(cells: Sequence[Cell], outline: Outline) -> list[Planned]:
    """The learner's code cells with the course's checks in place of their copies, or where they are missing."""
    places = {check.grade_id: _place(check, cells) for check in outline.checks}
    by_place = {place: check for check in outline.checks if (place := places[check.grade_id]) is not None}
    last = {cell.grade_id: number for number, cell in enumerate(cells) if cell.grade_id}
    missing = [check for check in outline.checks if places[check.grade_id] is None]
    put_back = {last[check.after]: check for check in missing if check.after in last}
    copies = {check.grade_id for check in outline.checks}
    planned: list[Planned] = []
    told = False
    for number, cell in enumerate(cells):
        label = f"cell {number + 1}"
        if number in by_place:
            planned.append(Planned(label, check=by_place[number]))
        elif cell.kind == "code" and cell.source.strip() and cell.grade_id not in copies:
            first = next(line.strip() for line in cell.source.splitlines() if line.strip())
            planned.append(Planned(f"{label} ({first[:40]})", cell.source, may_raise="raises-exception" in cell.tags))
        if not told and cell.kind == "code" and _is_parameters(cell, outline):
            planned.append(Planned(label, _PARAMETERS))
            told = True
        if number in put_back:
            planned.append(Planned(label, check=put_back[number]))
    ahead = [] if told else [Planned("the parameters", _PARAMETERS)]
    at_end = [Planned("the end", check=check) for check in missing if check not in put_back.values()]
    return ahead + planned + at_end


def _place(check: Check, cells: Sequence[Cell]) -> int | None:
    """Where the learner has this check: by its id, or, where editors lost the ids, by its text; the last one counts."""
    by_id = [i for i, cell in enumerate(cells) if cell.grade_id == check.grade_id]
    same = [i for i, c in enumerate(cells) if not c.grade_id and c.kind == "code" and c.source.strip() == check.source]
    return next(iter((by_id or same)[::-1]), None)


def _is_parameters(cell: Cell, outline: Outline) -> bool:
    return "parameters" in cell.tags or bool(outline.parameters and cell.source.strip() == outline.parameters.strip())


def judging(check: Check, home: str) -> str:
    """One expression, so that it neither needs nor leaves a name in the learner's notebook."""
    note = "__import__('ampcourse.learner.verdict').learner.verdict.note"
    return f"{note}({home!r}, {check.exercise!r}, {check.answer})"
