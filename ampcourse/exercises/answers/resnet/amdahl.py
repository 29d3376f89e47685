"""Exercise 2: Amdahl's law, from measured parts of a step."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Parts = dict[str, float]
Pair = tuple[float, float]
NAMES = ("convolutions", "normalisation", "optimizer", "input")


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (seconds, gains)."""

    def row(gain: dict[str, tuple[float, float]]) -> tuple[Parts, Parts]:
        seconds = {name: round(float(rng.uniform(0.01, 0.2)), 3) for name in NAMES}
        seconds["convolutions"] += 0.2
        return seconds, {name: round(float(rng.uniform(*ends)), 2) for name, ends in gain.items()}

    two = {"convolutions": (2.0, 8.0), "normalisation": (1.2, 1.9)}
    return {
        "one part gains": ([row({"convolutions": (1.5, 8.0)}) for _ in range(4)],),
        "several parts gain": ([row(two), row(two | {"input": (1.1, 3.0)}), row(two)],),
        "a part gets slower": ([row(two | {"optimizer": (0.4, 0.8)}) for _ in range(3)],),
    }


def _amdahl(
    new: Callable[[float, float], float] = lambda seconds, gain: seconds / gain,
    other: float = 1.0,
    upside_down: bool = False,
    limit: Callable[[float, float], float] = lambda total, left: total / left,
) -> Callable[[Parts, Parts], Pair]:
    """The right answer, with each of its parts open to a mistake."""

    def speed_up(seconds: Parts, gains: Parts) -> Pair:
        total = sum(seconds.values())
        after = sum(new(value, gains.get(name, other)) for name, value in seconds.items())
        left = sum(value for name, value in seconds.items() if name not in gains)
        return after / total if upside_down else total / after, limit(total, left)

    return speed_up


def _by_shares(seconds: Parts, gains: Parts) -> list[float]:
    total = sum(seconds.values())
    shares = {name: value / total for name, value in seconds.items()}
    gained = sum(shares[name] for name in gains)
    return [1 / (1 - gained + sum(shares[name] / gain for name, gain in gains.items())), 1 / (1 - gained)]


def _in_numpy(seconds: Parts, gains: Parts) -> np.ndarray:
    times = np.array(list(seconds.values()))
    by = np.array([gains.get(name, 1.0) for name in seconds])
    return times.sum() / np.array([(times / by).sum(), times[[name not in gains for name in seconds]].sum()])


def _limit_of_one(seconds: Parts, gains: Parts) -> Pair:
    largest = max(gains, key=lambda name: gains[name])
    total = sum(seconds.values())
    return _amdahl()(seconds, gains)[0], total / (total - seconds[largest])


def _mean_gain(weighted: bool) -> Callable[[Parts, Parts], Pair]:
    def speed_up(seconds: Parts, gains: Parts) -> Pair:
        by = [gains.get(name, 1.0) for name in seconds]
        return float(np.average(by, weights=list(seconds.values()) if weighted else None)), _amdahl()(seconds, gains)[1]

    return speed_up


speed_up = Exercise(
    id="resnet.speed_up",
    inputs=_inputs,
    observer=each,
    right=_amdahl(),
    points={"one part gains": 1, "several parts gain": 1, "a part gets slower": 2},
    also_right=(_by_shares, _in_numpy),
    mistakes=(
        Mistake(
            _mean_gain(weighted=True),
            "You average the gains, weighted by their time. Times add up, gains do not: add the new times first.",
        ),
        Mistake(
            _mean_gain(weighted=False),
            "You average the gains. A part that takes little time counts as much as the largest then: add the new "
            "times, and divide the old sum by the new one.",
        ),
        Mistake(
            lambda seconds, gains: (math.prod(gains.values()), _amdahl()(seconds, gains)[1]),
            "You multiply the gains, as if each made the whole step faster. Each acts on its own part only.",
        ),
        Mistake(
            _amdahl(upside_down=True),
            "Upside down: a speed-up above 1 means faster, so it is the old time over the new time.",
        ),
        Mistake(
            _amdahl(new=lambda seconds, gain: seconds * gain),
            "A gain of 4 makes a part 4 times *shorter*: divide its seconds by the gain.",
        ),
        Mistake(
            _amdahl(new=lambda seconds, gain: seconds / gain if gain != 1 else 0.0),
            "Parts without a gain are missing from your new time. They take as long as before.",
        ),
        Mistake(
            _amdahl(new=lambda seconds, gain: seconds / max(gain, 1.0)),
            "You take a gain below 1 as 1. It means that the part gets slower: in float16 on a processor, say, or when "
            "a cast is added.",
        ),
        Mistake(
            _amdahl(limit=lambda total, left: math.inf),
            "There is a limit: however fast the parts with a gain become, the others take their time.",
        ),
        Mistake(
            _amdahl(limit=lambda total, left: total / (total - left)),
            "Your limit divides by the time of the parts *with* a gain. Those are the ones that vanish; the others are "
            "left.",
        ),
        Mistake(
            _limit_of_one,
            "Your limit lets one part vanish. All parts with a gain may.",
        ),
        Mistake(
            lambda *row: _amdahl()(*row)[::-1],
            "The right two numbers, the wrong way round: first the speed-up, then its limit.",
        ),
    ),
    hints=(
        "Times add up, gains do not. What does the step take after each part has become faster?",
        "seconds / gain for a part with a gain, its old seconds for any other.",
        "`gains.get(name, 1.0)` is a part's gain, or 1. For the limit, leave the parts with a gain out of the new sum.",
    ),
    rtol=1e-6,
    asks_for=("ampcourse.bench.parts.amdahl",),
    insight="Even an infinitely fast convolution leaves the rest of the step. The faster the hardware multiplies, the "
    "more of the time belongs to what it does not multiply.",
)
