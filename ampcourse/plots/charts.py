"""The chart of symptoms of one training run, beside the same run in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ampcourse.plots.scales import logarithmic
from ampcourse.plots.style import PALETTE, STROKES, Picture, drawn, new_figure, powers_of_two
from ampcourse.plots.words import listed, power, spell

_RUN, _TWIN = STROKES[1], STROKES[0]
_LEAST, _MOST = -6.0, 3.0  # of log10 of the way compared with the twin's


@drawn
def symptoms(chart: Any) -> Picture:
    """Four panels: losses, loss scale with skipped steps, gradients handed to the optimizer, and how far layers moved.

    Args:
        chart: a `clinic.Chart`, or anything with `name`, `policy`, `run` and `twin`; the runs have `losses`, `scales`,
            `skipped`, `raw` (one number a step) and `moved` (layer to number).

    Raises:
        ValueError: if the chart has no step.
    """
    run, twin = chart.run, chart.twin
    if not len(run.losses):
        raise ValueError("The chart has no step to draw: examine a program with at least one batch.")
    figure = new_figure(9.0, 6.2)
    losses, scale, gradients, moved = figure.subplots(2, 2).ravel()
    _curves(losses, run.losses, twin.losses, "Loss")
    losses.set_ylabel("loss")
    _scale(scale, run)
    _curves(gradients, run.raw, twin.raw, "Gradients handed over")
    gradients.set_ylabel("norm")
    _moved(moved, run.moved, twin.moved)
    handles, labels = losses.get_legend_handles_labels()
    names = {"run": chart.policy, "twin": "float32 twin"}
    figure.legend(handles, [names[label] for label in labels], loc="outside lower center", ncols=2)
    figure.suptitle(f"Chart of the {chart.name}", x=0.02, ha="left", fontsize=14)
    return Picture(figure, _words(chart))


def _curves(axes: Axes, run: np.ndarray, twin: np.ndarray, title: str) -> None:
    """Both curves, on a logarithmic axis; a cross where a curve stops being finite."""
    for values, stroke, label in ((twin, _TWIN, "twin"), (run, _RUN, "run")):
        steps, values = np.arange(1, len(values) + 1), np.asarray(values, float)
        shown = np.where(np.isfinite(values) & (values > 0) & (values < 1e30), values, np.nan)
        axes.plot(steps, shown, color=stroke.colour, ls=stroke.dashes, lw=1.8 if label == "run" else 3, label=label)
        every = max(len(values) // 6, 1)
        axes.plot(steps[::every], shown[::every], stroke.marker, color=stroke.colour, ms=5)
    logarithmic(axes, "y", 5)
    axes.set(title=title, xlabel="step", xlim=(0, len(run) + 1))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(True)
    low, high = _span_of(run, twin)
    axes.set_ylim(low / 3, high * 3)
    bad = np.flatnonzero(~np.isfinite(run))
    if bad.size:
        marks = np.full(bad.size, 0.97)
        axes.plot(bad + 1, marks, "x", color=_RUN.colour, ms=5, transform=axes.get_xaxis_transform(), clip_on=False)
        axes.set_title(f"{title} (× not finite)")


def _span_of(*series: np.ndarray) -> tuple[float, float]:
    values = np.concatenate([np.asarray(s, float) for s in series])
    there = values[np.isfinite(values) & (values > 0) & (values < 1e30)]
    return (float(there.min()), float(there.max())) if there.size else (0.1, 10.0)


def _scale(axes: Axes, run: Any) -> None:
    axes.set(title="Loss scale", xlabel="step", xlim=(0, len(run.losses) + 1))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if not len(run.scales):
        axes.set_yticks([])
        axes.text(0.5, 0.5, "the optimizer has\nno loss scaler", transform=axes.transAxes, ha="center", va="center")
        return
    steps, scales = np.arange(1, len(run.scales) + 1), np.asarray(run.scales, float)
    with np.errstate(divide="ignore"):
        exponents = np.where(scales > 0, np.log2(scales), np.nan)
    axes.step(steps, exponents, where="post", color=PALETTE["blue"])
    skipped = np.flatnonzero(run.skipped)
    floor = np.nanmin(exponents)
    heights = np.where(np.isfinite(exponents[skipped]), exponents[skipped], floor)
    small = 7 if skipped.size <= 30 else 3
    axes.plot(steps[skipped], heights, "X", color=PALETTE["vermillion"], mec="black", mew=0.5, ms=small, ls="none")
    axes.margins(y=0.2)
    if np.nanmax(exponents) - floor < 2:
        axes.set_ylim(floor - 3, np.nanmax(exponents) + 3)
    powers_of_two(axes.yaxis, 6)
    axes.grid(True)
    ends = f", at last {spell(scales[-1])}" if scales[-1] == 0 else ""
    axes.set_title(f"Loss scale (× skipped: {skipped.size}{ends})")


def _moved(axes: Axes, run: dict[str, float], twin: dict[str, float]) -> None:
    """How far each layer has come, as a multiple of the twin's way: one dot a layer."""
    axes.set(title="Way of the weights (twin's = 1)")
    places = np.arange(len(run))[::-1]
    for place, name in zip(places, run, strict=True):
        ratio, word, marker = _compared(run[name], twin[name])
        axes.plot(ratio, place, marker, color=_RUN.colour, mec="black", mew=0.6, ms=9)
        right = ratio > 0
        axes.annotate(
            word,
            (ratio, place),
            (-9 if right else 9, 0),
            textcoords="offset points",
            ha="right" if right else "left",
            va="center",
        )
    axes.axvline(0, color="black", lw=1)
    axes.set(xlim=(_LEAST - 0.5, _MOST + 0.5), ylim=(-0.7, len(run) - 0.3), yticks=places, yticklabels=list(run))
    axes.set_xticks([-6, -4, -2, 0, 2], ["$10^{-6}$", "$10^{-4}$", "0.01", "1", "100"])
    axes.set_xlabel("times the twin's way")
    axes.grid(True, axis="x")


def _compared(run: float, twin: float) -> tuple[float, str, str]:
    """Where to draw a layer, what to write beside it, and with which mark."""
    if not np.isfinite(run) or not np.isfinite(twin):
        who = "both" if not np.isfinite(run) and not np.isfinite(twin) else "run" if np.isfinite(twin) else "twin"
        return 0.0, f"{who}: not finite", "X"
    if run == 0 or twin == 0:
        return (_LEAST, "did not move", "X") if twin else (0.0, "nor did the twin's", "o")
    ratio = run / twin
    return float(np.clip(np.log10(ratio), _LEAST, _MOST)), f"{ratio:.2g}", "o"


def _words(chart: Any) -> str:
    run, twin = chart.run, chart.twin
    steps = len(run.losses)
    scale = (
        f"The loss scale goes from {power(run.scales[0])} to {power(run.scales[-1])}, with "
        f"{int(np.sum(run.skipped))} of {steps} steps skipped."
        if len(run.scales)
        else "The optimizer has no loss scaler."
    )
    ways = listed(f"{name} {_compared(way, twin.moved[name])[1]}" for name, way in run.moved.items())
    return (
        f"Chart of the {chart.name} in four panels. The loss goes from {spell(run.losses[0])} to "
        f"{spell(run.losses[-1])} under {chart.policy} and from {spell(twin.losses[0])} to "
        f"{spell(twin.losses[-1])} in float32. {scale} "
        f"The first gradients handed over have length {spell(run.raw[0])}, those of the twin {spell(twin.raw[0])}. "
        f"Way of the layers' weights compared with the twin's: {ways}."
    )
