"""Exercise 4: which updates does a float16 addition swallow?"""

from __future__ import annotations

import math

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.numerics import FLOAT16


def _inputs(rng: np.random.Generator) -> Inputs:
    """Weights far from both ends of the range, so that every update is a float16 value and no sum overflows."""

    def weights(size: int) -> tuple[np.ndarray, np.ndarray]:
        exponent = rng.integers(-5, 13, size)
        significand = rng.integers(1025, 2048, size) / 1024
        return rng.choice([-1.0, 1.0], size) * significand * 2.0**exponent, 2.0 ** (exponent - 11)

    def factors(size: int) -> np.ndarray:
        # below the point where the update survives, above it, and beyond twice that; ties are asked for on their own
        third = size // 3
        return rng.permutation(
            np.r_[rng.uniform(0.3, 0.95, third), rng.uniform(1.05, 1.95, third), rng.uniform(2.05, 3, third)]
        )

    def updates(half_gap: np.ndarray, factor: np.ndarray) -> np.ndarray:
        return FLOAT16.round(half_gap * factor)

    inside, half_gap = weights(48)
    sign = rng.choice([-1.0, 1.0], 48)
    tied, tied_half_gap = weights(24)
    tied_sign = rng.choice([-1.0, 1.0], 24)
    power = rng.choice([-1.0, 1.0], 24) * 2.0 ** rng.integers(-5, 13, 24)
    quarter_gap = np.abs(power) * 2.0**-12  # below a power of two the gap is half as wide
    return {
        "inside a binade": (inside, sign * updates(half_gap, factors(48))),
        "exactly half a gap": (tied, tied_sign * tied_half_gap),
        "toward zero from a power of two": (power, -np.sign(power) * updates(quarter_gap, factors(24))),
    }


def _half_gap(w: np.ndarray, u: np.ndarray, narrow: bool = True) -> np.ndarray:
    """Half the distance from w to its neighbour in the direction of u."""
    exponent = np.frexp(w)[1] - 1
    power_of_two = np.abs(w) == 2.0**exponent
    toward_zero = np.sign(u) != np.sign(w)
    return 2.0 ** (exponent - 11 - (narrow & power_of_two & toward_zero))


def _by_the_gap(w: np.ndarray, u: np.ndarray, narrow: bool = True) -> np.ndarray:
    half, last_bit = _half_gap(w, u, narrow), np.abs(w) / 2.0 ** (np.frexp(w)[1] - 11)
    return (np.abs(u) < half) | ((np.abs(u) == half) & (last_bit % 2 == 0))


def _one_by_one(w: np.ndarray, u: np.ndarray) -> list[bool]:
    def lost(weight: float, update: float) -> bool:
        significand, exponent = math.frexp(weight + update)
        return math.ldexp(round(significand * 2**11), exponent - 11) == weight

    return [lost(weight, update) for weight, update in zip(w.tolist(), u.tolist(), strict=True)]


def _in_tensorflow(w: np.ndarray, u: np.ndarray) -> np.ndarray:
    import tensorflow as tf

    weight = tf.constant(w, tf.float16)
    return tf.equal(weight + tf.constant(u, tf.float16), weight)


swamped = Exercise(
    id="fp16_range.swamped",
    inputs=_inputs,
    right=lambda w, u: FLOAT16.round(w + u) == w,
    points={"inside a binade": 2, "exactly half a gap": 1, "toward zero from a power of two": 1},
    also_right=(
        _by_the_gap,
        lambda w, u: w.astype(np.float16) + u.astype(np.float16) == w.astype(np.float16),
        _one_by_one,
        _in_tensorflow,
    ),
    mistakes=(
        Mistake(
            lambda w, u: np.abs(u) <= _half_gap(w, u),
            "Every update of exactly half a gap counts as lost for you. A tie goes to the even neighbour: "
            "if w's own last bit is 1, the neighbour is the even one, and the weight moves.",
        ),
        Mistake(
            lambda w, u: np.abs(u) < _half_gap(w, u),
            "No update of exactly half a gap is lost for you. A tie goes to the even neighbour: "
            "if w's own last bit is 0, the weight stays where it is.",
        ),
        Mistake(
            lambda w, u: np.abs(u) <= _half_gap(w, u, narrow=False),
            "Half the gap is the right measure inside a binade. Two cases are left. At exactly half a gap the even "
            "neighbour wins, so a weight whose last bit is 1 moves. And below a power of two the gap is half as wide.",
        ),
        Mistake(
            lambda w, u: np.abs(u) < _half_gap(w, u, narrow=False),
            "Half the gap is the right measure inside a binade. Two cases are left. At exactly half a gap the even "
            "neighbour wins, so a weight whose last bit is 0 stays. And below a power of two the gap is half as wide.",
        ),
        Mistake(
            lambda w, u: np.abs(w) >= 2048 * np.abs(u),
            "A fixed ratio of 2048 is too crude: it calls updates lost that change the weight. Where the ratio tips "
            "depends on the weight's significand and lies between 2048 and 4096; compare |u| with half the gap at w.",
        ),
        Mistake(
            lambda w, u: np.abs(w) >= 4096 * np.abs(u),
            "A fixed ratio of 4096 misses many lost updates: for a significand near 1, an update of w/2100 is already "
            "too small. Compare |u| with half the gap at w.",
        ),
        Mistake(
            lambda w, u: np.abs(u) < 2 * _half_gap(w, u),
            "You compare with the whole gap. An update of more than half the gap is rounded up to the next value, "
            "so it does change the weight.",
        ),
        Mistake(
            lambda w, u: _by_the_gap(w, u, narrow=False),
            "Right except for powers of two. Just below 2**e the gap is half of the gap above it, "
            "so an update toward zero needs only half the size.",
        ),
        Mistake(
            lambda w, u: np.abs(u) < FLOAT16.unit_roundoff,
            "You compare the update with 2**-11 itself, whatever the weight. "
            "2**-11 is relative: the gap grows with the weight.",
        ),
        Mistake(
            lambda w, u: FLOAT16.round(w + u) != w,
            "The other way round: return True where the weight stays as it was.",
        ),
        Mistake(
            lambda w, u: w + u == w,
            "You added in float64, which has 53 significand bits and loses none of these updates. "
            "Round the sum to float16, then compare.",
        ),
    ),
    hints=(
        "w + u in float64 is exact here. What does float16 make of that sum?",
        "An update is lost when the exact sum is nearer to w than to w's neighbour on that side: |u| below half the "
        "gap. On the half itself the even one wins.",
        "With your to_float16 from before it is one line: to_float16(w + u) == w.",
    ),
    asks_for=("ampcourse.numerics.swamped", "ampcourse.numerics.accumulate", "ampcourse.numerics.Format.round"),
    insight="Whether an update survives is decided by half the gap at the weight, not by one fixed ratio: the ratio "
    "at which it tips lies between about 2048 and 4096. Lesson 02 keeps a float32 copy of the weights for this reason.",
)
