"""Pictures for vision transformers: a picture cut into patches, and differences with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ampcourse.plots.style import GREY, PALETTE, Picture, drawn, new_figure

MOST_NUMBERS = 256
"""Patches, and numbers of a patch, that can still be made out."""


@drawn
def picture_patches(
    picture: Any, rows: Any, side: int, title: str = "A picture, and what the network reads"
) -> Picture:
    """Left the picture with the borders of its patches, right its patches, each as one row of numbers.

    Args:
        picture: grey values from 0 (white) to 1, shape (height, width).
        rows: the patches, shape (patches, side * side), as the network reads them.
        side: of a patch, in pixels.
        title: what is shown.

    Raises:
        ValueError: if the patches do not fit the picture, or are too many to be seen.
    """
    grey, table = np.asarray(picture, float), np.asarray(rows, float)
    if grey.ndim != 2 or side < 1 or grey.shape[0] % side or grey.shape[1] % side:
        raise ValueError(f"Give a grey picture whose height and width are multiples of {side}, not {grey.shape}.")
    count = grey.size // side**2
    if table.shape != (count, side * side):
        raise ValueError(f"This picture has {count} patches of {side * side} numbers, not rows of shape {table.shape}.")
    if max(table.shape) > MOST_NUMBERS or not (np.isfinite(grey).all() and np.isfinite(table).all()):
        raise ValueError(f"Give finite numbers, and {MOST_NUMBERS} patches of {MOST_NUMBERS} numbers at most.")
    figure = new_figure(8.0, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    left.imshow(grey, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    _draw_grid(left, grey.shape, side)
    right.imshow(table, cmap="Greys", vmin=0, vmax=1, interpolation="nearest", aspect="auto", extent=_edges(table))
    right.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    right.set(xlabel="number within a patch", ylabel="patch", title="One row a patch")
    figure.suptitle(title, x=0.02, ha="left", fontsize=13)
    size = f"{grey.shape[0]} by {grey.shape[1]} pixels"
    return Picture(
        figure,
        f"{title}. Left a picture of {size} with the borders of {count} patches, {side} by {side} pixels each; right a "
        f"table of {count} rows, one a patch from the top left on, with {side * side} numbers each.",
    )


def _draw_grid(axes: Axes, shape: tuple[int, ...], side: int) -> None:
    height, width = shape
    for line in range(0, height + 1, side):
        axes.axhline(line - 0.5, color=PALETTE["vermillion"], lw=1.2)
    for line in range(0, width + 1, side):
        axes.axvline(line - 0.5, color=PALETTE["vermillion"], lw=1.2)
    axes.set(xlabel="column, in pixels", ylabel="line, in pixels", title=f"{height // side} by {width // side} patches")
    axes.spines[:].set_visible(False)


def _edges(table: np.ndarray) -> tuple[float, float, float, float]:
    """Rows and columns are counted from 1."""
    return 0.5, table.shape[1] + 0.5, table.shape[0] + 0.5, 0.5


@drawn
def differences(
    rows: Mapping[str, tuple[float, float, float]],
    title: str = "Differences",
    what: str = "accuracy",
    level: float = 95,
) -> Picture:
    """One line a comparison: a difference and its interval, in percentage points, and the line of no difference.

    Args:
        rows: name to (difference, lower end, upper end) as fractions of 1; at most eight.
        title: what is shown.
        what: the quantity that differs.
        level: of the intervals, in percent, for the words.

    Raises:
        ValueError: for no row, too many, numbers that are not finite, or a difference outside its interval.
    """
    table = {str(name): tuple(float(value) for value in three) for name, three in dict(rows).items()}
    if not 1 <= len(table) <= 8:
        raise ValueError("Give 1 to 8 comparisons, as a dictionary from name to (difference, lower end, upper end).")
    for name, (middle, low, high) in table.items():
        if not np.isfinite([middle, low, high]).all() or not low <= middle <= high:
            raise ValueError(f"'{name}' needs a finite difference between the two ends of its interval.")
    figure = new_figure(8.0, 1.7 + 0.55 * len(table))
    axes = figure.subplots()
    axes.axvline(0, color=GREY, lw=1.2, ls=(0, (4, 2)))
    for place, (middle, low, high) in enumerate(table.values()):
        axes.plot([100 * low, 100 * high], [place] * 2, "|-", color=PALETTE["blue"], ms=13, mew=2)
        axes.plot(100 * middle, place, "D", color=PALETTE["blue"], ms=7)
    reach = 115 * max(1e-4, *(abs(value) for three in table.values() for value in three))
    axes.set_yticks(range(len(table)), list(table))
    axes.set(xlim=(-reach, reach), ylim=(len(table) - 0.4, -0.6), xlabel=f"difference in {what}, percentage points")
    axes.grid(True, axis="x")
    axes.set_title(title)
    said = [
        f"{name}: {_points(middle)} points, from {_points(low)} to {_points(high)}"
        for name, (middle, low, high) in table.items()
    ]
    return Picture(figure, f"{title}: difference in {what} with its {level:g} % interval. {'; '.join(said)}.")


def _points(fraction: float) -> str:
    return f"{100 * fraction:+.2f}"
