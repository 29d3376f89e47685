"""Exercise 4: a mean over replicas that travels in float16."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

_HALF = np.float16


def _inputs(rng: np.random.Generator) -> Inputs:
    """Gradients of 4 or 8 replicas: powers of two, so that dividing by their number rounds nothing."""

    def gradients(middle: float) -> np.ndarray:
        sizes = np.exp2(rng.normal(middle, 2.5, (int(rng.choice([4, 8])), 64)))
        return (sizes * rng.choice([-1.0, 1.0], sizes.shape)).astype(np.float32)

    def one_sided(middle: float) -> np.ndarray:
        sizes = np.exp2(rng.uniform(middle - 0.9, middle, (int(rng.choice([4, 8])), 64)))
        return (sizes * rng.choice([-1.0, 1.0], 64)).astype(np.float32)

    return {
        "ordinary gradients": (gradients(-6), float(2.0 ** rng.integers(3, 6))),
        "small gradients": (gradients(-24), float(2.0 ** rng.integers(15, 18))),
        "gradients whose sum overflows": (one_sided(0), 2.0**15),
    }


def _rounded_sum(rows: np.ndarray) -> np.ndarray:
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


def _half(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values.astype(_HALF)


def _right(g: np.ndarray, scale: float) -> np.ndarray:
    if len(g) & (len(g) - 1):  # then the order of scaling and dividing matters, and several answers are right
        raise ValueError("the number of replicas is a power of two")
    with np.errstate(all="ignore"):
        total = _rounded_sum(_half(g * np.float32(scale / len(g))))
    return total.astype(np.float32) / np.float32(scale)


def _in_place(g: np.ndarray, scale: float) -> np.ndarray:
    total = np.zeros(g.shape[1], _HALF)
    for row in g:
        total += (row / np.float32(len(g)) * np.float32(scale)).astype(_HALF)
    return np.float32(1 / scale) * total.astype(np.float32)


def _by_sum(g: np.ndarray, scale: float) -> np.ndarray:
    sent = (g * np.float32(scale) / np.float32(len(g))).astype(_HALF)
    return np.divide(functools.reduce(np.add, sent), scale, dtype=np.float32)


def _in_tensorflow(g: np.ndarray, scale: float) -> Any:
    import tensorflow as tf

    parts = [tf.cast(row * (scale / len(g)), tf.float16) for row in tf.unstack(tf.constant(g))]
    total = parts[0]
    for part in parts[1:]:
        total += part
    return tf.cast(total, tf.float32) / scale


def _late_division(g: np.ndarray, scale: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        total = _rounded_sum(_half(g * np.float32(scale)))
    return total.astype(np.float32) / np.float32(scale * len(g))


def _cast_first(g: np.ndarray, scale: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        total = _rounded_sum(_half(_half(g).astype(np.float32) * np.float32(scale / len(g))))
    return total.astype(np.float32) / np.float32(scale)


def _unscaled(g: np.ndarray, scale: float) -> np.ndarray:
    return _right(g, 1.0)


def _sum_in_float32(g: np.ndarray, scale: float) -> np.ndarray:
    return _half(g * np.float32(scale / len(g))).astype(np.float32).sum(axis=0) / np.float32(scale)


def _half_at_the_end(g: np.ndarray, scale: float) -> np.ndarray:
    return _half((g * np.float32(scale / len(g))).sum(axis=0)).astype(np.float32) / np.float32(scale)


def _mean_of_halves(g: np.ndarray, scale: float) -> np.ndarray:
    """np.mean adds float16 up in float32 and rounds once."""
    return _half(g * np.float32(scale)).mean(axis=0).astype(np.float32) / np.float32(scale)


def _in_pairs(g: np.ndarray, scale: float) -> np.ndarray:
    rows = _half(g * np.float32(scale / len(g)))
    while len(rows) > 1:
        rows = rows[0::2] + rows[1::2]
    return rows[0].astype(np.float32) / np.float32(scale)


def _unscale_in_half(g: np.ndarray, scale: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (_rounded_sum(_half(g * np.float32(scale / len(g)))) / _HALF(scale)).astype(np.float32)


sixteen_bit_mean = Exercise(
    id="distributed.sixteen_bit_mean",
    inputs=_inputs,
    right=_right,
    points={"ordinary gradients": 1, "small gradients": 1, "gradients whose sum overflows": 2},
    also_right=(_in_place, _by_sum, _in_tensorflow),
    mistakes=(
        Mistake(
            _late_division,
            "You divide by the number of replicas after the sum. Where the gradients have the same sign the sum "
            "overflows: divide on each replica, before the cast.",
        ),
        Mistake(
            _cast_first,
            "You cast to float16 first and scale afterwards. What the cast flushed stays 0: scale in float32, then "
            "cast.",
        ),
        Mistake(
            _unscaled,
            "You send the gradients as they are, without the scale: small ones are flushed by the cast.",
        ),
        Mistake(
            _sum_in_float32,
            "You add up in float32. What travels round a ring are partial sums, and they travel in float16: "
            "round after every addition.",
        ),
        Mistake(
            _half_at_the_end,
            "You add up in float32 and cast the sum. Then float32 has travelled: cast on each replica, before the sum.",
        ),
        Mistake(
            lambda g, scale: g.mean(axis=0),
            "That is the float32 mean, which a float32 all-reduce gives. Asked is what comes out if float16 travels.",
        ),
        Mistake(
            lambda g, scale: _right(g, scale) * np.float32(len(g)),
            "That is the sum, not the mean: divide by the number of replicas.",
        ),
        Mistake(
            lambda g, scale: _right(g, scale) * np.float32(scale),
            "Your result is still scaled: divide by the scale at the end, in float32.",
        ),
        Mistake(
            _unscale_in_half,
            "You divide by the scale in float16, which flushes the small gradients again. Cast to float32 first.",
        ),
        Mistake(
            _mean_of_halves,
            "You cast on each replica, but add up in float32 and round once at the end, as NumPy's .mean() does with "
            "float16. What travels round a ring is rounded after every addition.",
        ),
        Mistake(
            _in_pairs,
            "You add up in pairs, as a tree does. That rounds, too, but elsewhere: asked is one row after the other.",
        ),
        Mistake(
            lambda g, scale: _right(g[::-1], scale),
            "You add the rows up from the last to the first. Rounding depends on the order: begin with the first.",
        ),
    ),
    hints=(
        "On each replica: in which order do scaling, dividing by the number of replicas and casting lose nothing?",
        "Multiply by scale / replicas in float32, cast, add row after row in float16, cast back, divide by the scale.",
        "total = rows[0]; for row in rows[1:]: total = total + row keeps float16, because both are float16.",
    ),
    dtype="float32",
    asks_for=("ampcourse.numerics.sum_in", "ampcourse.numerics.accumulate", "ampcourse.numerics.Format.round"),
    insight="Scaling keeps the small gradients, dividing first keeps the sum in range. What is left is rounding: once "
    "for the cast, once for every addition on the way.",
)
