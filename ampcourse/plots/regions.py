"""The four fates of a value in a format, and how every plot draws them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from ampcourse.numerics import Fate, Format
from ampcourse.plots.style import GREY, PALETTE, name_regions
from ampcourse.plots.words import listed, percent


@dataclass(frozen=True)
class Region:
    """What becomes of a value, and how that is drawn: colour and hatch both tell it."""

    name: str
    label: str
    colour: str
    hatch: str


REGIONS = (
    Region("flushed", "flushed to 0", PALETTE["vermillion"], "xxx"),
    Region("subnormal", "subnormal", PALETTE["orange"], "///"),
    Region("normal", "normal", PALETTE["blue"], ""),
    Region("overflowed", "overflow", PALETTE["purple"], "..."),
)


def thresholds(fmt: Format) -> tuple[float, float, float]:
    """Where a value's fate changes, as exponents of two.

    Up to the first it is flushed to zero, from the second it is normal, from the third it overflows: rounding to
    nearest flushes at half the least subnormal, and overflows half a gap beyond the largest number.
    """
    overflow = fmt.largest + fmt.ulp(fmt.largest) / 2
    return float(np.log2(fmt.least_subnormal)) - 1, float(np.log2(fmt.least_normal)), float(np.log2(overflow))


def shade(axes: Axes, fmt: Format, names: list[str], height: float) -> None:
    """Tint and name the regions of an x axis of exponents, whose limits must be final.

    Args:
        axes: where to draw.
        fmt: the format whose regions they are.
        names: one for each of `REGIONS`.
        height: where the names begin, as a fraction of the height of the axes.
    """
    low, high = axes.get_xlim()
    edges = [min(low, thresholds(fmt)[0]), *thresholds(fmt), max(high, thresholds(fmt)[2])]
    for left, right, region in zip(edges, edges[1:], REGIONS, strict=False):
        if region.name != "normal" and right > low and left < high:
            axes.axvspan(max(left, low), min(right, high), facecolor=region.colour, alpha=0.15, lw=0, zorder=0)
    for edge in edges[1:-1]:
        if low < edge < high:
            axes.axvline(edge, color=GREY, lw=0.8, ls=":", zorder=1)
    name_regions(axes, edges, names, height)


def fate_words(fate: Fate) -> str:
    """The four fractions of a fate, in words."""
    return listed(f"{percent(getattr(fate, region.name))} {region.label}" for region in REGIONS)
