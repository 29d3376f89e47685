"""Logarithmic axes whose labels can always be read: never fewer than two, and none that covers another."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, Locator, MaxNLocator, NullLocator

from ampcourse.plots.words import raised


class DecadeLocator(Locator):
    """Powers of ten where two or more are in view; else 1, 2 and 5 times them; else round numbers, evenly spaced.

    Args:
        most: ticks, at most.
    """

    def __init__(self, most: int = 6) -> None:
        self.most = most

    def __call__(self) -> np.ndarray:
        """The ticks of the axis as it is now."""
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> np.ndarray:
        """The ticks between two positive numbers."""
        low, high = min(vmin, vmax), max(vmin, vmax)
        if not (0 < low < high and math.isfinite(high)):
            return np.array([])
        exponents = np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        decades = _inside(10.0**exponents, low, high)
        if len(decades) > 1:
            return decades[:: math.ceil(len(decades) / self.most)]
        parts = _inside(np.outer(10.0**exponents, [1, 2, 5]).ravel(), low, high)
        if len(parts) > 1:
            return parts
        for bins in range(3, self.most + 1):
            even = _inside(MaxNLocator(nbins=bins, steps=[1, 2, 5, 10]).tick_values(low, high), low, high)
            if len(even) > 1:
                return even
        return np.array([low, high])


def _inside(values: np.ndarray, low: float, high: float) -> np.ndarray:
    return values[(values >= low * (1 - 1e-9)) & (values <= high * (1 + 1e-9))]


def logarithmic(axes: Axes, which: Literal["x", "y"], most: int = 6) -> None:
    """Make an axis logarithmic, with few labels and no minor ticks.

    Args:
        axes: the axes.
        which: "x" or "y".
        most: labels, at most.
    """
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(DecadeLocator(most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _label(value)))
    axis.set_minor_locator(NullLocator())


def _label(value: float) -> str:
    exponent = round(math.log10(value)) if value > 0 else 0
    if value > 0 and math.isclose(value, 10.0**exponent) and not -3 < exponent < 4:
        return raised(f"10^{exponent}")
    return f"{value:,.10g}" if 1e-4 < abs(value) < 1e6 else f"{value:.6g}"
