"""A small graph before and after a mixed-precision rewrite, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Patch

from ampcourse.plots.style import PALETTE, Picture, drawn, new_figure
from ampcourse.plots.words import listed

Box = tuple[str, str, str]
Place = tuple[float, float]
MOST_BOXES = 32
_WIDTH, _HEIGHT = 1.0, 0.34
# Name of the dtype, colour, hatching: no dtype is told by its colour alone, and each box names its own.
_LOOKS = {
    "float32": (PALETTE["sky blue"], ""),
    "float16": (PALETTE["orange"], "//"),
    "bfloat16": (PALETTE["yellow"], "\\\\"),
}
_OTHER = ("white", "")


@drawn
def graph_rewrite(boxes: Mapping[str, Box], edges: Iterable[tuple[str, str]], title: str = "") -> Picture:
    """Operations as boxes with their dtype, values as arrows downwards; on the right the inserted casts as well.

    Args:
        boxes: name -> (operation, dtype before, dtype after); a cast that the rewrite inserted has "" as dtype before.
        edges: pairs of names, from -> to, after the rewrite. Edges back into a loop are left out.
        title: by default how many operations changed.

    Raises:
        ValueError: for no operations or too many, or an edge between names that are not there.
    """
    edges = list(dict.fromkeys(edges))
    if not 1 <= len(boxes) <= MOST_BOXES:
        size = "no operations" if not boxes else f"{len(boxes)} operations"
        raise ValueError(f"The graph has {size}; a picture shows 1 to {MOST_BOXES}: use the table for the rest.")
    if strangers := [name for edge in edges for name in edge if name not in boxes]:
        raise ValueError(f"An edge leads to '{strangers[0]}', which is none of the operations.")
    places = _layout(boxes, edges)
    columns, rows = (max(at[axis] for at in places.values()) + 1 for axis in (0, 1))
    figure = new_figure(max(8.0, 2.5 * columns + 1.0), 0.52 * rows + 1.5)
    left, right = figure.subplots(1, 2)
    new = {name for name, box in boxes.items() if not box[1]}
    kept = {name: (op, old) for name, (op, old, _) in boxes.items() if name not in new}
    _draw(left, kept, _without(edges, new), places, "Before")
    _draw(right, {name: (op, now) for name, (op, _, now) in boxes.items()}, edges, places, "After")
    changed = [name for name in kept if boxes[name][1] != boxes[name][2]]
    figure.suptitle(title or f"{len(changed)} of {len(kept)} operations rewritten, {len(new)} casts inserted")
    dtypes = dict.fromkeys(t for box in boxes.values() for t in box[1:] if t in _LOOKS)
    handles = [Patch(facecolor=_LOOKS[t][0], edgecolor="black", hatch=_LOOKS[t][1], label=t) for t in dtypes]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, handlelength=2.4, handleheight=1.1)
    return Picture(figure, _words(boxes, changed, new))


def _words(boxes: Mapping[str, Box], changed: list[str], new: set[str]) -> str:
    told = [f"{op} {old if old == now else f'{old} to {now}'}" for op, old, now in boxes.values() if old]
    return (
        f"A graph of {len(boxes) - len(new)} operations before and after a mixed-precision rewrite. {len(changed)} "
        f"operations change their dtype, and {len(new)} casts are inserted. From top to bottom: {listed(told)}."
    )


def _without(edges: list[tuple[str, str]], new: set[str]) -> list[tuple[str, str]]:
    """The edges as they were: a value that now passes an inserted cast went straight to its reader."""
    source = {b: a for a, b in edges if b in new}
    return [(source.get(a, a), b) for a, b in edges if b not in new and (a not in new or a in source)]


def _layout(boxes: Mapping[str, Box], edges: list[tuple[str, str]]) -> dict[str, Place]:
    """Column and row of each box: a row below everything it reads, and near what it reads within the row."""
    order = {name: number for number, name in enumerate(boxes)}
    casts = {name for name, box in boxes.items() if not box[1]}
    rows = dict.fromkeys(boxes, 0)
    for _ in range(len(boxes)):  # longest path; edges against the program's order are those of loops
        for a, b in edges:
            if a in casts or b in casts or order[a] < order[b]:
                rows[b] = max(rows[b], min(rows[a] + 1, len(boxes)))
    for name in casts & {b for a, b in edges} | casts - {b for a, b in edges}:
        readers = [rows[b] for a, b in edges if a == name]
        rows[name] = min(readers) - 1 if readers and min(readers) > 0 else rows[name]
    shift = min(rows.values())
    columns: dict[str, float] = {}
    for row in sorted(set(rows.values())):
        here = [name for name in boxes if rows[name] == row]
        wanted = {n: [columns[a] for a, b in edges if b == n and a in columns] for n in here}
        here.sort(key=lambda n: (sum(wanted[n]) / len(wanted[n]) if wanted[n] else 99.0, order[n]))
        columns |= _spread(here, wanted)
    return {name: (columns[name], rows[name] - shift) for name in boxes}


def _spread(here: list[str], wanted: Mapping[str, list[float]]) -> dict[str, float]:
    """Whole columns, each the first free one from where its inputs are."""
    taken: dict[str, float] = {}
    for name in here:
        at = min(wanted[name]) if wanted[name] else 0.0
        while at in taken.values():
            at += 1.0
        taken[name] = at
    return taken


def _draw(
    axes: Axes, boxes: Mapping[str, tuple[str, str]], edges: list[tuple[str, str]], places: dict[str, Place], title: str
) -> None:
    shown = {places[name] for name in boxes}
    for a, b in edges:
        (x0, y0), (x1, y1) = places[a], places[b]
        if y1 > y0:
            in_the_way = x0 == x1 and any(x == x0 and y0 < y < y1 for x, y in shown)
            straight = (x0 == x1 and not in_the_way) or y1 - y0 == 1
            bend = 0.0 if straight else 0.25 if x1 <= x0 else -0.25
            _arrow(axes, (1.25 * x0, y0 + _HEIGHT), (1.25 * x1, y1 - _HEIGHT), bend)
    for name, (op, dtype) in boxes.items():
        column, y = places[name]
        x = 1.25 * column
        colour, hatch = _LOOKS.get(dtype, _OTHER)
        box = FancyBboxPatch(
            (x - _WIDTH / 2, y - _HEIGHT),
            _WIDTH,
            2 * _HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.08",
            lw=1.2,
            zorder=2,
        )
        box.set(facecolor=colour, edgecolor="black", hatch=hatch, linestyle="--" if op == "Cast" else "-")
        axes.add_patch(box)
        label = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        axes.text(
            x, y, f"{_short(op)}\n{dtype}", ha="center", va="center", fontsize=9, linespacing=1.05, bbox=label, zorder=3
        )
    widest, lowest = (max(at[axis] for at in places.values()) for axis in (0, 1))
    axes.set(xlim=(-0.65, 1.25 * widest + 0.65), ylim=(lowest + 0.6, -0.6), xticks=[], yticks=[], title=title)
    axes.set_axis_off()


def _arrow(axes: Axes, start: Place, end: Place, bend: float) -> None:
    """Behind the boxes, so that an arrow on its way past one does not cross out its words."""
    style = {"arrowstyle": "-|>", "color": "black", "lw": 1.1, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=style | {"connectionstyle": f"arc3,rad={bend}"}, zorder=1)


def _short(op: str) -> str:
    """A long name in its most telling pieces: the capitals of the others."""
    known = {"SparseSoftmaxCrossEntropyWithLogits": "SparseXent", "SoftmaxCrossEntropyWithLogits": "Xent"}
    return known.get(op, op if len(op) <= 13 else f"{op[:12]}…")
