"""Exercise 1: how many gradients does float16 lose under a loss scale?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.numerics import FLOAT16, fate

LEAST_NORMAL, LEAST_SUBNORMAL = FLOAT16.least_normal, FLOAT16.least_subnormal


def _inputs(rng: np.random.Generator) -> Inputs:
    """Gradients as float32, some of them zero from the start, as those behind an inactive ReLU are."""

    def gradients(middle: float) -> np.ndarray:
        values = np.exp2(rng.normal(middle, 4, 2000)) * rng.choice([-1.0, 1.0], 2000)
        values[: rng.integers(100, 400)] = 0
        return rng.permutation(values).astype(np.float32)

    return {
        "not scaled": (gradients(-23), 1.0),
        "scaled": (gradients(-30), float(2.0 ** rng.integers(5, 9))),
        "scaled too far": (gradients(-8), float(2.0 ** rng.integers(20, 24))),
    }


def _stored(g: np.ndarray, scale: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        return (g * np.float32(scale)).astype(np.float16)


def _right(g: np.ndarray, scale: float) -> float:
    stored = _stored(g[g != 0], scale)
    return float(np.mean((stored == 0) | np.isinf(stored)))


def _by_counting(g: np.ndarray, scale: float) -> float:
    lost = there = 0
    for value in g.astype(float).tolist():
        if value:
            there += 1
            size = abs(value) * scale
            lost += size <= 2.0**-25 or size >= 65520
    return lost / there


def _in_tensorflow(g: np.ndarray, scale: float) -> Any:
    import tensorflow as tf

    there = tf.constant(g[g != 0])
    stored = tf.cast(there * scale, tf.float16)
    return tf.reduce_mean(tf.cast((stored == 0) | tf.math.is_inf(stored), tf.float32))


def _by_fate(g: np.ndarray, scale: float) -> float:
    seen = fate(g, "float16", scale)
    return seen.flushed + seen.overflowed


fraction_lost = Exercise(
    id="loss_scaling.fraction_lost",
    inputs=_inputs,
    right=_right,
    points={"not scaled": 1, "scaled": 1, "scaled too far": 1},
    also_right=(_by_counting, _in_tensorflow, _by_fate),
    mistakes=(
        Mistake(
            lambda g, s: np.mean(np.abs(g[g != 0]) * s < LEAST_NORMAL) + np.mean(np.isinf(_stored(g[g != 0], s))),
            "You count subnormals as lost. They are blurred but still there: lost means stored as 0 or as infinity.",
        ),
        Mistake(
            lambda g, s: np.mean(np.abs(g[g != 0]) * s < LEAST_SUBNORMAL) + np.mean(np.isinf(_stored(g[g != 0], s))),
            "You put the limit at 2**-24, the least subnormal. Values down to 2**-25 are rounded up to it: "
            "let the cast to float16 decide.",
        ),
        Mistake(
            lambda g, s: np.mean(_stored(g[g != 0], s) == 0),
            "You count what became 0 but not what became infinity. A loss scale can also be too large.",
        ),
        Mistake(
            lambda g, s: np.mean((_stored(g[g != 0], s) == 0) | (_stored(g[g != 0], s) == np.inf)),
            "You count what became +infinity but not what became -infinity. np.isinf sees both.",
        ),
        Mistake(
            lambda g, s: np.mean((_stored(g, s) == 0) | np.isinf(_stored(g, s))),
            "You count gradients that were 0 before. Nothing was lost there: leave them out altogether.",
        ),
        Mistake(
            lambda g, s: np.mean((g != 0) & ((_stored(g, s) == 0) | np.isinf(_stored(g, s)))),
            "You count the right ones but divide by the number of all gradients. Divide by the number of those that "
            "were not 0.",
        ),
        Mistake(
            lambda g, s: _right(g, 1.0),
            "That is what is lost without a loss scale. Either it is missing, or you cast to float16 first: "
            "multiply in float32, then cast.",
        ),
        Mistake(
            lambda g, s: 1 - _right(g, s),
            "That is the fraction that survives; the fraction that is lost is asked for.",
        ),
        Mistake(
            lambda g, s: _right(g, s) * 100,
            "You return per cent. A fraction lies between 0 and 1.",
        ),
        Mistake(
            lambda g, s: np.mean(_late(g[g != 0], s)),
            "You cast to float16 first and scale afterwards. What the cast flushed stays 0, however large the scale: "
            "scale in float32, then cast.",
        ),
    ),
    hints=(
        "A gradient that was 0 before cannot be lost. Take the others: gradients[gradients != 0].",
        "Multiply by the scale, cast with astype(np.float16), and look at what became 0 or infinity.",
        "np.mean((stored == 0) | np.isinf(stored)) is the fraction.",
    ),
    rtol=1e-6,
    asks_for=(
        "ampcourse.numerics.fate",
        "ampcourse.numerics.fate_by_scale",
        "ampcourse.numerics.exponent_histogram",
        "ampcourse.plots.gradient_histogram",
    ),
    insight="A loss scale moves all gradients by the same number of binades. Too small, and the lower end is flushed; "
    "too large, and the upper end overflows. What is lost at either end is lost for good.",
)


def _late(g: np.ndarray, scale: float) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        stored = g.astype(np.float16) * np.float32(scale)
        return (stored == 0) | np.isinf(stored.astype(np.float16))
