"""Pictures of gradients: where they lie, what a format loses of them, and what a loss scale brings back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ampcourse import numerics
from ampcourse.numerics import Fate, Format, get_format
from ampcourse.plots.regions import REGIONS, fate_words, shade, thresholds
from ampcourse.plots.scales import logarithmic
from ampcourse.plots.style import PALETTE, Picture, drawn, new_figure, powers_of_two
from ampcourse.plots.words import as_numbers, as_scale, listed, percent, power, raised, spell


@drawn
def gradient_histogram(values: Any, format: Any = "float16", scale: float = 1.0, title: str | None = None) -> Picture:
    """How many gradients lie at which power of two, over what the format does there.

    The figure is that of Micikevicius et al. 2018 (arXiv:1710.03740), figure 3, for your own gradients.

    Args:
        values: gradients, any shape; a list of arrays is taken together.
        format: name or `Format` that they are stored in.
        scale: loss scale by which they are multiplied before they are stored.
        title: by default it says what is drawn.

    Raises:
        ValueError: if there is no finite non-zero value, the format is unknown or the scale is not positive.
    """
    gradients, fmt, scale = _gradients(values), get_format(format), as_scale(scale)
    figure = new_figure(8.0, 4.2)
    axes = figure.subplots()
    fate = numerics.fate(gradients, fmt, scale)
    draw_histogram(axes, gradients, fmt, scale, fate, histogram_limits([gradients * scale], fmt))
    axes.set_title(title or f"Gradients in {fmt.name}, {scale_words(scale, raised)}")
    axes.set_xlabel(_magnitude_label(scale))
    return Picture(figure, f"{title + '. ' if title else ''}{histogram_words(gradients, fmt, scale, fate)}")


def _gradients(values: Any) -> np.ndarray:
    gradients = as_numbers(values, "gradients")
    if not (np.isfinite(gradients) & (gradients != 0)).any():
        raise ValueError("Every gradient is zero or not finite: there is no magnitude to draw.")
    return gradients


def _magnitude_label(scale: float) -> str:
    return "magnitude of the gradient" if scale == 1 else "magnitude of the gradient times the loss scale"


def scale_words(scale: float, write: Any = str) -> str:
    """`not scaled`, or the loss scale as a power of two."""
    return "not scaled" if scale == 1 else f"loss scale {write(power(scale))}"


def histogram_limits(sets: Sequence[np.ndarray], fmt: Format) -> tuple[float, float]:
    """Limits of the exponent axis that hold all values, and the regions of the format wide enough to be named."""
    flushed, _, overflow = thresholds(fmt)
    room = overflow - flushed
    histograms = [numerics.exponent_histogram(values) for values in sets]
    low = min([flushed - round(0.24 * room), *(float(h.exponents[0]) - 1 for h in histograms if h.exponents.size)])
    high = max([overflow + round(0.18 * room), *(float(h.exponents[-1]) + 2 for h in histograms if h.exponents.size)])
    return low, high


def draw_histogram(
    axes: Axes, gradients: np.ndarray, fmt: Format, scale: float, fate: Fate, limits: tuple[float, float]
) -> None:
    """The bars of one histogram over its four shaded and named regions."""
    with np.errstate(over="ignore", under="ignore"):
        histogram = numerics.exponent_histogram(gradients * scale)
    share = 100 * histogram.counts / histogram.counts.sum()
    owner = np.searchsorted(thresholds(fmt), histogram.exponents, side="right")
    edges = np.r_[histogram.exponents, histogram.exponents[-1] + 1]
    for number, region in enumerate(REGIONS):
        mine = np.where(owner == number, share, np.nan)
        axes.stairs(mine, edges, fill=True, facecolor=region.colour, edgecolor="black", hatch=region.hatch, lw=0.8)
    axes.set(xlim=limits, ylim=(0, share.max() * 1.45), ylabel="share of non-zero\ngradients (%)")
    names = [f"{region.label}\n{percent(getattr(fate, region.name))}" for region in REGIONS]
    shade(axes, fmt, names, 0.97)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    powers_of_two(axes.xaxis, 14)


def histogram_words(gradients: np.ndarray, fmt: Format, scale: float, fate: Fate) -> str:
    """What a histogram shows: how much of the gradients has which fate, where they lie, and the error left."""
    usable = np.abs(gradients[np.isfinite(gradients) & (gradients != 0)])
    extra = [
        f"{fate.zeros:,} exact zeros" if fate.zeros else "",
        f"{fate.nonfinite:,} not finite" if fate.nonfinite else "",
    ]
    apart = f" ({listed(filter(None, extra))} left out)" if any(extra) else ""
    return (
        f"Exponent histogram of {usable.size:,} non-zero gradients{apart} stored in {fmt.name}, {scale_words(scale)}: "
        f"{fate_words(fate)}. Unscaled, their magnitudes run from {spell(usable.min())} to {spell(usable.max())}, "
        f"median {spell(float(np.median(usable)))}. "
        f"Relative error of what is stored: {error_words(fate.relative_error)}."
    )


def error_words(error: float) -> str:
    """A relative error as a percentage, or that something overflowed."""
    return percent(error) if np.isfinite(error) else "infinite, because something overflowed"


def before_and_after(
    gradients: np.ndarray, fmt: Format, scale: float, limits: tuple[float, float], fates: tuple[Fate, Fate]
) -> Figure:
    """The histogram unscaled above, and under a loss scale below, on one axis of powers of two."""
    # The slider redraws this one: margins known beforehand halve the time.
    margins = {"left": 0.105, "right": 0.985, "bottom": 0.095, "top": 0.885, "hspace": 0.2}
    figure = new_figure(8.0, 5.4, margins)
    upper, lower = figure.subplots(2, 1, sharex=True)
    named = ((upper, "Not scaled", 1.0), (lower, f"Loss scale {raised(power(scale))}", scale))
    for (axes, name, factor), fate in zip(named, fates, strict=True):
        draw_histogram(axes, gradients, fmt, factor, fate, limits)
        error = percent(fate.relative_error) if np.isfinite(fate.relative_error) else "infinite"
        axes.set_title(f"{name}: relative error {error}", fontsize=11, pad=4)
    figure.suptitle(f"Gradients in {fmt.name}, before and after loss scaling", x=0.012, ha="left", fontsize=13)
    lower.set_xlabel("magnitude of what is stored")
    return figure


@drawn
def fate_by_scale(values: Any, scales: Any, format: Any = "float16") -> Picture:
    """What becomes of gradients under each loss scale, above; the relative error that is left, below.

    Args:
        values: gradients, any shape; a list of arrays is taken together.
        scales: loss scales, positive and rising; two at least.
        format: name or `Format` that the scaled gradients are stored in.

    Raises:
        ValueError: if there is no finite non-zero value, the format is unknown, or the scales are not as described.
    """
    gradients, fmt, scales = _gradients(values), get_format(format), as_scales(scales)
    fates = numerics.fate_by_scale(gradients, scales, fmt)
    at, errors = np.log2(scales), np.array([fate.relative_error for fate in fates])
    figure = new_figure(8.0, 5.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    shares = {region: [100 * getattr(fate, region.name) for fate in fates] for region in REGIONS}
    present = [region for region in REGIONS if any(shares[region])]
    areas = upper.stackplot(at, [shares[region] for region in present], labels=[region.label for region in present])
    for area, region in zip(areas, present, strict=True):
        area.set(facecolor=region.colour, edgecolor="black", hatch=region.hatch, lw=0.8)
    upper.set(ylim=(0, 100), ylabel="share of non-zero\ngradients (%)")
    upper.set_title(f"What a loss scale does to gradients stored in {fmt.name}")
    figure.legend(handles=list(areas), loc="outside lower center", ncols=4, handlelength=2.4, handleheight=1.1)
    best = _draw_errors(lower, at, errors)
    lower.set(xlim=(at[0], at[-1]), xlabel="loss scale", ylabel="relative error")
    powers_of_two(lower.xaxis, 14)
    return Picture(figure, _scales_words(fmt, scales, fates, best))


def _draw_errors(axes: Axes, at: np.ndarray, errors: np.ndarray) -> int | None:
    """Errors on a logarithmic axis; overflows stand at the top. Returns the place of the least error."""
    drawable, exact = np.isfinite(errors) & (errors > 0), errors == 0
    top = max(1.0, errors[drawable].max(initial=0.0))
    bottom = errors[drawable].min(initial=top / 100)
    if drawable.any():
        axes.semilogy(at[drawable], errors[drawable], "-o", color=PALETTE["blue"], ms=4, clip_on=False)
    logarithmic(axes, "y")
    if exact.any():
        axes.plot(at[exact], np.full(exact.sum(), bottom / 2), "v", color=PALETTE["blue"], ms=7, clip_on=False)
        axes.annotate("no error", (at[exact].mean(), bottom / 2), (0, 9), textcoords="offset points", ha="center")
    infinite = at[~np.isfinite(errors)]
    axes.set_ylim(bottom / 4, top * 6)
    if infinite.size:
        axes.plot(infinite, np.full(infinite.size, top * 2.2), "^", color=PALETTE["purple"], ms=7, clip_on=False)
        side, where = ((-8, 0), "right") if infinite[0] > at.mean() else ((0, -14), "left")
        words, first = "overflow: no finite error", (infinite[0], top * 2.2)
        axes.annotate(words, first, side, textcoords="offset points", ha=where, va="center")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.4g} %"))
    axes.grid(True, axis="y")
    if not np.isfinite(errors).any():
        return None
    best = int(np.argmin(errors))
    if errors[best] > 0:
        axes.plot(at[best], errors[best], "D", ms=9, mfc="none", mec="black", mew=1.4, clip_on=False)
        side = -1 if at[best] > at.mean() else 1
        axes.annotate(
            f"least error {percent(errors[best])} at {raised(power(2.0 ** at[best]))}",
            (at[best], errors[best]),
            (10 * side, 12),
            textcoords="offset points",
            ha="right" if side < 0 else "left",
        )
    return best


def _scales_words(fmt: Format, scales: np.ndarray, fates: list[Fate], best: int | None) -> str:
    def one(number: int) -> str:
        fate = fates[number]
        return f"at {power(scales[number])} {fate_words(fate)}, relative error {error_words(fate.relative_error)}"

    chosen = [0, *([best] if best not in (None, 0, len(fates) - 1) else []), len(fates) - 1]
    least = "no scale is without overflow" if best is None else f"the error is least at {power(scales[best])}"
    return (
        f"Fate of gradients in {fmt.name} under {len(fates)} loss scales from {power(scales[0])} to "
        f"{power(scales[-1])}: {'; '.join(one(number) for number in chosen)}; {least}."
    )


def as_scales(scales: Any) -> np.ndarray:
    """Loss scales as an array.

    Raises:
        ValueError: unless there are two or more, all positive and finite, in rising order.
    """
    array = as_numbers(scales, "loss scales")
    if array.size < 2 or not (np.isfinite(array).all() and (array > 0).all() and (np.diff(array) > 0).all()):
        raise ValueError(
            "The loss scales must be two or more positive numbers in rising order, such as 2.0 ** np.arange(31)."
        )
    return array
