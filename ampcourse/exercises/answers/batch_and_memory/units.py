"""Exercise 1: the share of time in which something runs, and the share of the device that works."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Kernels = list[tuple[int, int, int]]
Pair = tuple[float, float]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (kernels, units, period), in microseconds."""

    def in_turn(count: int) -> tuple[Kernels, int, int]:
        kernels, now, units = [], 0, int(rng.choice([80, 108, 132]))
        for _ in range(count):
            now += int(rng.integers(1, 12))
            end = now + int(rng.integers(5, 40))
            kernels.append((now, end, int(rng.integers(1, units + 1))))
            now = end
        return kernels, units, now + int(rng.integers(1, 30))

    def at_once() -> tuple[Kernels, int, int]:
        """Three streams, whose kernels overlap and use no more units than there are."""
        kernels, units = [], int(rng.choice([108, 132]))
        for _ in range(3):
            start = int(rng.integers(0, 20))
            kernels.append((start, start + int(rng.integers(30, 60)), int(rng.integers(1, units // 3))))
        kernels.append((85, int(rng.integers(90, 100)), units))
        return kernels, units, 110

    def cut() -> tuple[Kernels, int, int]:
        kernels, units, _ = in_turn(4)
        start, end, _ = kernels[-1]
        return kernels, units, int(rng.integers(start + 1, end))

    return {
        "kernels one after the other": ([in_turn(int(rng.integers(3, 6))) for _ in range(3)],),
        "kernels at the same time": ([at_once() for _ in range(3)],),
        "a kernel that outlasts the period": ([cut() for _ in range(3)],),
    }


def _shares(
    once: bool = True,
    clips: bool = True,
    weighs: bool = True,
    of_busy: bool = False,
    of_kernels: bool = False,
) -> Callable[[Kernels, int, int], Pair]:
    """The right answer, with each of its parts open to a mistake."""

    def utilisation(kernels: Kernels, units: int, period: int) -> Pair:
        runs = [(start, min(end, period) if clips else end, u) for start, end, u in kernels]
        busy, until = 0, 0
        for start, end, _ in sorted(runs):
            busy += max(0, end - max(start, until)) if once else end - start
            until = max(until, end)
        work = sum((end - start) * (u / units if weighs else 1) for start, end, u in runs)
        if of_kernels:
            return busy / period, sum(u for _, _, u in runs) / len(runs) / units
        return busy / period, work / (busy if of_busy else period)

    return utilisation


def _moment_by_moment(kernels: Kernels, units: int, period: int) -> list[float]:
    working = np.zeros(period)
    for start, end, used in kernels:
        working[start:end] += used
    return [float(np.mean(working > 0)), float(np.mean(working) / units)]


def _by_edges(kernels: Kernels, units: int, period: int) -> np.ndarray:
    edges = sorted({0, period, *(min(t, period) for start, end, _ in kernels for t in (start, end))})
    busy = done = 0.0
    for left, right in pairwise(edges):
        at_work = sum(used for start, end, used in kernels if start <= left < end)
        busy += (right - left) * (at_work > 0)
        done += (right - left) * at_work
    return np.array([busy, done / units]) / period


utilisation = Exercise(
    id="batch_and_memory.utilisation",
    inputs=_inputs,
    observer=each,
    right=_shares(),
    points={
        "kernels one after the other": 1,
        "kernels at the same time": 2,
        "a kernel that outlasts the period": 1,
    },
    also_right=(_moment_by_moment, _by_edges),
    mistakes=(
        Mistake(
            _shares(once=False),
            "Where kernels overlap, you count the same moment several times. The first share asks whether *any* kernel "
            "runs, so a moment counts once.",
        ),
        Mistake(
            _shares(clips=False),
            "You count what runs after the period. Cut such a kernel off at its end.",
        ),
        Mistake(
            _shares(weighs=False),
            "In your second share every kernel counts as the whole device. A kernel on 4 of 132 units is 4/132 of it.",
        ),
        Mistake(
            _shares(of_busy=True),
            "You divide the second share by the time in which something runs. Units also rest while nothing runs: "
            "divide by the whole period.",
        ),
        Mistake(
            _shares(of_kernels=True),
            "You average the units over the kernels. A long kernel weighs more than a short one: multiply the units "
            "by the time.",
        ),
        Mistake(
            lambda *row: _shares()(*row)[::-1],
            "The right two shares, the wrong way round: first the share of time, then the share of the device.",
        ),
        Mistake(
            lambda *row: tuple(100 * share for share in _shares()(*row)),
            "Shares are asked for, between 0 and 1; these are percentages.",
        ),
    ),
    hints=(
        "For the first share, sort the kernels by their start and keep in mind until when the device is busy. Or "
        "make an array with one place for each microsecond.",
        "For the second, add up (end - start) * units over the kernels, and divide by all that was possible: "
        "period * units.",
        "min(end, period) cuts a kernel off. working = np.zeros(period); working[start:end] += used does it by itself.",
    ),
    rtol=1e-6,
    asks_for=("ampcourse.plots.device_timeline",),
    insight="A kernel on one unit of 132 makes the first share as high as one on all of them. It tells whether the "
    "device waits for you, and nothing about how well it is used.",
)
