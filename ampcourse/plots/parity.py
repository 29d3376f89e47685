"""A picture of paired runs: the metric of each seed under each policy, and the differences with their interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import StrMethodFormatter

from ampcourse.plots.style import GREY, PALETTE, STROKES, Picture, drawn, new_figure
from ampcourse.plots.words import as_numbers, listed


@drawn
def paired_runs(
    metrics: Mapping[str, Any],
    tolerance: float,
    intervals: Mapping[str, tuple[float, float]] | None = None,
    confidence: float = 0.95,
) -> Picture:
    """Runs in pairs: on the left each seed's metric under each policy, on the right what it differs by.

    Args:
        metrics: name of the policy to its metrics, one a seed in the same order; 2 to 6 policies, the first of which
            the others are compared with. A metric that is not finite is left out and told in words.
        tolerance: half the width of the shaded band, in the metric's units.
        intervals: name of each other policy to the ends of the interval of its mean difference; an infinite end is
            drawn to the edge, and NaN or none draws nothing.
        confidence: of the intervals, for the words.

    Raises:
        ValueError: for fewer than 2 or more than 6 policies, numbers of different length, or a tolerance not above 0.
    """
    if not isinstance(metrics, Mapping) or not 2 <= len(metrics) <= len(STROKES):
        raise ValueError(f"Give the metrics of 2 to {len(STROKES)} policies as a dictionary from name to numbers.")
    series = {str(name): as_numbers(values, f"metrics under '{name}'") for name, values in metrics.items()}
    if len({values.size for values in series.values()}) != 1:
        raise ValueError("Each policy needs one metric for each seed: the numbers of metrics differ.")
    if not 0 < tolerance < math.inf:
        raise ValueError(f"The tolerance must be a finite number above 0, not {tolerance!r}.")
    first, *others = series
    with np.errstate(invalid="ignore"):
        differences = {name: series[name] - series[first] for name in others}
    figure = new_figure(8.0, 2.9 + 0.5 * len(others))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    _draw_pairs(left, series)
    _draw_differences(right, differences, tolerance, intervals or {}, f"{100 * confidence:g} % interval")
    right.set_title(f"Difference to {first}")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return Picture(figure, _words(series, differences, tolerance, intervals or {}, confidence))


def _draw_pairs(axes: Axes, series: Mapping[str, np.ndarray]) -> None:
    table = np.array(list(series.values()))
    axes.plot(range(len(series)), np.where(np.isfinite(table), table, np.nan), color=GREY, lw=1.0, alpha=0.8)
    for place, (values, stroke) in enumerate(zip(series.values(), STROKES, strict=False)):
        axes.plot(np.full(values.size, place), values, stroke.marker, color=stroke.colour, mec="black", mew=0.6, ms=7)
    axes.set_xticks(range(len(series)), [name.replace("_", "_\n") for name in series])
    axes.set(xlim=(-0.4, len(series) - 0.6), xlabel="dtype policy", ylabel="final metric")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.4g}"))
    axes.grid(True, axis="y")
    axes.set_title("One line a seed")


def _draw_differences(
    axes: Axes, differences: Mapping[str, np.ndarray], tolerance: float, intervals: Mapping[str, Any], label: str
) -> None:
    finite = [d[np.isfinite(d)] for d in differences.values()]
    ends = [end for pair in intervals.values() for end in pair if math.isfinite(end)]
    reach = 1.15 * max([1.6 * tolerance, *(abs(v) for part in (*finite, ends) for v in part)])
    axes.axvspan(-tolerance, tolerance, facecolor=PALETTE["yellow"], alpha=0.35, hatch="..", edgecolor=GREY, lw=0)
    axes.axvspan(0, 0, facecolor=PALETTE["yellow"], alpha=0.35, hatch="..", edgecolor=GREY, label="tolerated")
    axes.axvline(0, color="black", lw=1)
    for row, (name, stroke, values) in enumerate(zip(differences, STROKES[1:], finite, strict=False)):
        once = {"label": "one seed"} if row == 0 else {}
        axes.plot(values, np.full(values.size, row - 0.22), stroke.marker, color=stroke.colour, mec="black", **once)
        low, high = intervals.get(name, (math.nan, math.nan))
        if math.isnan(low + high) and not (math.isinf(low) and math.isinf(high)):
            continue
        once = {"label": f"mean and {label}"} if row == 0 else {}
        axes.plot(np.clip([low, high], -reach, reach), [row + 0.18] * 2, "|-", color="black", ms=13, mew=2, **once)
        axes.plot(values.mean(), row + 0.18, "D", color="black", ms=7)
        for end, mark in ((low, "<"), (high, ">")):
            if math.isinf(end):
                axes.plot(math.copysign(reach, end), row + 0.18, mark, color="black", ms=10, clip_on=False)
    axes.set_yticks(range(len(differences)), [name.replace("_", "_\n") for name in differences])
    axes.set(xlim=(-reach, reach), ylim=(len(differences) - 0.4, -0.6), xlabel="metric minus metric of the same seed")
    axes.xaxis.get_major_locator().set_params(nbins=5)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
    axes.grid(True, axis="x")


def _words(
    series: Mapping[str, np.ndarray],
    differences: Mapping[str, np.ndarray],
    tolerance: float,
    intervals: Mapping[str, Any],
    confidence: float,
) -> str:
    first, seeds = next(iter(series)), next(iter(series.values())).size
    said = []
    for name, d in differences.items():
        finite = d[np.isfinite(d)]
        spread = (
            f"from {finite.min():+.3g} to {finite.max():+.3g}, mean {finite.mean():+.3g}" if finite.size else "none"
        )
        words = f"{name} differs {spread}"
        low, high = intervals.get(name, (math.nan, math.nan))
        if math.isfinite(low) and math.isfinite(high):
            words += f", {100 * confidence:g} % interval {low:+.3g} to {high:+.3g}"
        elif math.isinf(low) or math.isinf(high):
            words += ", interval without an end"
        if finite.size < d.size:
            words += f", {d.size - finite.size} of {d.size} differences not finite"
        said.append(words)
    number = "one seed" if seeds == 1 else f"{seeds} seeds"
    return (
        f"Final metric of {number} under {listed(series)}, each seed a pair. Against {first}: {'; '.join(said)}. "
        f"The shaded tolerance is {tolerance:g} either way."
    )
