"""The roofline: how fast a device can compute, at most, for each byte that it moves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ampcourse.plots.scales import logarithmic
from ampcourse.plots.style import GREY, PALETTE, STROKES, Picture, drawn, new_figure
from ampcourse.plots.words import listed

MOST_POINTS = len(STROKES)


@drawn
def roofline(peak: float, bandwidth: float, points: Mapping[str, tuple[float, float]], title: str = "") -> Picture:
    """A device's roof, and measured pieces of work below it.

    After S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model" (2009).

    Args:
        peak: operations a second that the arithmetic units can do.
        bandwidth: bytes a second that the memory can move.
        points: name to (operations for each byte moved, operations a second reached): 1 to 6 of them.
        title: what is shown.

    Raises:
        ValueError: for numbers that are not positive and finite, or too few or too many points.
    """
    if not isinstance(points, Mapping) or not 1 <= len(points) <= MOST_POINTS:
        raise ValueError(f"Give 1 to {MOST_POINTS} points as a dictionary from name to (intensity, speed).")
    measured = {str(name): _pair(pair, str(name)) for name, pair in points.items()}
    peak, bandwidth = _pair((peak, bandwidth), "the device")
    ridge = peak / bandwidth
    ends = [*(x for x, _ in measured.values()), ridge]
    x = np.geomspace(min(ends) / 4, max(ends) * 4, 200)
    figure = new_figure(8.0, 4.6)
    axes = figure.subplots()
    axes.fill_between(x, np.minimum(peak, x * bandwidth), peak * 1e-9, color=PALETTE["sky blue"], alpha=0.15, lw=0)
    axes.plot(x, np.minimum(peak, x * bandwidth), color="black", lw=2.2, label="the roof")
    axes.axvline(ridge, color=GREY, lw=1.0, ls=":", label=f"the ridge, at {ridge:.3g}")
    for (name, (intensity, speed)), stroke in zip(measured.items(), STROKES, strict=False):
        look = {"color": stroke.colour, "marker": stroke.marker, "ms": 9, "ls": "", "mec": "black", "zorder": 5}
        axes.plot([intensity], [speed], label=name, **look)
    speeds = [speed for _, speed in measured.values()]
    logarithmic(axes, "x")
    logarithmic(axes, "y")
    axes.set(xlim=(x[0], x[-1]), ylim=(min(*speeds, peak) / 4, max(*speeds, peak) * 2))
    axes.set(xlabel="arithmetic intensity (operations for each byte moved)", ylabel="operations a second")
    axes.grid(True, which="major", alpha=0.6)
    axes.set_title(title or "The roof of this machine, and what was measured")
    figure.legend(loc="outside right upper", handlelength=2.0)
    return Picture(figure, _words(measured, peak, bandwidth, ridge, title))


def _pair(pair: Any, name: str) -> tuple[float, float]:
    try:
        first, second = (float(number) for number in pair)
    except (TypeError, ValueError):
        first = second = math.nan
    if not (0 < first < math.inf and 0 < second < math.inf):
        raise ValueError(f"'{name}' needs two positive finite numbers, not {pair!r}.")
    return first, second


def _words(measured: dict[str, tuple[float, float]], peak: float, bandwidth: float, ridge: float, title: str) -> str:
    each = listed(
        f"{name} at {x:.3g} operations a byte reaches {y / min(peak, x * bandwidth):.0%} of the roof"
        for name, (x, y) in measured.items()
    )
    roof = f"the roof rises with {bandwidth:.3g} bytes a second up to {peak:.3g} operations a second"
    return f"{title or 'A roofline'}: {roof}, with the ridge at {ridge:.3g} operations a byte; {each}."
