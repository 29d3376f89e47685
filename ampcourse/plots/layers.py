"""Places the boxes of a graph in rows, so that every arrow points down and goes around the boxes in its way.

A small form of Sugiyama's method (K. Sugiyama, S. Tagawa, M. Toda 1981): rows, then order within the rows, then places.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ampcourse.plots.style import spread

_GAP, _BEND, _SWEEPS = 0.16, 0.14, 8  # the room between boxes, the room that a passing arrow takes


@dataclass(frozen=True)
class Box:
    """One box: its name, its width, and the part of the picture that it belongs to, from above to below."""

    key: str
    width: float
    part: int = 0


@dataclass(frozen=True)
class Layout:
    """Where everything lies: the row of each box from above, its middle from the left, and the bends of each arrow."""

    rows: int
    place: dict[str, tuple[int, float]]
    bends: dict[tuple[str, str], list[tuple[int, float]]]


@dataclass
class _Grid:
    """Keys of boxes and bends, row by row, with their neighbours in the rows above and below."""

    rows: list[list[str]]
    widths: dict[str, float]
    neighbours: dict[str, list[str]] = field(default_factory=dict)

    def join(self, above: str, below: str) -> None:
        self.neighbours.setdefault(above, []).append(below)
        self.neighbours.setdefault(below, []).append(above)


def arrange(boxes: list[Box], edges: list[tuple[str, str]], width: float) -> Layout:
    """Places for boxes that are given in an order in which every arrow leads from an earlier to a later one.

    Args:
        boxes: every box; those of a part lie below all of the part before it.
        edges: arrows, each from one key to another.
        width: of a row; a row that is full goes on in the next.
    """
    row = _rows(boxes, edges, width)
    count = 1 + max(row.values())
    grid = _Grid([[b.key for b in boxes if row[b.key] == r] for r in range(count)], {b.key: b.width for b in boxes})
    chains = {}
    for number, (start, end) in enumerate(edges):
        chain = [f"{number}/{r}" for r in range(row[start] + 1, row[end])]
        for r, key in enumerate(chain, row[start] + 1):
            grid.rows[r].append(key)
            grid.widths[key] = _BEND
        for above, below in zip([start, *chain], [*chain, end], strict=True):
            grid.join(above, below)
        chains[start, end] = [(r, key) for r, key in enumerate(chain, row[start] + 1)]
    x = _places(grid, width)
    place = {b.key: (row[b.key], x[b.key]) for b in boxes}
    return Layout(count, place, {edge: [(r, x[key]) for r, key in chain] for edge, chain in chains.items()})


def _rows(boxes: list[Box], edges: list[tuple[str, str]], width: float) -> dict[str, int]:
    """Each box in the highest row that lies below all it depends on and has room."""
    row: dict[str, int] = {}
    filled: dict[int, float] = {}
    first, part = 0, boxes[0].part
    for box in boxes:
        if box.part != part:
            first, part = 1 + max(row.values()), box.part
        at = max([first, *(row[start] + 1 for start, end in edges if end == box.key)])
        while filled.get(at, 0.0) and filled[at] + box.width + _GAP > width:
            at += 1
        row[box.key] = at
        filled[at] = filled.get(at, 0.0) + box.width + _GAP
    return row


def _places(grid: _Grid, width: float) -> dict[str, float]:
    x: dict[str, float] = {}
    for row in grid.rows:
        _settle(row, grid, {}, width, x)
    for sweep in range(_SWEEPS):
        for row in grid.rows if sweep % 2 == 0 else grid.rows[::-1]:
            wanted = {key: _mean([x[other] for other in grid.neighbours.get(key, ())], x[key]) for key in row}
            row.sort(key=lambda key: wanted[key])
            _settle(row, grid, wanted, width, x)
    return x


def _settle(row: list[str], grid: _Grid, wanted: dict[str, float], width: float, x: dict[str, float]) -> None:
    sizes = [grid.widths[key] + _GAP for key in row]
    x.update(zip(row, spread([wanted.get(key, width / 2) for key in row], sizes, 0.0, width), strict=True))


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
