"""Exercises that try the engine itself: small, and one of each kind."""

from __future__ import annotations

import time

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

LEAST_NORMAL = 2.0**-14


def _gap_inputs(rng: np.random.Generator) -> Inputs:
    normal = np.float16(rng.choice([-1.0, 1.0], 16) * 2.0 ** rng.uniform(-14, 15.9, 16)).astype(np.float64)
    return {
        "normal": (normal,),
        "with subnormals": (np.r_[normal[:8], rng.integers(1, 1024, 8) * 2.0**-24],),
        "negative": (-np.abs(normal),),
    }


def _gap(x, least=LEAST_NORMAL, sign=np.abs):
    return 2.0 ** (np.floor(np.log2(np.maximum(sign(x), least))) - 10)


SUBNORMALS = "Below the least normal number the gap stays the same."
SIGN = "The gap does not depend on the sign."
EPSILON = "That is the gap just above 1."

gap = Exercise(
    id="demo.gap",
    inputs=_gap_inputs,
    right=_gap,
    points={"normal": 2, "with subnormals": 1, "negative": 1},
    also_right=(lambda x: [2.0 ** (max(np.frexp(v)[1] - 1, -14) - 10) for v in x], lambda x: np.float32(_gap(x))),
    mistakes=(
        Mistake(lambda x: np.full_like(x, 2.0**-10), EPSILON),
        Mistake(lambda x: _gap(x, least=0.0), SUBNORMALS),
        Mistake(lambda x: np.where((x < 0).all(), -_gap(x), _gap(x)), SIGN),
    ),
    hints=("first", "second <b>", "third"),
    insight="Gaps double & stay.",
)

pick = Exercise(
    id="demo.pick",
    inputs=lambda rng: {"names": ([(float(v), str(rng.integers(1e6))) for v in rng.normal(size=12)],)},
    observer=each,
    right=lambda value, name: name if value > 0 else "none",
    points={"names": 3},
)


class Counter:
    """Counts."""

    def __init__(self, start: int) -> None:
        self.total = start

    def add(self, n: int) -> int:
        """Add and tell."""
        self.total += n
        return self.total


def drive(answer, start, steps):
    """Make one and drive it."""
    counter = answer(start)
    return {"totals": [counter.add(n) for n in steps]}


count = Exercise(
    id="demo.count",
    inputs=lambda rng: {"adding": (int(rng.integers(1, 99)), [int(n) for n in rng.integers(1, 99, 5)])},
    observer=drive,
    right=Counter,
    points={"adding": 2},
    hints=("only one",),
)

broken = Exercise("demo.broken", lambda rng: {"all": (rng.normal(),)}, right=lambda x: x / 0, points={"all": 1})

slow = Exercise(
    "demo.slow",
    lambda rng: {"all": (rng.normal(),)},
    right=lambda x: time.sleep(0.05) or x,
    points={"all": 1},
    trains=True,
)

EXERCISES = (gap, pick, count, broken, slow)
