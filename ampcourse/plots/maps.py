"""Pictures of pictures: rows of small maps, to see what a model makes of its targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ampcourse.plots.style import Picture, drawn, new_figure
from ampcourse.plots.words import percent

LONGEST = 8
"""Rows, and maps in a row, that can still be made out."""


@drawn
def map_rows(rows: Mapping[str, Any], shape: tuple[int, int] = (28, 28), title: str = "") -> Picture:
    """Maps side by side, one row a name; each column has one grey scale, from 0 (white) to the first row's largest.

    Args:
        rows: name to maps, an array of shape (maps, height * width) or (maps, height, width); the first row is the
            one that the others are compared with.
        shape: height and width of a map.
        title: what is shown.

    Raises:
        ValueError: for no row, too many, or rows that do not fit together.
    """
    stacks = {str(name): _maps(maps, shape, str(name)) for name, maps in dict(rows).items()}
    sizes = {len(maps) for maps in stacks.values()}
    if not 1 <= len(stacks) <= LONGEST or len(sizes) != 1 or not 1 <= max(sizes) <= LONGEST:
        raise ValueError(f"Give from one to {LONGEST} rows, each with the same number of maps, {LONGEST} at most.")
    count, (first, *others) = max(sizes), stacks
    tallest = stacks[first].max(axis=(1, 2), keepdims=True)
    sheet = np.vstack([np.hstack(_framed(maps / np.where(tallest > 0, tallest, 1))) for maps in stacks.values()])
    figure = new_figure(8.0, 1.1 + 6.4 * len(sheet) / len(sheet[0]))
    axes = figure.subplots()
    axes.imshow(sheet, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks(_middles(count, shape[1]), range(1, count + 1))
    axes.set_xlabel("number of the map (darker: larger values)")
    axes.set_yticks(_middles(len(stacks), shape[0]), [name.replace(", ", ",\n") for name in stacks])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title or "Maps")
    alike = [f"{name} {_correlation(stacks[first], stacks[name])}" for name in others]
    compared = f" Correlation with the first row: {'; '.join(alike)}." if alike else ""
    return Picture(figure, f"{title or 'Maps'}: {len(stacks)} rows of {count}, the first is {first}.{compared}")


def _maps(maps: Any, shape: tuple[int, int], name: str) -> np.ndarray:
    array = np.asarray(maps, float)
    try:
        array = array.reshape(-1, *shape) if array.size else array
    except ValueError:
        array = np.empty(0)
    if array.ndim != 3 or not np.isfinite(array).all():
        raise ValueError(f"'{name}' must hold finite maps of {shape[0]} by {shape[1]}, not shape {np.shape(maps)}.")
    return array


def _framed(maps: np.ndarray) -> np.ndarray:
    """Each map with a white margin of one pixel."""
    return np.pad(maps, ((0, 0), (1, 1), (1, 1)))


def _middles(count: int, size: int) -> list[float]:
    """Where the middles of framed maps lie, in pixels."""
    return [(number + 0.5) * (size + 2) - 0.5 for number in range(count)]


def _correlation(wanted: np.ndarray, got: np.ndarray) -> str:
    a, b = wanted.ravel() - wanted.mean(), got.ravel() - got.mean()
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return percent(max(float(a @ b / size), 0.0)) if size else "none, because a row is all of one shade"
