"""Exercise 4: a ratio of two times that a busy machine cannot spoil."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
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
    # The first two runs are the warm-up; a disturbance there would be no test. The new program is disturbed in the
    # first turn and the baseline in two of the last: on a machine that becomes slower, medians and minima of the times
    # then belong to different turns, and leaving out one extreme on either side is not enough.
    late = 2 + 2 * rng.choice(np.arange(turns // 2 + 1, turns), size=2, replace=False)
    disturbed = [(int(run), float(np.round(rng.uniform(30, 90), 1))) for run in (3, *late)]
    return {
        "a quiet machine": (seconds(), seconds(), 1.0, [], turns),
        "the first call compiles": (seconds(compiling()), seconds(compiling()), 1.0, [], 2),
        "a machine that becomes slower": (seconds(), seconds(), float(np.round(rng.uniform(1.3, 1.6), 2)), [], turns),
        "three runs are disturbed": (seconds(), seconds(), float(np.round(rng.uniform(1.1, 1.3), 2)), disturbed, turns),
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


def _apart(summary: Callable[[list], float], at_first: str = "both") -> Callable[[Run, Run, Clock, int], float]:
    """The mistake of timing all runs of the one, then all of the other; it warms up both at first, or each in turn."""

    def speed_ratio(run_baseline: Run, run_new: Run, clock: Clock, turns: int) -> float:
        found = []
        if at_first == "both":
            run_baseline(), run_new()
        for run in (run_baseline, run_new):
            if at_first != "both":
                run()
            found.append(summary([_timed(run, clock) for _ in range(turns)]))
        return found[0] / found[1]

    return speed_ratio


def _by_turns(summary: Callable[[Any, Any], float], warms: Sequence[int] = (0, 1)) -> Callable[..., float]:
    """Timed by turns as it should be; `summary` gets the times of both, an array each."""

    def speed_ratio(run_baseline: Run, run_new: Run, clock: Clock, turns: int) -> float:
        for number in warms:
            (run_baseline, run_new)[number]()
        times = np.array([(_timed(run_baseline, clock), _timed(run_new, clock)) for _ in range(turns)])
        return float(summary(times[:, 0], times[:, 1]))

    return speed_ratio


def _median_ratio(baseline: Any, new: Any) -> float:
    return float(np.median(baseline / new))


def _warms_each_turn(run_baseline: Run, run_new: Run, clock: Clock, turns: int) -> float:
    ratios = []
    for _ in range(turns):
        run_baseline(), run_new()
        ratios.append(_timed(run_baseline, clock) / _timed(run_new, clock))
    return statistics.median(ratios)


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
        "three runs are disturbed": 1,
    },
    also_right=(_with_three_readings, _warm_turn_dropped),
    mistakes=(
        Mistake(
            _rule(warm=False),
            "Your first turn counts, and in it both programs compile. Call each once before you take the time.",
        ),
        Mistake(
            _apart(statistics.median),
            "You time all runs of the one and then all runs of the other. When the machine slows down in between, the "
            "second looks worse than it is: take turns.",
        ),
        Mistake(
            _apart(statistics.median, "each in turn"),
            "You warm up and time the one, and then the other. When the machine slows down in between, the second "
            "looks worse than it is: take turns.",
        ),
        Mistake(
            _apart(sum),
            "You time all runs of the one together, and then all of the other. Take turns, a time for each run: else "
            "one disturbance, or a machine that slows down, spoils the whole.",
        ),
        Mistake(
            _by_turns(lambda baseline, new: np.median(baseline) / np.median(new)),
            "You pick one time of each program, the median or the shortest, and divide then. The two may come from "
            "different turns, in which the machine was not the same: divide within the turn first.",
        ),
        Mistake(
            _by_turns(lambda baseline, new: np.median(baseline / (baseline + new))),
            "Your time of the new program contains the baseline's, too. Read the clock between the two.",
        ),
        Mistake(
            _by_turns(lambda baseline, new: np.median(baseline - new)),
            "You subtract times. A speed-up is a quotient.",
        ),
        Mistake(
            _by_turns(lambda baseline, new: np.median(1 - new / baseline)),
            "You give the share of time that is saved. Half the time saved is a speed-up of 2, not of 0.5.",
        ),
        Mistake(
            _by_turns(_median_ratio, [0]),
            "You warm up the baseline only. The first call of the new program compiles, too.",
        ),
        Mistake(
            _by_turns(_median_ratio, [1]),
            "You warm up the new program only. The first call of the baseline compiles, too.",
        ),
        Mistake(
            _warms_each_turn,
            "You warm up again in every turn. Once is enough: what is compiled stays compiled.",
        ),
        Mistake(
            lambda *given: _rule()(*given[:3], 1),
            "You measure one turn only. Repeat it as often as `turns` says.",
        ),
        Mistake(
            _rule(summary=statistics.mean),
            "You take the mean of the ratios: one disturbed run spoils it. The median bears a few.",
        ),
        Mistake(
            _by_turns(lambda baseline, new: sum(baseline) / sum(new)),
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
    asks_for=("ampcourse.bench", "ampcourse.amp.machine_speed.measure"),
    insight="Warm up, take turns, divide within the turn, take the median. It costs four lines, and without them a "
    "speed-up is an anecdote. On a GPU one more is needed: wait until it has finished before you read the clock.",
)
