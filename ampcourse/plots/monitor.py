"""A picture of a run's health: loss scale with skipped steps, gradient norm, and what underflows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from ampcourse.plots.scales import logarithmic
from ampcourse.plots.style import PALETTE, Picture, drawn, new_figure, powers_of_two
from ampcourse.plots.words import percent, power, spell

NEEDED = ("step", "scale", "skipped", "nonfinite", "norm", "flushed", "subnormal")


@drawn
def gradient_health(history: Mapping[str, Any], verdict: str = "") -> Picture:
    """Three rows over the steps of a run: loss scale with skipped steps, gradient norm, flushed and subnormal share.

    Args:
        history: as `GradientMonitor.history` gives it: arrays of one length under `step`, `scale`, `skipped`,
            `nonfinite`, `norm`, `flushed` and `subnormal`, at least one step; others are not looked at.
        verdict: named in the title.

    Raises:
        ValueError: if one is missing, empty, or of another length.
    """
    data = _checked(history)
    figure = new_figure(8.0, 5.6)
    axes = figure.subplots(3, 1, sharex=True, height_ratios=[3, 3, 2])
    words = [
        _draw_scale(axes[0], data),
        _draw_norm(axes[1], data),
        _draw_lost(axes[2], data),
    ]
    first, last = data["step"][0], data["step"][-1]
    axes[-1].set(xlabel="step", xlim=(first, max(last, first + 1)))
    axes[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    for one in axes:
        one.grid(True)
    figure.align_ylabels(axes)
    axes[0].set_title("Gradients, step by step" + (f": {verdict}" if verdict else ""))
    figure.legend(loc="outside lower center", ncols=3)
    named = f", judged {verdict}" if verdict else ""
    return Picture(figure, f"Gradients of a run of {_steps(data['step'].size)}{named}. {' '.join(words)}")


def _steps(count: int) -> str:
    return f"{count:,} step" + ("" if count == 1 else "s")


def _checked(history: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not isinstance(history, Mapping) or (missing := [name for name in NEEDED if name not in history]):
        lacking = "" if not isinstance(history, Mapping) else f": it lacks '{missing[0]}'"
        raise ValueError(f"The history must be a dictionary such as GradientMonitor.history{lacking}.")
    data = {name: np.ravel(np.asarray(history[name], np.float64)) for name in NEEDED}
    count = data["step"].size
    if not count:
        raise ValueError("The history has no steps yet: record at least one before drawing it.")
    if other := [name for name, values in data.items() if values.size != count]:
        raise ValueError(f"The history has {count:,} steps but {data[other[0]].size:,} entries under '{other[0]}'.")
    return data


def _draw_scale(axes: Axes, data: dict[str, np.ndarray]) -> str:
    scale, skipped = data["scale"], data["skipped"] > 0
    usable = np.isfinite(scale) & (scale > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.where(usable, np.log2(scale), np.nan)
    axes.step(data["step"], exponents, where="mid", color=PALETTE["blue"], label="loss scale")
    count = int(skipped.sum())
    if count:
        floor = np.nanmin(exponents) if usable.any() else 0.0
        heights = np.where(usable, exponents, floor)[skipped]
        axes.plot(
            data["step"][skipped],
            heights,
            "X",
            color=PALETTE["vermillion"],
            mec="black",
            mew=0.6,
            ms=8 if count <= 40 else 4,
            ls="none",
            label=f"skipped ({count:,})",
            clip_on=False,
        )
    axes.set_ylabel("loss scale")
    axes.margins(y=0.2)
    powers_of_two(axes.yaxis, 5)
    return (
        f"The loss scale starts at {power(scale[0])} and ends at {power(scale[-1])}, lowest {power(scale.min())}; "
        f"{_steps(count)} {'was' if count == 1 else 'were'} skipped."
    )


def _draw_norm(axes: Axes, data: dict[str, np.ndarray]) -> str:
    norm, bad = data["norm"], data["nonfinite"] > 0
    drawable = np.isfinite(norm) & (norm > 0)
    axes.plot(data["step"], np.where(drawable, norm, np.nan), color=PALETTE["green"], lw=1.4, label="gradient norm")
    alone = drawable & ~np.r_[False, drawable[:-1]] & ~np.r_[drawable[1:], False]
    axes.plot(data["step"][alone], norm[alone], ".", color=PALETTE["green"])
    logarithmic(axes, "y", 5)
    axes.set_ylabel("norm, unscaled")
    if bad.any():
        axes.plot(
            data["step"][bad],
            np.full(bad.sum(), 0.04),
            "|",
            color="black",
            ms=9,
            transform=axes.get_xaxis_transform(),
            label=f"not finite ({int(bad.sum()):,})",
        )
    rest = f" Gradients were not finite at {_steps(int(bad.sum()))}." if bad.any() else ""
    if not drawable.any():
        return f"No step has a gradient norm above zero.{rest}"
    good = norm[drawable]
    return (
        f"The unscaled gradient norm goes from {spell(good[0])} to {spell(good[-1])}, between {spell(good.min())} and "
        f"{spell(good.max())}.{rest}"
    )


def _draw_lost(axes: Axes, data: dict[str, np.ndarray]) -> str:
    flushed, subnormal = data["flushed"], data["subnormal"]
    axes.plot(data["step"], flushed, color=PALETTE["purple"], lw=1.4, label="zero in the compute dtype")
    axes.plot(data["step"], subnormal, color=PALETTE["black"], ls=(0, (4, 2)), lw=1.4, label="subnormal in it")
    axes.set(ylim=(-0.04, 1.04), ylabel="elements")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    if not np.isfinite(flushed).any():
        return "No step was finite, so nothing is known of underflow."
    return (
        f"Of the gradients' elements {percent(float(np.nanmean(flushed)))} were zero on average and "
        f"{percent(float(np.nanmean(subnormal)))} subnormal in the compute dtype."
    )
