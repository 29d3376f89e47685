"""Exercise 4: a ratio of two times that a busy machine cannot spoil."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.fact_check import time_two

Run = Callable[[], Any]
Clock = Callable[[], float]


def _inputs(rng: np.random.Generator) -> Inputs:
    def seconds(compiling: float = 0.0) -> tuple[float, float]:
        return float(np.round(rng.uniform(0.5, 4), 2)), compiling

    def compiling() -> float:
        return float(np.round(rng.uniform(20, 60), 1))

    turns = int(rng.choice([5, 7, 9]))
    # the first two runs are the warm-up; a disturbance there would be no test
    disturbed = [(int(run), float(np.round(rng.uniform(30, 90), 1))) for run in (2 + 2 * int(rng.integers(1, 5)), 3)]
    return {
        "a quiet machine": (seconds(), seconds(), 1.0, [], turns),
        "the first call compiles": (seconds(compiling()), seconds(compiling()), 1.0, [], 2),
        "a machine that becomes slower": (seconds(), seconds(), float(np.round(rng.uniform(1.3, 1.6), 2)), [], turns),
        "two runs are disturbed": (seconds(), seconds(), 1.0, disturbed, turns),
    }


def _timed(run: Run, clock: Clock) -> float:
    start = clock()
    run()
    return clock() - start


def _rule(
    warm: bool = True,
    summary: Callable[[list], float] = statistics.median,
    ratio: Callable[[float, float], float] = lambda baseline, new: baseline / new,
    more: int = 0,
) -> Callable[[Run, Run, Clock, int], float]:
    """The right answer, with each of its parts open to a mistake."""

    def speed_ratio(run_baseline: Run, run_new: Run, clock: Clock, turns: int) -> float:
        for run in (run_baseline, run_new) if warm else ():
            run()
        return summary([ratio(_timed(run_baseline, clock), _timed(run_new, clock)) for _ in range(turns + more)])

    return speed_ratio


def _one_after_the_other(run_baseline: Run, run_new: Run, clock: Clock, turns: int) -> float:
    run_baseline()
    baseline = statistics.median([_timed(run_baseline, clock) for _ in range(turns)])
    run_new()
    return baseline / statistics.median([_timed(run_new, clock) for _ in range(turns)])


def _medians_divided(run_baseline: Run, run_new: Run, clock: Clock, turns: int) -> float:
    run_baseline()
    run_new()
    times = [(_timed(run_baseline, clock), _timed(run_new, clock)) for _ in range(turns)]
    return float(np.sum(times, axis=0)[0] / np.sum(times, axis=0)[1])


def _with_three_readings(run_baseline: Run, run_new: Run, clock: Clock, turns: int) -> Any:
    ratios = np.empty(turns)
    run_baseline(), run_new()
    for turn in range(turns):
        start = clock()
        run_baseline()
        middle = clock()
        run_new()
        ratios[turn] = (middle - start) / (clock() - middle)
    return np.median(ratios)


def _warm_turn_dropped(run_baseline: Run, run_new: Run, clock: Clock, turns: int) -> float:
    times: dict[Run, list[float]] = {run_baseline: [], run_new: []}
    for _ in range(turns + 1):
        for run, found in times.items():
            found.append(_timed(run, clock))
    ratios = sorted(a / b for a, b in zip(*(found[1:] for found in times.values()), strict=True))
    return ratios[turns // 2]


speed_ratio = Exercise(
    id="fact_check.speed_ratio",
    inputs=_inputs,
    observer=time_two,
    right=_rule(),
    points={
        "a quiet machine": 1,
        "the first call compiles": 1,
        "a machine that becomes slower": 1,
        "two runs are disturbed": 1,
    },
    also_right=(_with_three_readings, _warm_turn_dropped),
    mistakes=(
        Mistake(
            _rule(warm=False),
            "Your first turn counts, and in it both programs compile. Call each once before you take the time.",
        ),
        Mistake(
            _one_after_the_other,
            "You time all runs of the one and then all runs of the other. When the machine slows down in between, the "
            "second looks worse than it is: take turns.",
        ),
        Mistake(
            _rule(summary=statistics.mean),
            "You take the mean of the ratios: one disturbed run spoils it. The median bears a few.",
        ),
        Mistake(
            _medians_divided,
            "You divide one sum of times by the other: a single long run outweighs all others. Take the ratio within "
            "each turn, and of these the median.",
        ),
        Mistake(
            _rule(ratio=lambda baseline, new: new / baseline),
            "Your ratio is the other way up. A speed-up above 1 means that the new program is faster: baseline's time "
            "over the new one's.",
        ),
        Mistake(
            _rule(summary=max),
            "You take the best turn. That is the turn in which something happened to the baseline.",
        ),
        Mistake(
            _rule(summary=min),
            "You take the worst turn. That is the turn in which something happened to the new program.",
        ),
        Mistake(
            _rule(more=-1),
            "You count the warm-up among the turns, so that one is missing at the end.",
        ),
    ),
    hints=(
        "First one call of each, untimed. Then a loop over the turns: time the baseline, time the new one, divide.",
        "start = clock(); run_baseline(); middle = clock(); run_new(); end = clock()",
    ),
    rtol=1e-6,
    asks_for=("ampcourse.bench",),
    insight="Warm up, take turns, divide within the turn, take the median. It costs four lines, and without them a "
    "speed-up is an anecdote. On a GPU one more is needed: wait until it has finished before you read the clock.",
)
