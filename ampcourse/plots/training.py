"""Pictures of things that go on: partial sums, a loss scale, losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from ampcourse.plots.scales import logarithmic
from ampcourse.plots.style import (
    GREY,
    PALETTE,
    STROKES,
    End,
    Picture,
    Stroke,
    drawn,
    label_ends,
    new_figure,
    powers_of_two,
)
from ampcourse.plots.words import as_numbers, listed, power, raised, spell


@drawn
def swamping(partial_sums: Mapping[str, Any], exact: Any = None) -> Picture:
    """Partial sums against the number of terms: where a sum has grown so large that a term no longer changes it.

    Args:
        partial_sums: name of the format to its partial sums, one number a term; at most six.
        exact: the right sums, one a term, or the right final sum, which is then drawn as a level.

    Raises:
        ValueError: for no series, too many, or an `exact` of another length.
    """
    series = _series(partial_sums, "partial sums")
    longest = max(values.size for values in series.values())
    figure = new_figure(8.0, 4.2)
    axes = figure.subplots()
    words, ends, stops = [], [], []
    for (name, values), stroke in zip(series.items(), STROKES, strict=False):
        axes.plot(np.arange(1, values.size + 1), values, color=stroke.colour, ls=stroke.dashes)
        stop = _last_change(values)
        if stop is not None:
            axes.plot(stop, values[stop - 1], stroke.marker, color=stroke.colour, ms=8, mec="black")
            stops.append((stop, values[stop - 1]))
        ends.append(End(values.size, values[-1], f"{name}: {spell(values[-1])}", stroke.colour))
        rest = f" and no longer changes after term {stop:,}" if stop is not None else ""
        words.append(f"{name} ends at {spell(values[-1])}{rest}")
    if exact is not None:
        right = _draw_exact(axes, exact, longest)
        words.append(f"the exact sum is {spell(right)}")
        ends.append(End(longest, right, f"exact: {spell(right)}", GREY))
    axes.set(xlim=(0, longest), xlabel="number of terms added", ylabel="partial sum")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.margins(y=0.08)
    axes.grid(True)
    _name_stops(axes, stops)
    label_ends(axes, ends)
    axes.set_title("Where a sum stops growing" if stops else "Partial sums")
    return Picture(figure, f"Partial sums of {longest:,} terms: {'; '.join(words)}.")


def _last_change(values: np.ndarray) -> int | None:
    """The term after which the sum stays as it is to the end; None if it still changes in the last tenth."""
    changes = np.flatnonzero(np.diff(values) != 0)
    last = int(changes[-1]) + 2 if changes.size else 1
    return last if last <= 0.9 * values.size else None


def _draw_exact(axes: Axes, exact: Any, longest: int) -> float:
    right = as_numbers(exact, "exact sums")
    if right.size not in (1, longest):
        raise ValueError(
            f"There are {right.size:,} exact sums for {longest:,} terms: give one a term, or the last one."
        )
    if right.size == 1:
        axes.axhline(right[0], color=GREY, lw=1.2, ls=(0, (1, 2)), zorder=1)
    else:
        axes.plot(np.arange(1, longest + 1), right, color=GREY, lw=5, alpha=0.35, zorder=1)
    return float(right[-1])


def _name_stops(axes: Axes, stops: list[tuple[int, float]]) -> None:
    """What each sum stops at: above its point, or below where the point is near the left edge."""
    for stop, value in stops:
        near = stop < 0.3 * axes.get_xlim()[1]
        axes.annotate(
            f"stops at {spell(value)}",
            (stop, value),
            (8, -16) if near else (-7, 7),
            textcoords="offset points",
            ha="left" if near else "right",
        )


@drawn
def loss_scale_trace(trace: Any) -> Picture:
    """The loss scale in use at each step, in powers of two, with the skipped steps marked.

    Args:
        trace: a `numerics.ScaleTrace`, or anything with `scales`, `applied` and `final_scale`.

    Raises:
        ValueError: if there is no step, or scales and steps differ in number.
    """
    scales, applied = as_numbers(trace.scales, "loss scales"), np.ravel(np.asarray(trace.applied, bool))
    if scales.size != applied.size:
        raise ValueError(f"The trace has {scales.size:,} loss scales and {applied.size:,} steps: it needs one a step.")
    final = float(trace.final_scale)
    steps = np.arange(1, scales.size + 2)
    line = np.r_[scales, final]
    usable = np.isfinite(line) & (line > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.where(usable, np.log2(line), np.nan)
    figure = new_figure(8.0, 4.0)
    axes = figure.subplots()
    axes.step(steps, exponents, where="post", color=PALETTE["blue"], label="loss scale used")
    skipped = np.flatnonzero(~applied)
    floor = np.nanmin(exponents) if usable.any() else 0.0
    heights = np.where(np.isfinite(exponents[skipped]), exponents[skipped], floor)
    if skipped.size:
        label = f"skipped ({skipped.size:,} of {scales.size:,} steps)"
        axes.plot(
            steps[skipped],
            heights,
            "X",
            color=PALETTE["vermillion"],
            mec="black",
            mew=0.6,
            ms=9 if skipped.size <= 40 else 4,  # many marks must not hide the line
            ls="none",
            label=label,
            clip_on=False,  # the first step lies on the axis
        )
    axes.set(xlim=(1, scales.size + 1), xlabel="step", ylabel="loss scale")
    axes.margins(y=0.15)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    powers_of_two(axes.yaxis, 8)
    axes.grid(True)
    axes.set_title("Loss scale, step by step")
    if usable.any():
        last = int(np.flatnonzero(usable)[-1])
        label_ends(axes, [End(steps[last], exponents[last], f"then {raised(power(final))}", PALETTE["blue"])])
    figure.legend(loc="outside lower center", ncols=2)
    return Picture(figure, _trace_words(scales, skipped, final))


def _trace_words(scales: np.ndarray, skipped: np.ndarray, final: float) -> str:
    some = (
        f", the first at step {skipped[0] + 1:,} and the last at step {skipped[-1] + 1:,}" if skipped.size > 1 else ""
    )
    if skipped.size == 1:
        some = f", step {skipped[0] + 1:,}"
    return (
        f"Loss scale over {scales.size:,} steps: it starts at {power(scales[0])}, runs between {power(scales.min())} "
        f"and {power(scales.max())}, and after the last step is {power(final)}. Skipped steps: {skipped.size:,}{some}."
    )


@drawn
def training_curves(losses: Mapping[str, Any], log: bool = True, unit: str = "step") -> Picture:
    """Loss against step, one curve a run; where a loss stops being finite, the curve ends with a cross.

    Args:
        losses: name of the run to its losses, one a step; at most six.
        log: draw the loss on a logarithmic axis.
        unit: what each loss belongs to, in the singular, such as "epoch".

    Raises:
        ValueError: for no run, too many, or a loss that is not positive on a logarithmic axis.
    """
    series = _series(losses, "losses")
    figure = new_figure(8.0, 4.2)
    axes = figure.subplots()
    words, ends = [], []
    for (name, values), stroke in zip(series.items(), STROKES, strict=False):
        finite = np.isfinite(values)
        if log and (values[finite] <= 0).any():
            raise ValueError(f"The losses of '{name}' are not all positive: draw them with log=False.")
        words.append(f"{name} {_draw_run(axes, values, finite, stroke, unit)}")
        if finite.any():
            at = int(np.flatnonzero(finite)[-1])
            named = f"{name}: {values[at]:.3g}" if finite.all() else f"{name}: not finite"
            ends.append(End(at + 1, values[at], named, stroke.colour))
    longest = max(values.size for values in series.values())
    axes.set(xlim=(1, max(longest, 2)), xlabel=unit, ylabel="loss (logarithmic axis)" if log else "loss")
    if log:
        logarithmic(axes, "y")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.grid(True)
    never = [name for name, values in series.items() if not np.isfinite(values).any()]
    axes.set_title(f"Loss, {unit} by {unit}" + (f" (never finite: {listed(never)})" if never else ""))
    label_ends(axes, ends)
    return Picture(figure, f"Loss over {_count(longest, unit)}: {'; '.join(words)}.")


def _draw_run(axes: Axes, values: np.ndarray, finite: np.ndarray, stroke: Stroke, unit: str) -> str:
    """One curve; returns what it does in words."""
    steps = np.arange(1, values.size + 1)
    axes.plot(steps, np.where(finite, values, np.nan), color=stroke.colour, ls=stroke.dashes, lw=1.8)
    every = max(values.size // 8, 1)
    axes.plot(steps[::every], np.where(finite, values, np.nan)[::every], stroke.marker, color=stroke.colour, ms=5)
    if finite.all():
        return f"goes from {spell(values[0])} to {spell(values[-1])}, lowest {spell(values.min())}"
    broken = int(np.flatnonzero(~finite)[0])
    if broken:
        axes.plot(broken, values[broken - 1], "X", color=stroke.colour, mec="black", ms=11)
    start = f"goes from {spell(values[0])} to {spell(values[broken - 1])} and " if broken else ""
    if not finite[broken:].any():
        return f"{start}is not finite from {unit} {broken + 1:,} on"
    return f"{start}is not finite at {_count(int((~finite).sum()), unit)}, first at {unit} {broken + 1:,}"


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _series(given: Mapping[str, Any], what: str) -> dict[str, np.ndarray]:
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"Give the {what} as a dictionary from name to numbers, such as {{'float16': [1.0, 2.0]}}.")
    if len(given) > len(STROKES):
        raise ValueError(f"{len(given)} curves cannot be told apart: give at most {len(STROKES)}.")
    return {str(name): as_numbers(values, f"{what} of '{name}'") for name, values in given.items()}
