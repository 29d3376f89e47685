"""Fair timing: everything that is compared runs by turns, so that a busy moment of the machine strikes all alike."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from ampcourse.bench.plan import FEWEST_TURNS

Key = TypeVar("Key", bound=Hashable)
Clock = Callable[[], float]
Runner = Callable[[int], "float | None"]
"""Runs so many steps and waits until the device has done them; returns their seconds if it stops the time itself."""
MOST_STEPS = 10_000
_RESAMPLES = 10_000


@dataclass(frozen=True)
class Timed(Generic[Key]):
    """What the turns gave: seconds for one step, one number a turn, and why something had to leave.

    Attributes:
        seconds: name to one number a turn, in the order of the turns; all have the same number of turns.
        steps: name to the steps of one turn.
        failed: name to the error that ended it.
    """

    seconds: dict[Key, list[float]]
    steps: dict[Key, int]
    failed: dict[Key, Exception] = field(default_factory=dict)


def order(names: list[Key], turn: int) -> list[Key]:
    """Who runs when: each turn begins with the next one, and every other turn goes backwards.

    So everyone stands in every place equally often, and has different neighbours before it.
    """
    start = turn // 2 % len(names) if names else 0
    turned = names[start:] + names[:start]
    return turned[::-1] if turn % 2 else turned


def take_turns(
    runners: Mapping[Key, Runner],
    turns: int,
    turn_seconds: float,
    *,
    clock: Clock = time.perf_counter,
    until: float = math.inf,
) -> Timed[Key]:
    """Time all runners by turns. They are expected to be warm: compiled and run before.

    Args:
        runners: what is compared.
        turns: how many turns each has.
        turn_seconds: how long one should be; a runner's steps in a turn are counted from one run of one step.
        clock: seconds; another one is injected in tests.
        until: by this clock; later no new turn begins, once there are enough for an interval.
    """
    timed: Timed[Key] = Timed({name: [] for name in runners}, {})
    for name, run in runners.items():
        if (one := _attempt(timed, name, run, 1, clock)) is not None:
            timed.steps[name] = max(1, min(MOST_STEPS, math.ceil(turn_seconds / max(one, 1e-9))))
    for turn in range(turns):
        if turn >= FEWEST_TURNS and clock() >= until:
            break
        for name in order([name for name in runners if name not in timed.failed], turn):
            if (one := _attempt(timed, name, runners[name], timed.steps[name], clock)) is not None:
                timed.seconds[name].append(one)
    for name in timed.failed:
        timed.seconds[name].clear()
    return timed


def _attempt(timed: Timed[Key], name: Key, run: Runner, steps: int, clock: Clock) -> float | None:
    """Seconds for one step; None, and the error noted, where it fails."""
    try:
        begin = clock()
        took = run(steps)
        took = clock() - begin if took is None else took
    except Exception as error:  # a backend raises anything; the others must go on
        timed.failed[name] = error
        return None
    return took / steps


def median_interval(values: list[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """The median, and its percentile bootstrap interval (Efron and Tibshirani 1993, section 13.3).

    Values are drawn again with replacement 10,000 times, always the same draws. With fewer than 6 values the interval
    at 95 % is their whole range, which holds the true median in 1 - 2^(1 - n) of cases: 75 % for 3, 94 % for 5.

    Args:
        values: at least one, finite.
        confidence: between 0 and 1.

    Returns:
        median, low end, high end.
    """
    data = np.asarray(values, np.float64)
    medians = np.sort(np.median(data[_draws(data.size)], axis=1))
    cut = (1 - confidence) / 2
    low = medians[math.floor(cut * (_RESAMPLES - 1))]
    high = medians[math.ceil((1 - cut) * (_RESAMPLES - 1))]
    return float(np.median(data)), float(low), float(high)


@functools.cache
def _draws(size: int) -> np.ndarray:
    """Which values each draw takes, shape (draws, size)."""
    return np.random.default_rng(0).integers(0, size, (_RESAMPLES, size))


def speed_up(baseline: list[float], other: list[float]) -> tuple[float, float, float]:
    """How many times as fast the other is: the ratios within the turns, their median and its interval."""
    return median_interval([b / o for b, o in zip(baseline, other, strict=True)])
