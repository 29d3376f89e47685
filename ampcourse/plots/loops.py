"""Pictures of what training steps did: how far an update went, and which learning rate each step got."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ampcourse.plots.scales import logarithmic
from ampcourse.plots.style import GREY, PALETTE, STROKES, End, Picture, drawn, label_ends, new_figure
from ampcourse.plots.words import as_numbers, listed, spell

MOST_UPDATES = 10


@drawn
def update_sizes(updates: Mapping[str, Any], right: str, title: str = "How far one step moved the weights") -> Picture:
    """How far each of several steps moved the weights, beside the right one, on a logarithmic axis.

    Args:
        updates: name of the step to the length of its update (a number) or to the update itself (an array, of which
            the length is taken); at most ten. A step that moved nothing, or to no finite place, is named as such.
        right: the name of the step that is right; the others are given as multiples of it.
        title: of the figure.

    Raises:
        ValueError: for no step or too many, or a right one that is not among them or has no length.
    """
    if not isinstance(updates, Mapping) or not 1 <= len(updates) <= MOST_UPDATES:
        raise ValueError(f"Give 1 to {MOST_UPDATES} updates as a dictionary from name to length.")
    lengths = {str(name): _length(update, str(name)) for name, update in updates.items()}
    if right not in lengths or not np.isfinite(lengths[right]) or lengths[right] <= 0:
        raise ValueError(f"'{right}' must be one of the updates, and have moved: the others are measured by it.")
    figure = new_figure(8.0, 0.9 + 0.5 * len(lengths))
    axes = figure.subplots()
    drawable = [v for v in lengths.values() if np.isfinite(v) and v > 0]
    low, high = min(drawable) / 8, max(drawable) * 8
    words = []
    for place, (name, length) in enumerate(lengths.items()):
        words.append(f"{name} {_draw_length(axes, place, length, lengths[right], low, name == right)}")
    axes.axvline(lengths[right], color=GREY, lw=1.2, ls=(0, (1, 2)), zorder=0)
    logarithmic(axes, "x")
    axes.set(xlim=(low, high), ylim=(len(lengths) - 0.4, -0.6))
    axes.set(xlabel="length of the update (logarithmic axis)", yticks=range(len(lengths)), yticklabels=list(lengths))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.set_title(title)
    return Picture(figure, f"{title}: {'; '.join(words)}.")


def _length(update: Any, name: str) -> float:
    values = as_numbers(update, f"update '{name}'").astype(np.float64)
    return float(np.sqrt((values**2).sum()))


def _draw_length(axes: Axes, place: int, length: float, right: float, low: float, is_right: bool) -> str:
    """One row; returns what it says in words."""
    colour, marker = (PALETTE["blue"], "o") if is_right else (PALETTE["vermillion"], "D")
    drawable = np.isfinite(length) and length > 0
    at = length if drawable else low * 1.25
    if not drawable:
        text = "nothing moved" if length == 0 else "not finite"
        marker = "X"
    else:
        ratio = length / right
        near = abs(ratio - 1) < 0.005
        text = spell(length) if is_right else f"{spell(length)}, {_times(ratio, near)}"
    axes.plot([low, at], [place, place], color=colour, lw=1.4)
    axes.plot(at, place, marker, color=colour, mec="black", mew=0.6, ms=9, clip_on=False)
    # above the line; ending at the point where that stands far to the right, so that nothing leaves the axes
    left = at < right / 4
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # over the lines of the grid
    offset = (7 if left else 0, 7)
    axes.annotate(text, (at, place), offset, textcoords="offset points", ha="left" if left else "right", bbox=paper)
    return f"{text} (right)" if is_right else text


def _times(ratio: float, near: bool) -> str:
    if near:
        return "the same"
    return f"{spell(ratio)} times too far" if ratio > 1 else f"1/{spell(1 / ratio)} of it"


@drawn
def learning_rates(rates: Mapping[str, Any]) -> Picture:
    """The learning rate with which each step updated the weights; skipped steps are marked at the foot.

    Args:
        rates: name to one rate a step, 0 or NaN where the step was skipped; at most six, all with the same steps.

    Raises:
        ValueError: for no series, too many, steps that differ in number, or a series without any update.
    """
    if not isinstance(rates, Mapping) or not 1 <= len(rates) <= len(STROKES):
        raise ValueError(f"Give 1 to {len(STROKES)} series as a dictionary from name to one rate a step.")
    series = {str(name): as_numbers(values, f"rates of '{name}'").astype(np.float64) for name, values in rates.items()}
    series = {name: np.where(np.isfinite(v) & (v > 0), v, np.nan) for name, v in series.items()}
    steps = {values.size for values in series.values()}
    if len(steps) > 1 or any(np.isnan(values).all() for values in series.values()):
        raise ValueError("Each series needs one rate a step, the same steps as the others, and at least one update.")
    figure = new_figure(8.0, 3.8)
    axes = figure.subplots()
    count, words, ends = steps.pop(), [], []
    at = np.arange(1, count + 1)
    for (name, values), stroke in zip(series.items(), STROKES, strict=False):
        made = np.flatnonzero(~np.isnan(values))
        axes.plot(
            at[made],
            values[made],
            marker=stroke.marker,
            ls=stroke.dashes,
            color=stroke.colour,
            ms=6,
            lw=1.6,
            clip_on=False,
        )
        ends.append(End(at[made[-1]], values[made[-1]], name, stroke.colour))
        words.append(f"{name} begins with {spell(values[made[0]])} and ends with {spell(values[made[-1]])}")
    skipped = at[np.any([np.isnan(v) for v in series.values()], axis=0)]
    axes.set_ylim(0, float(np.nanmax(list(series.values()))) * 1.1)
    if skipped.size:
        axes.plot(
            skipped,
            np.zeros(skipped.size),
            "X",
            color=PALETTE["vermillion"],
            mec="black",
            mew=0.6,
            ms=9,
            clip_on=False,
            ls="none",
            label=f"skipped ({skipped.size:,} of {count:,} steps)",
        )
        figure.legend(loc="outside lower center")
        words.append(f"skipped steps: {listed(str(s) for s in skipped[:12])}{' and more' if skipped.size > 12 else ''}")
    axes.set(xlim=(1, max(count, 2)), xlabel="step", ylabel="learning rate of the update")
    axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    axes.grid(True)
    axes.set_title("The learning rate of each update")
    label_ends(axes, ends)
    return Picture(figure, f"Learning rates over {count:,} steps: {'; '.join(words)}.")
