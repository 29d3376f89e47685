"""Exercise 1: before any theory, which of four kinds of run is this?"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ampcourse.exercises.answers.nan_clinic.charts import Chart, drawn
from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

HEALTHY, OTHER, LOUD, SILENT = "healthy", "not precision", "loud", "silent"
WELL, FAILS_TOO = ["baker", "photographer"], ["sprinter", "forecaster"]
EARLY = "sprinter stopped early"
FALLING, STANDING = ["reader", "postman", "listener", "surveyor"], ["gardener", "barber", "doorman"]


def _inputs(rng: np.random.Generator) -> Inputs:
    anyone = [*WELL, *FAILS_TOO, *FALLING, *STANDING, "saver", "sleeper"]
    return {
        "plain cases": (drawn(rng, [WELL, FAILS_TOO, [EARLY], FALLING, STANDING, ["saver"], ["sleeper"], anyone]),),
        "skipped steps": (
            drawn(rng, [["climber"], ["climber"], ["veteran"], ["veteran"], ["postman"], FAILS_TOO, FALLING, WELL]),
        ),
        "innocent losses": (drawn(rng, [["commuter"], ["commuter"], WELL, ["bookseller"], ["sculptor"], ["climber"]]),),
    }


def _twin_fails(c: Chart) -> bool:
    last = c["losses32"][-1]
    return not math.isfinite(last) or last > 2 * c["losses32"][0]


def _falls(c: Chart) -> bool:
    return bool(c["scales"]) and c["scales"][-1] < 1


def _follows(c: Chart) -> bool:
    return all(0.5 < way < 2 for way in c["moved"].values()) and max(c["untouched"].values()) < 0.1


def _loss_follows(c: Chart) -> bool:
    last, twin = (np.mean(c[name][-5:]) for name in ("losses", "losses32"))
    return bool(abs(last - twin) < 0.2 * abs(c["losses32"][0] - twin))


def _triage(
    other: Callable[[Chart], bool] = _twin_fails,
    loud: Callable[[Chart], bool] = _falls,
    well: Callable[[Chart], bool] = _follows,
) -> Callable[[Chart], str]:
    """The three questions in their order, each open to a mistake."""

    def triage(chart: Chart) -> str:
        if other(chart):
            return OTHER
        if loud(chart):
            return LOUD
        return HEALTHY if well(chart) else SILENT

    return triage


def _by_counting(chart: Chart) -> str:
    twin, skipped = np.array(chart["losses32"]), np.array(chart["skipped"])
    if not np.all(np.isfinite(twin)) or twin[-1] > 10 * twin[0]:
        return "not precision"
    if skipped.mean() > 0.5 or not np.all(np.isfinite(chart["losses"])):
        return "loud"
    ways, stuck = np.array(list(chart["moved"].values())), list(chart["untouched"].values())
    return "silent" if np.any(np.abs(np.log2(np.maximum(ways, 1e-9))) > 1) or np.any(np.array(stuck) > 0.2) else HEALTHY


def _by_the_end(chart: Chart) -> str:
    quarter = len(chart["losses"]) // 4
    end = chart["losses32"][-quarter:]
    if not math.isfinite(sum(end)) or end[-1] > 3 * chart["losses32"][0]:
        return OTHER
    least = min(chart["scales"], default=1.0)
    if math.isnan(chart["losses"][0]) or least < 2**-1:
        return LOUD
    low, high = min(chart["moved"].values()), max(chart["moved"].values())
    return HEALTHY if low > 2 / 3 and high < 1.5 and not any(u > 0.3 for u in chart["untouched"].values()) else SILENT


def _silent_first(chart: Chart) -> str:
    if _twin_fails(chart):
        return OTHER
    return HEALTHY if _follows(chart) else SILENT


triage = Exercise(
    id="nan_clinic.triage",
    inputs=_inputs,
    observer=each,
    right=_triage(),
    points={"plain cases": 2, "skipped steps": 1, "innocent losses": 1},
    also_right=(_by_counting, _by_the_end),
    mistakes=(
        Mistake(
            _triage(other=lambda c: False),
            "You do not look at the twin. If the float32 run fails too, precision is not the cause, however the loss "
            "scale behaves: ask that question first.",
        ),
        Mistake(
            _triage(other=lambda c: not math.isfinite(c["losses"][-1])),
            "You call a run 'not precision' because *its* loss is not finite. The twin decides: `losses32`.",
        ),
        Mistake(
            _triage(other=lambda c: not math.isfinite(c["losses32"][-1])),
            "You ask whether the twin's last loss is finite, and not whether it has grown. A twin whose loss is finite "
            "still, but more than twice its first, fails too.",
        ),
        Mistake(
            _triage(loud=lambda c: any(c["skipped"])),
            "You take every skipped step for an alarm. Dynamic scaling skips steps to find its level; what tells is a "
            "scale that goes on falling, below 1.",
        ),
        Mistake(
            _triage(loud=lambda c: not math.isfinite(c["losses"][-1])),
            "You find loud runs by a loss that is not finite. Gradients can be infinite at every step while the loss "
            "looks fine: look at the loss scale.",
        ),
        Mistake(
            _triage(well=_loss_follows),
            "You compare losses only. A loss can fall like the twin's while a layer does not move, or moves the "
            "wrong rows: look at `moved` and `untouched`.",
        ),
        Mistake(
            _triage(well=lambda c: all(0.5 < way < 2 for way in c["moved"].values())),
            "You look at how far layers moved, but not at `untouched`: a layer can come as far as the twin's while "
            "most of its rows never move.",
        ),
        Mistake(
            _triage(
                well=lambda c: all(way > 0.5 for way in c["moved"].values()) and max(c["untouched"].values()) < 0.1
            ),
            "You look for layers that moved too little. Too far is wrong as well: a healthy layer comes about as far "
            "as the twin's, 0.5 to 2 times.",
        ),
        Mistake(
            _triage(
                well=lambda c: any(0.5 < way < 2 for way in c["moved"].values()) and max(c["untouched"].values()) < 0.1
            ),
            "One layer that came as far as its twin is not enough: ask it of every layer, with all() and not any().",
        ),
        Mistake(
            _silent_first,
            "You never find a run loud, so those whose scale falls count as silent. Ask for the falling scale before "
            "you ask what moved.",
        ),
    ),
    hints=(
        "Three questions in this order: does the twin fail? Does the scale fall below 1? Did every layer come about "
        "as far as its twin?",
        "The twin fails if its last loss is not finite, or far above its first. `math.isfinite` tells.",
        "Healthy: all(0.5 < way < 2 for way in chart['moved'].values()) and max(chart['untouched'].values()) < 0.1.",
    ),
    asks_for=(
        "ampcourse.clinic.admit",
        "ampcourse.clinic.examine",
        "ampcourse.clinic.follow",
        "ampcourse.clinic.monitored",
        "ampcourse.clinic.audited",
    ),
    insight="The twin costs one short run and saves the most time: what fails in float32 too needs no theory of "
    "precision. And a loss curve alone finds neither a layer that stands still nor a gradient that overflows.",
)
