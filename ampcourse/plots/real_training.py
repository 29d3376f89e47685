"""Pictures of a real training run: accuracy by epoch, and what a step's time is spent on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator, PercentFormatter

from ampcourse.plots.style import GREY, PALETTE, STROKES, End, Picture, drawn, label_ends, new_figure
from ampcourse.plots.words import as_numbers, listed, percent

COLOURS = tuple(PALETTE[name] for name in ("blue", "orange", "green", "sky blue", "purple", "yellow", "vermillion"))
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "oo")
NARROW = 0.06
"""A part of less than this share of the longest row has no room for its number."""


@drawn
def accuracy_by_epoch(accuracies: Mapping[str, Any], chance: float | None = None, title: str = "Accuracy") -> Picture:
    """Accuracy after each epoch, one curve a run; the axis goes from 0 to 100 %.

    Args:
        accuracies: name of the run to its accuracies from 0 to 1, one an epoch; at most six.
        chance: the accuracy of guessing, drawn as a level.
        title: what is shown.

    Raises:
        ValueError: for no run, too many, or an accuracy outside 0 to 1.
    """
    series = {str(name): as_numbers(values, f"accuracies of '{name}'") for name, values in dict(accuracies).items()}
    if not 1 <= len(series) <= len(STROKES):
        raise ValueError(f"Give the accuracies of 1 to {len(STROKES)} runs as a dictionary from name to numbers.")
    if not all(values.size and ((values >= 0) & (values <= 1)).all() for values in series.values()):
        raise ValueError("Every run needs at least one accuracy, and accuracies lie between 0 and 1.")
    figure = new_figure(8.0, 4.0)
    axes = figure.subplots()
    words, ends = [], []
    for (name, values), stroke in zip(series.items(), STROKES, strict=False):
        epochs = np.arange(1, values.size + 1)
        axes.plot(epochs, values, color=stroke.colour, ls=stroke.dashes, marker=stroke.marker, ms=6)
        ends.append(End(values.size, values[-1], f"{name}: {percent(values[-1])}", stroke.colour))
        words.append(f"{name} goes from {percent(values[0])} to {percent(values[-1])}")
    longest = max(values.size for values in series.values())
    if chance is not None:
        axes.axhline(chance, color=GREY, lw=1.2, ls=(0, (1, 2)), zorder=0)
        axes.annotate("guessing", (1, chance), (2, -12), textcoords="offset points", color=GREY)
    axes.set(xlim=(1, max(longest, 2)), ylim=(0, 1), xlabel="epoch", ylabel="accuracy")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.grid(True)
    axes.set_title(title)
    label_ends(axes, ends)
    return Picture(figure, f"{title}, after each of {longest} epochs: {'; '.join(words)}.")


@drawn
def time_shares(rows: Mapping[str, Mapping[str, float]], title: str = "Where the time of a step goes") -> Picture:
    """One bar a row, made of its parts one after the other, in milliseconds.

    Args:
        rows: name of the row to its parts, name to milliseconds; all rows have the same parts. A part may be 0.
        title: what is shown.

    Raises:
        ValueError: for no row, more than six, rows with other parts, or times that are negative or all 0.
    """
    table = {str(name): {str(part): float(ms) for part, ms in parts.items()} for name, parts in dict(rows).items()}
    names = list(next(iter(table.values()), {}))
    if not 1 <= len(table) <= 6 or not 1 <= len(names) <= len(COLOURS):
        raise ValueError(f"Give 1 to 6 rows of 1 to {len(COLOURS)} parts, as a dictionary of dictionaries.")
    if any(list(parts) != names for parts in table.values()):
        raise ValueError(f"Every row needs the parts {listed(names)}, in this order.")
    times = np.array([list(parts.values()) for parts in table.values()])
    if not (np.isfinite(times).all() and (times >= 0).all() and times.sum(axis=1).all()):
        raise ValueError("Times are finite, not negative, and no row is 0 in all.")
    figure = new_figure(8.0, 1.7 + 0.62 * len(table))
    axes = figure.subplots()
    _draw_bars(axes, names, times)
    axes.set_yticks(range(len(table)), list(table))
    axes.set(ylim=(len(table) - 0.45, -0.55), xlabel="milliseconds")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    axes.set_title(title)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(names)))
    said = [_row_in_words(name, parts) for name, parts in table.items()]
    return Picture(figure, f"{title}. {' '.join(said)}")


def _draw_bars(axes: Axes, names: list[str], times: np.ndarray) -> None:
    starts = np.cumsum(times, axis=1) - times
    longest = times.sum(axis=1).max()
    for part, name in enumerate(names):
        colour = COLOURS[part]
        style = {"color": colour, "edgecolor": "black", "linewidth": 0.6, "hatch": HATCHES[part]}
        axes.barh(range(len(times)), times[:, part], left=starts[:, part], height=0.62, label=name, **style)
        for row, ms in enumerate(times[:, part]):
            if ms >= NARROW * longest:
                box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.9}
                place = (starts[row, part] + ms / 2, row)
                axes.text(*place, f"{ms:.3g}", ha="center", va="center", fontsize=9, bbox=box, color=to_rgb("black"))


def _row_in_words(name: str, parts: Mapping[str, float]) -> str:
    total = sum(parts.values())
    said = listed([f"{part} {percent(ms / total)}" for part, ms in parts.items()])
    return f"{name}, {total:.3g} ms in all: {said}."
