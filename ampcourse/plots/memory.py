"""Pictures of a device at work: when it runs something and how much of it, and what its memory holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.patches import Patch

from ampcourse.plots.style import PALETTE, Picture, drawn, new_figure
from ampcourse.plots.words import listed, percent

# Fill and hatch, so that no part of a bar differs by colour alone.
_LOOKS = (
    (PALETTE["blue"], ""),
    (PALETTE["orange"], "//"),
    (PALETTE["sky blue"], ".."),
    (PALETTE["yellow"], "\\\\"),
    (PALETTE["green"], "xx"),
    (PALETTE["purple"], "--"),
)
MOST_BARS = 12
_MOST_KERNELS = 400


@drawn
def device_timeline(kernels: Sequence[tuple[float, float, float]], units: int, period: float) -> Picture:
    """How many units of a device work at each moment, and above it a strip that says whether any of them does.

    Args:
        kernels: `(start, end, units)` of each kernel, in one unit of time, 1 to 400 of them.
        units: how many units the device has, such as the streaming multiprocessors of a GPU.
        period: length of the period looked at, which begins at 0.

    Raises:
        ValueError: for no kernel or too many, one that ends before it starts, or numbers that are not positive.
    """
    runs = np.asarray(kernels, float) if len(kernels) else np.empty((0, 3))
    if runs.ndim != 2 or runs.shape[1] != 3 or not 1 <= len(runs) <= _MOST_KERNELS or not np.isfinite(runs).all():
        raise ValueError(f"Give 1 to {_MOST_KERNELS} kernels as (start, end, units), three finite numbers each.")
    if (runs[:, 1] < runs[:, 0]).any() or (runs[:, 2] < 0).any():
        raise ValueError("A kernel ends before it starts, or uses fewer than 0 units.")
    if not (math.isfinite(period) and period > 0 and units > 0):
        raise ValueError(f"The period and the number of units are positive, not {period!r} and {units!r}.")
    edges = np.unique(np.clip(np.r_[0, period, runs[:, 0], runs[:, 1]], 0, period))
    middles = (edges[:-1] + edges[1:]) / 2
    on = (runs[:, :1] <= middles) & (middles < runs[:, 1:2])
    working = np.minimum((on * runs[:, 2:]).sum(0), units)
    lengths = np.diff(edges)
    any_share = float(lengths[on.any(0)].sum() / period)
    all_share = float((lengths * working).sum() / period / units)
    figure = new_figure(8.0, 3.6)
    strip, axes = figure.subplots(2, 1, sharex=True, height_ratios=(1, 5))
    for left, length, busy in zip(edges, lengths, on.any(0), strict=False):
        if busy:
            strip.barh(0, length, left=left, height=1, color=PALETTE["vermillion"])
    strip.set(yticks=[], ylim=(-0.6, 0.6), xlim=(0, period))
    strip.set_title(f"Something runs: {percent(any_share)} of the time")
    strip.tick_params(axis="x", length=0)
    axes.stairs(working, edges, fill=True, color=PALETTE["sky blue"])
    axes.stairs(working, edges, color=PALETTE["blue"], lw=1.2)
    axes.axhline(units, color="black", lw=1.2, ls=(0, (5, 2)))
    axes.set(ylim=(0, units * 1.12), xlabel="time (ms)", ylabel="units at work")
    axes.set_title(f"Units at work, of {units}: {percent(all_share)} on average")
    alt = (
        f"A device of {units} units over {period:g} ms. A strip shows that some kernel runs {percent(any_share)} of "
        f"the time. Below it the units at work: {percent(all_share)} of all on average, {working.max():g} at most."
    )
    return Picture(figure, alt)


@drawn
def memory_parts(bars: Mapping[str, Mapping[str, float]], title: str = "") -> Picture:
    """What the memory holds, one bar for each case, divided into parts.

    Args:
        bars: name of the case to its parts, name of the part to bytes: 1 to 12 bars of at most 6 different parts.
        title: what is shown.

    Raises:
        ValueError: for too few or too many bars or parts, or bytes that are no finite number from 0.
    """
    if not isinstance(bars, Mapping) or not 1 <= len(bars) <= MOST_BARS:
        raise ValueError(f"Give 1 to {MOST_BARS} bars as a dictionary from name to parts.")
    names = list(dict.fromkeys(part for parts in bars.values() for part in parts))
    if not 1 <= len(names) <= len(_LOOKS):
        raise ValueError(f"A bar has 1 to {len(_LOOKS)} parts; here are {len(names)} different ones.")
    values = {bar: [_bytes(parts.get(name, 0), name) for name in names] for bar, parts in bars.items()}
    largest = max(sum(parts) for parts in values.values())
    unit, size = next(((u, s) for u, s in _UNITS if largest >= s), ("bytes", 1))
    figure = new_figure(8.0, 1.7 + 0.42 * len(values))
    axes = figure.subplots()
    for place, parts in enumerate(values.values()):
        left = 0.0
        for part, (colour, hatch) in zip(parts, _LOOKS, strict=False):
            axes.barh(place, part / size, left=left, color=colour, edgecolor="black", lw=0.6, hatch=hatch, height=0.7)
            left += part / size
        axes.annotate(f"{left:.3g}", (left, place), (4, 0), textcoords="offset points", va="center", fontsize=10)
    axes.set_yticks(range(len(values)), list(values))
    axes.invert_yaxis()
    axes.set(xlabel=unit, xlim=(0, (largest or 1) / size * 1.1))
    axes.set_title(title or "What the memory holds")
    looks = zip(names, _LOOKS, strict=False)
    handles = [Patch(facecolor=c, edgecolor="black", hatch=hatch, label=name) for name, (c, hatch) in looks]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, handlelength=2.2, handleheight=1.1)
    words = "; ".join(
        f"{bar}: {listed(f'{name} {part / size:.3g}' for name, part in zip(names, parts, strict=True))}"
        for bar, parts in values.items()
    )
    return Picture(figure, f"{title or 'What the memory holds'}, in {unit}, as bars. {words}.")


_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def _bytes(value: Any, name: str) -> float:
    try:
        size = float(value)
    except (TypeError, ValueError):
        size = math.nan
    if not (math.isfinite(size) and size >= 0):
        raise ValueError(f"'{name}' needs a number of bytes from 0, not {value!r}.")
    return size
