"""A model as a road through dtypes: one row a layer, one lane a dtype."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ampcourse.numerics import get_format
from ampcourse.plots.style import GREY, PALETTE, Picture, drawn, new_figure
from ampcourse.plots.words import listed

MOST_LAYERS = 40
_WHOLE = "whole numbers"

Step = tuple[str, str, str]


@drawn
def dtype_lanes(layers: Iterable[Sequence[str]], title: str = "") -> Picture:
    """In which dtype each layer answers, from top to bottom, and which layers leave it in between.

    Args:
        layers: (name, dtype of the output, another float dtype that runs inside or "") for each of 1 to 40 layers in
            the order in which they are called. An output such as "int64" or "bool" counts as whole numbers.
        title: what is drawn, in a few words.

    Raises:
        ValueError: for no layers or too many, a row that is no such triple, or a dtype that is no format.
    """
    steps = [_step(row) for row in layers]
    if not 1 <= len(steps) <= MOST_LAYERS:
        raise ValueError(f"Give 1 to {MOST_LAYERS} layers, not {len(steps)}: choose the ones to show.")
    lanes = _lanes(steps)
    figure = new_figure(8.0, 1.6 + 0.33 * len(steps))
    axes = figure.subplots()
    places = {name: place for place, name in enumerate(lanes)}
    _draw(axes, steps, places)
    axes.set_xticks(range(len(lanes)), lanes)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("dtype")
    axes.set_yticks(range(len(steps)), [name for name, _, _ in steps])
    axes.set(xlim=(-0.6, len(lanes) - 0.4), ylim=(len(steps) - 0.4, -0.6))
    axes.grid(axis="x")
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    figure.suptitle(title or "The dtype of what each layer returns", x=0.02, ha="left", fontsize=13)
    figure.legend(handles=_legend(steps), loc="outside lower center", ncols=2)
    return Picture(figure, _words(steps, title))


def _step(row: Sequence[str]) -> Step:
    if isinstance(row, str) or len(parts := tuple(map(str, row))) != 3:
        raise ValueError(f"A layer is given as (name, output dtype, dtype inside or ''), not as {row!r}.")
    name, output, inside = parts
    return name, _lane(output), _lane(inside) if inside else ""


def _lane(dtype: str) -> str:
    if dtype.startswith(("int", "uint", "bool")):
        return _WHOLE
    return "float64" if dtype == "float64" else get_format(dtype).name


def _lanes(steps: list[Step]) -> list[str]:
    """Whole numbers first, then floats from few bits to many."""
    used = {lane for _, output, inside in steps for lane in (output, inside) if lane}
    known = {_WHOLE: 0, "float64": 64}
    return sorted(used, key=lambda lane: (known[lane] if lane in known else get_format(lane).bits, lane))


def _draw(axes: Axes, steps: list[Step], places: dict[str, int]) -> None:
    road = [places[output] for _, output, _ in steps]
    axes.plot(road, range(len(steps)), color=GREY, lw=1.5, zorder=1)
    for row, (_, output, inside) in enumerate(steps):
        if inside:
            ends = [places[output], places[inside]]
            axes.plot(ends, [row, row], color=PALETTE["vermillion"], lw=1.5, ls=(0, (4, 2)), zorder=2)
            axes.plot(ends[1], row, "s", ms=9, mfc="white", mec=PALETTE["vermillion"], mew=2, zorder=3)
        axes.plot(places[output], row, "o", ms=9, color=PALETTE["blue"], zorder=4)


def _legend(steps: list[Step]) -> list[Any]:
    handles = [Line2D([], [], color=GREY, lw=1.5, marker="o", ms=9, mfc=PALETTE["blue"], mec=PALETTE["blue"])]
    handles[0].set_label("what the layer returns")
    if any(inside for _, _, inside in steps):
        mark = {"marker": "s", "ms": 9, "mfc": "white", "mec": PALETTE["vermillion"], "mew": 2}
        handles.append(Line2D([], [], color=PALETTE["vermillion"], ls=(0, (4, 2)), label="what runs inside it", **mark))
    return handles


def _words(steps: list[Step], title: str) -> str:
    told = (f"{name} returns {out}{f' and runs {inside} inside' if inside else ''}" for name, out, inside in steps)
    count = f"{len(steps)} layer{'s' * (len(steps) > 1)}"
    return f"{title or 'The dtype of what each layer returns'}, {count} from top to bottom: {listed(told)}."
