"""Exercise 5: nothing is NaN, nothing is skipped, and it is wrong all the same. What is it?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.answers.nan_clinic.charts import Chart, drawn
from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

WEIGHTS, NO_SCALER, ROWS = "16-bit weights", "no scaler", "numbers rounded"
CLIPPED, NOT_SCALED, TWICE, OUTSIDE = "clipped too early", "not scaled", "unscaled twice", "term outside"


def _inputs(rng: np.random.Generator) -> Inputs:
    stored, kept = ["saver", "sleeper"], ["commuter"]
    slow = [["gardener"], ["barber"], ["doorman"]]
    again = [["gardener", "barber", "doorman"]] * 2
    return {
        "weights, scaler and rows": (drawn(rng, [["saver"], ["sleeper"], kept, kept, ["bookseller"], stored]),),
        "layers that hardly move": (drawn(rng, [*slow, *again]),),
        "all of the ward": (drawn(rng, [stored, kept, ["bookseller"], ["sculptor"], ["sculptor"], *slow]),),
    }


def _one_size(chart: Chart) -> bool:
    lengths = np.array(chart["handed"])
    lengths = lengths[np.isfinite(lengths)]
    return bool(np.ptp(lengths) < 1e-3 * lengths.mean())


def _times_twin(chart: Chart) -> float:
    """How many times the twin's are the gradients that were handed over? The first of either that can be compared."""
    pairs = zip(chart["handed"], chart["handed32"], strict=True)
    return next(run / twin for run, twin in pairs if np.isfinite(run))


def _diagnose(
    stored: Callable[[Chart], bool] = lambda c: any(d != "float32" for d in c["stores"].values()),
    no_scaler: Callable[[Chart], bool] = lambda c: not c["scales"],
    rows: Callable[[Chart], bool] = lambda c: max(c["untouched"].values()) > 0.3,
    slow: Callable[[Chart], bool] = lambda c: max(c["moved"].values()) < 0.01,
    clipped: Callable[[Chart], bool] = _one_size,
    scaled: Callable[[Chart], bool] = lambda c: _times_twin(c) > 100,
) -> Callable[[Chart], str]:
    """The tests one after the other, each open to a mistake."""

    def diagnose(chart: Chart) -> str:
        if stored(chart):
            return WEIGHTS
        if no_scaler(chart):
            return NO_SCALER
        if rows(chart):
            return ROWS
        if not slow(chart):
            return OUTSIDE
        if clipped(chart):
            return CLIPPED
        return TWICE if scaled(chart) else NOT_SCALED

    return diagnose


def _other_order(chart: Chart) -> str:
    ways, handed = list(chart["moved"].values()), np.array(chart["handed"])
    handed = handed[np.isfinite(handed)]
    if "float32" not in chart["stores"].values():
        return "16-bit weights"
    if len(chart["scales"]) == 0:
        return "no scaler"
    if sum(ways) / len(ways) < 1e-2:
        if handed.std() < 1e-4 * handed.mean():
            return "clipped too early"
        return "not scaled" if np.median(handed) < 1000 else "unscaled twice"
    return "numbers rounded" if any(u > 0.1 for u in chart["untouched"].values()) else "term outside"


def _by_lookup(chart: Chart) -> str:
    lengths = [v for v in chart["handed"] if v < 1e30]
    constant = max(lengths) < 1.001 * min(lengths)
    sixteen = {"float16", "bfloat16"} & set(chart["stores"].values())
    found = {
        WEIGHTS: bool(sixteen),
        NO_SCALER: chart["scales"] == (),
        ROWS: max(chart["untouched"].values()) > 0.5,
        CLIPPED: constant,
        NOT_SCALED: max(chart["moved"].values()) < 0.1 and max(lengths) < 100 * max(chart["handed32"]),
        TWICE: max(chart["moved"].values()) < 0.1,
    }
    return next((name for name, holds in found.items() if holds), OUTSIDE)


def _scaler_first(chart: Chart) -> str:
    return NO_SCALER if not chart["scales"] else _diagnose()(chart)


def _rows_first(chart: Chart) -> str:
    return ROWS if max(chart["untouched"].values()) > 0.3 else _diagnose()(chart)


diagnose = Exercise(
    id="nan_clinic.diagnose",
    inputs=_inputs,
    observer=each,
    right=_diagnose(),
    points={"weights, scaler and rows": 2, "layers that hardly move": 3, "all of the ward": 2},
    also_right=(_other_order, _by_lookup),
    mistakes=(
        Mistake(
            _scaler_first,
            "You ask for the scaler first. With weights in 16 bits there is none either, but a scaler would not help: "
            "look at `stores` before `scales`.",
        ),
        Mistake(
            _rows_first,
            "You ask for untouched weights first. Whole layers stand still for other reasons: 16-bit weights, and "
            "gradients flushed for want of a scaler. Rule those out before you blame numbers.",
        ),
        Mistake(
            _diagnose(rows=lambda c: False),
            "You do not look at `untouched`. An item's number that was rounded trains another item's row: the layer "
            "moves, but most of its rows never do.",
        ),
        Mistake(
            _diagnose(clipped=lambda c: False),
            "You do not see the clipping. Gradients that are handed over with the *same* length at every step were "
            "cut to it.",
        ),
        Mistake(
            _diagnose(scaled=lambda c: False),
            "You take all slow layers for 'not scaled'. Compare the gradients handed over with the twin's: about "
            "equal means never scaled, thousands of times larger means scaled as it should be, and divided twice.",
        ),
        Mistake(
            _diagnose(scaled=lambda c: _times_twin(c) < 100),
            "'not scaled' and 'unscaled twice' the wrong way round. What was never scaled is as long as the twin's.",
        ),
        Mistake(
            _diagnose(slow=lambda c: True),
            "You do not ask whether layers hardly move. If they do move, about as far as the twin's or half of it, "
            "but elsewhere, a part of the loss does not count: 'term outside'.",
        ),
        Mistake(
            _diagnose(stored=lambda c: any(d == "bfloat16" for d in c["stores"].values())),
            "You look for bfloat16 weights only. Weights in float16 round away as well, and Adam's small numbers "
            "vanish in them.",
        ),
        Mistake(
            _diagnose(stored=lambda c: any(d == "float16" for d in c["stores"].values())),
            "You look for float16 weights only. bfloat16 has even fewer digits: Adam's beta_2 of 0.999 is 1 there.",
        ),
    ),
    hints=(
        "First what can be read off: the dtype of `stores`; whether `scales` is empty; whether `untouched` is large.",
        "Then what is left: do layers hardly move (below 0.01 of the twin's way)? If not, a term lies outside.",
        "Of those that hardly move: the same length in `handed` at every step is clipping. Else compare handed[0] with "
        "handed32[0], where both are finite.",
    ),
    asks_for=(
        "ampcourse.clinic.admit",
        "ampcourse.clinic.examine",
        "ampcourse.clinic.follow",
        "ampcourse.clinic.monitored",
        "ampcourse.clinic.audited",
    ),
    insight="Three numbers separate seven illnesses: how long the gradients were when handed over, how far each layer "
    "came, and how much of it came anywhere at all. None of them is the loss.",
)
