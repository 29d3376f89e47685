"""Exercise 2: which learning rate each step really gets, when some steps are skipped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Rates = list[float]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (rates, finite, keras): some steps are skipped, often the first, as when a scale finds its level."""

    def row(keras: int, length: int, steps: int, skips: int) -> tuple:
        rates = [float(r) for r in np.round(rng.uniform(0.01, 1.0, length), 3)]
        finite = [True] * steps
        for place in rng.choice(steps - 1, skips, replace=False):
            finite[place] = False
        return rates, finite, keras

    return {
        "Keras 3": ([row(3, 9, 7, int(rng.integers(1, 4))) for _ in range(6)],),
        "Keras 2": ([row(2, 9, 7, int(rng.integers(1, 4))) for _ in range(6)],),
        "past the end of the schedule": ([row(2 + i % 2, 3, 9, int(rng.integers(1, 4))) for i in range(6)],),
    }


def _rates(
    counts: Callable[[bool, int], bool] = lambda finite, keras: finite or keras == 2,
    first: int = 0,
    skipped: Callable[[float], float] = lambda rate: 0.0,
    leaves_out: bool = False,
) -> Callable[[Rates, list[bool], int], Rates]:
    """The rule, with each of its parts open to a mistake."""

    def learning_rates(rates: Rates, finite: list[bool], keras: int) -> Rates:
        used, iterations = [], first
        for ok in finite:
            rate = rates[min(iterations, len(rates) - 1)]
            if ok or not leaves_out:
                used.append(rate if ok else skipped(rate))
            iterations += counts(ok, keras)
        return used

    return learning_rates


def _by_numpy(rates: Rates, finite: list[bool], keras: int) -> np.ndarray:
    counted = np.array(finite) if keras == 3 else np.ones(len(finite), bool)
    before = np.cumsum(counted) - counted
    return np.where(finite, np.take(rates, before, mode="clip"), 0.0)


def _by_version(rates: Rates, finite: list[bool], keras: int) -> Rates:
    def at(n: int) -> float:
        return rates[n] if n < len(rates) else rates[-1]

    if keras == 2:
        return [at(n) if ok else 0.0 for n, ok in enumerate(finite)]
    return [at(sum(finite[:n])) if ok else 0.0 for n, ok in enumerate(finite)]


def _wraps_around(rates: Rates, finite: list[bool], keras: int) -> Rates:
    return _rates()(rates * 20, finite, keras)


def _ends(rates: Rates, finite: list[bool], keras: int) -> Rates:
    return _rates()([*rates, 0.0], finite, keras)


def _runs_out(rates: Rates, finite: list[bool], keras: int) -> Rates:
    counted = [ok or keras == 2 for ok in finite]
    return [rates[sum(counted[:n])] if ok else 0.0 for n, ok in enumerate(finite)]


def _repeats(rates: Rates, finite: list[bool], keras: int) -> Rates:
    """The rate of the last update stands for skipped steps, too."""
    used: Rates = []
    for rate, ok in zip(_rates()(rates, finite, keras), finite, strict=True):
        used.append(rate if ok or not used else used[-1])
    return used


learning_rates = Exercise(
    id="custom_loops.learning_rates",
    inputs=_inputs,
    observer=each,
    right=_rates(),
    points={"Keras 3": 1, "Keras 2": 1, "past the end of the schedule": 1},
    also_right=(_by_numpy, _by_version),
    mistakes=(
        Mistake(
            _rates(counts=lambda finite, keras: True),
            "You count every step under both. Keras 3 does not count a skipped step: its schedule waits.",
        ),
        Mistake(
            _rates(counts=lambda finite, keras: finite),
            "You count only updates under both. Keras 2 counts a skipped step too: its schedule goes on.",
        ),
        Mistake(
            _rates(counts=lambda finite, keras: finite or keras == 3),
            "The wrong way round: it is Keras 2 that counts the skipped steps.",
        ),
        Mistake(
            _rates(first=1),
            "You are one step ahead. The first update is made with rates[0]: the counter is read before it goes up.",
        ),
        Mistake(
            _rates(skipped=lambda rate: rate),
            "You give a rate to skipped steps. Nothing moves in them: put 0.0.",
        ),
        Mistake(
            _rates(leaves_out=True),
            "You leave the skipped steps out. One number a step: put 0.0 for those.",
        ),
        Mistake(
            _wraps_around,
            "At the end of the schedule you start it again. The last rate stays.",
        ),
        Mistake(
            _ends,
            "Past the end of the schedule you put 0. The last rate stays.",
        ),
        Mistake(
            _runs_out,
            "Your counter runs past the end of `rates`. Once the schedule is through, its last rate stays.",
        ),
        Mistake(
            _repeats,
            "In a skipped step you repeat the rate of the step before. Nothing moves in it: put 0.0.",
        ),
    ),
    hints=(
        "Walk through the steps with a counter `iterations`, starting at 0.",
        "Read the rate at the counter, then decide whether the counter goes up: always in Keras 2, only after an "
        "update in Keras 3.",
        "rate = rates[min(iterations, len(rates) - 1)] if the step is finite, else 0.0.",
    ),
    asks_for=("ampcourse.training.parts.build_schedule",),
    insight="What `iterations` counts decides what a schedule of 100 steps means: 100 updates in Keras 3, 100 batches "
    "in Keras 2. A handful of skips shifts a long schedule by as many steps; in a short warm-up it shows.",
)
