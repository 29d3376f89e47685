"""How many times as fast: bars with their intervals, grouped by what was run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ampcourse.plots.scales import logarithmic
from ampcourse.plots.style import STROKES, Picture, drawn, new_figure
from ampcourse.plots.words import listed

MOST_GROUPS = 12
HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")
Interval = tuple[float, float, float]


@drawn
def speedups(ratios: Mapping[str, Mapping[str, Interval]], baseline: str, title: str = "") -> Picture:
    """Bars that begin at 1, as fast as the baseline, and end at the median; a line shows the interval.

    Args:
        ratios: name of a model to (name of a variant to (median, low end, high end), each above 0): 1 to 12 models,
            with 1 to 6 variants in all. A variant that a model lacks is left out there.
        baseline: what 1 stands for, such as "float32, TF32 off".
        title: what is shown.

    Raises:
        ValueError: for no ratio at all, too many, or numbers that are not positive, finite and in order.
    """
    if not isinstance(ratios, Mapping) or not 1 <= len(ratios) <= MOST_GROUPS:
        raise ValueError(f"Give the ratios of 1 to {MOST_GROUPS} models as a dictionary.")
    groups = {str(name): {str(k): _interval(v, str(k)) for k, v in row.items()} for name, row in ratios.items()}
    variants = list(dict.fromkeys(variant for row in groups.values() for variant in row))
    if not 1 <= len(variants) <= len(STROKES):
        raise ValueError(f"Give 1 to {len(STROKES)} variants, not {len(variants)}.")
    count = sum(map(len, groups.values()))
    figure = new_figure(8.0, 1.7 + 0.3 * count + 0.25 * len(groups))
    axes = figure.subplots()
    _draw(axes, groups, variants)
    axes.axvline(1, color="black", lw=1.4)
    axes.set_xlabel(f"times as fast as {baseline} (logarithmic axis)")
    axes.grid(True, axis="x")
    axes.set_title(title or f"Speed against {baseline}")
    figure.legend(*_handles(axes), loc="outside lower center", ncols=3, handlelength=1.6)
    return Picture(figure, _words(groups, baseline, title))


def _interval(given: Any, name: str) -> Interval:
    try:
        middle, low, high = (float(number) for number in given)
    except (TypeError, ValueError):
        middle = low = high = math.nan
    if not 0 < low <= middle <= high < math.inf:
        raise ValueError(f"'{name}' needs (median, low end, high end), positive, finite and in order, not {given!r}.")
    return middle, low, high


def _draw(axes: Axes, groups: Mapping[str, Mapping[str, Interval]], variants: list[str]) -> None:
    ends = np.array([value for row in groups.values() for value in row.values()] + [(1, 1, 1)])
    logarithmic(axes, "x")
    axes.set_xlim(min(ends.min() / 1.15, 0.8), max(ends.max() * 1.35, 1.25))
    place, ticks = 0.0, []
    for row in groups.values():
        begin = place
        for variant, (middle, low, high) in row.items():
            number = variants.index(variant)
            look = {"color": STROKES[number].colour, "hatch": HATCHES[number], "edgecolor": "white", "lw": 0.4}
            axes.barh(place, middle - 1, 0.8, left=1, label=variant, **look)
            for colour, width in (("white", 3.5), ("black", 1.4)):  # white around it, to be seen on a black bar
                axes.plot([low, high], [place, place], "|-", color=colour, ms=8, mew=width, lw=width)
            beside = {"textcoords": "offset points", "va": "center", "fontsize": 9}
            axes.annotate(f"{middle:.2f}", (max(high, 1), place), (6, 0), **beside)
            place += 1
        ticks.append((begin + place - 1) / 2)
        place += 0.8
    axes.set_yticks(ticks, [name.replace(", ", ",\n") for name in groups])
    axes.set_ylim(place - 1.2, -0.7)
    axes.tick_params(axis="y", length=0)


def _handles(axes: Axes) -> tuple[list[Any], list[str]]:
    """One entry a variant, however many models have it."""
    once = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    return list(once.values()), list(once)


def _words(groups: Mapping[str, Mapping[str, Interval]], baseline: str, title: str) -> str:
    each = "; ".join(
        f"{name}: " + listed(f"{variant} {m:.2f} ({low:.2f} to {high:.2f})" for variant, (m, low, high) in row.items())
        for name, row in groups.items()
        if row
    )
    return f"{title or 'Speed'}, in times as fast as {baseline}, with intervals. {each}."
