"""A picture of weight updates: how small is too small to move a weight?"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, StrMethodFormatter

from ampcourse.numerics import get_format
from ampcourse.plots.style import PALETTE, Picture, drawn, new_figure
from ampcourse.plots.words import as_interval, power, raised, spell


@drawn
def tipping_ratio(format: Any = "float16", w: tuple[float, float] = (0.25, 4.0)) -> Picture:
    """The ratio |w|/|u| above which adding the update u leaves the weight w as it was, against w.

    It is |w| over half the gap at w: 2**precision times the significand of w, which runs from 1 to 2 in each binade.
    Micikevicius et al. 2018 (arXiv:1710.03740), section 3.1, give its lower end, 2**precision, for all weights.

    Args:
        format: name or `Format`.
        w: range of weights, two positive numbers.

    Raises:
        ValueError: for an unknown format, or a range that is not positive and rising, or not of normal numbers.
    """
    fmt, (low, high) = get_format(format), as_interval(w, "w")
    if low < fmt.least_normal or high > fmt.largest:
        raise ValueError(
            f"w runs from {low:g} to {high:g}, beyond the normal numbers of {fmt.name}: stay between "
            f"{fmt.least_normal:g} and {fmt.largest:g}."
        )
    ratio = 2.0**fmt.precision
    starts = 2.0 ** np.arange(np.floor(np.log2(low)), np.ceil(np.log2(high)))  # of the binades
    figure = new_figure(8.0, 4.0)
    axes = figure.subplots()
    for number, start in enumerate(starts):  # one tooth a binade: from ratio to twice the ratio
        weights = np.geomspace(max(start, low), min(2 * start, high), 33)
        tips = ratio * weights / start
        axes.plot(np.log2(weights), tips, color=PALETTE["blue"], label="" if number else "the update is half a gap")
        axes.fill_between(np.log2(weights), tips, 3 * ratio, facecolor=PALETTE["vermillion"], alpha=0.14, lw=0)
    axes.axhline(ratio, color="black", ls=(0, (5, 2)), lw=1.4, label=f"rule of thumb: {spell(ratio)}")
    axes.set(xlim=np.log2([low, high]), ylim=(0.5 * ratio, 2.6 * ratio), xlabel="weight w", ylabel="ratio |w| / |u|")
    middle = np.log2(low * high) / 2
    axes.text(middle, 2.3 * ratio, "swamped: w stays as it was", ha="center", va="center")
    axes.text(middle, 0.75 * ratio, "w moves", ha="center", va="center")
    inside = [edge for edge in (*starts, 2 * starts[-1]) if low <= edge <= high]
    axes.set_xticks(np.log2(inside[:: 1 + len(inside) // 9] if len(inside) > 1 else [low, high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda exponent, _: _weight(2.0**exponent)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.set_yticks(ratio * np.array([0.5, 1, 1.5, 2, 2.5]))
    axes.grid(True)
    axes.set_title(f"Which updates move a {fmt.name} weight")
    figure.legend(loc="outside lower center", ncols=2)
    return Picture(
        figure,
        f"The ratio |w|/|u| above which adding u to a {fmt.name} weight w changes nothing, for w from {power(low)} to "
        f"{power(high)}: a saw that climbs from {spell(ratio)} to {spell(2 * ratio)} within each binade and falls back "
        f"at each power of two. The rule of thumb, {spell(ratio)}, touches it from below.",
    )


def _weight(value: float) -> str:
    """A weight on the axis: a power of two where it is small or large, else as it is."""
    text = power(value)
    return raised(text) if text.startswith("2^") and not 0.01 < value < 1e4 else f"{value:g}"
