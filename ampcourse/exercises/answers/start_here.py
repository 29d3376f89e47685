"""Lesson 00, start here: two easy questions to meet the checker with, their right answers and the usual slips."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

MEGABYTE = 1e6


def _megabytes_inputs(rng: np.random.Generator) -> Inputs:
    def sizes(rank: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(3, 400, rank))  # from 3 up, so that no sum is a product

    narrow, wide = rng.choice([8, 16]), rng.choice([16, 64])  # never 32, which many take for granted
    return {
        "matrices": (sizes(2), int(narrow)),
        "more dimensions": (sizes(int(rng.integers(3, 5))), int(wide)),
    }


def _megabytes(shape: Any, bits: int, unit: float = MEGABYTE, per_byte: int = 8) -> float:
    return math.prod(shape) * bits / per_byte / unit


def _megabytes_in_a_loop(shape: Any, bits: int) -> float:
    size = bits // 8
    for length in shape:
        size *= length
    return size / 1_000_000


def _megabytes_in_tensorflow(shape: Any, bits: int) -> Any:
    import tensorflow as tf

    return tf.reduce_prod(tf.cast(shape, tf.float64)) * bits / 8e6


megabytes = Exercise(
    id="start_here.megabytes",
    inputs=_megabytes_inputs,
    right=_megabytes,
    points={"matrices": 1, "more dimensions": 1},
    rtol=1e-6,
    also_right=(
        lambda shape, bits: np.prod(shape) * (bits / 8) * 1e-6,
        _megabytes_in_a_loop,
        _megabytes_in_tensorflow,
    ),
    mistakes=(
        Mistake(
            lambda shape, bits: math.prod(shape),
            "You return how many numbers there are. How many bytes does each of them take, and how many bytes are "
            "a megabyte?",
        ),
        Mistake(
            lambda shape, bits: _megabytes(shape, bits, per_byte=1),
            "Those are megabits, eight times too many: a byte has 8 bits.",
        ),
        Mistake(
            lambda shape, bits: _megabytes(shape, bits, per_byte=1 / 8),
            "You multiply by 8. Dividing bits by 8 gives bytes.",
        ),
        Mistake(
            lambda shape, bits: _megabytes(shape, bits, unit=1e3),
            "Those are kilobytes. A megabyte is a thousand of them.",
        ),
        Mistake(
            lambda shape, bits: math.prod(shape) * bits // 8 // 10**6,
            "You lose what comes after the decimal point: // drops the remainder. Use / instead.",
        ),
        Mistake(
            lambda shape, bits: _megabytes(shape, bits, unit=1),
            "Those are bytes. A megabyte is a million of them.",
        ),
        Mistake(
            lambda shape, bits: _megabytes(shape, bits, unit=2**20),
            "Those are mebibytes, 2**20 bytes each. Here a megabyte is 10**6 bytes.",
        ),
        Mistake(
            lambda shape, bits: _megabytes(shape, 32),
            "You take 4 bytes for every number, whatever its bits: right for float32 only.",
        ),
        Mistake(
            lambda shape, bits: _megabytes([sum(shape)], bits),
            "You add the sizes of the dimensions. A matrix of 3 rows and 4 columns holds 3 * 4 numbers, not 3 + 4.",
        ),
        Mistake(
            lambda shape, bits: _megabytes(shape[:2], bits),
            "Right for matrices. A shape may have any number of dimensions: multiply all of them.",
        ),
    ),
    hints=(
        "How many numbers are in an array of shape (3, 4)? And of shape (3, 4, 5)?",
        "np.prod(shape) is how many numbers there are. Each takes bits / 8 bytes, and 10**6 bytes are a megabyte.",
    ),
    insight="Half the bits, half the megabytes: that is what mixed precision saves, wherever 16 bits are enough.",
)


def _changed_inputs(rng: np.random.Generator) -> Inputs:
    exact = int(rng.integers(4, 29))  # of 32, so that no share is much likelier than the others
    small = np.r_[rng.integers(1, 2048, exact) * 2.0**-12, rng.uniform(2.0**-10, 2.0**-1, 32 - exact)]
    # all below 2,048 or odd above it: so that the share depends on how many of each were drawn
    below = int(rng.integers(8, 25))
    whole = np.r_[rng.integers(0, 2049, below), 2 * rng.integers(1100, 2000, 32 - below) + 1].astype(np.float64)
    return {
        "numbers below 1": (rng.permutation(small),),
        "whole numbers": (rng.permutation(whole),),
    }


def _changed(values: np.ndarray) -> float:
    return np.mean(values.astype(np.float16) != values)


def _changed_one_by_one(values: np.ndarray) -> float:
    return sum(float(np.float16(value)) != value for value in values) / len(values)


def _changed_in_tensorflow(values: np.ndarray) -> Any:
    import tensorflow as tf

    there_and_back = tf.cast(tf.cast(values, tf.float16), tf.float64)
    return tf.reduce_mean(tf.cast(there_and_back != values, tf.float32))


fraction_changed = Exercise(
    id="start_here.fraction_changed",
    inputs=_changed_inputs,
    right=_changed,
    points={"numbers below 1": 1, "whole numbers": 1},
    rtol=1e-3,
    also_right=(
        _changed_one_by_one,
        _changed_in_tensorflow,
        lambda values: 1 - np.count_nonzero(values == np.float16(values)) / values.size,
    ),
    mistakes=(
        Mistake(
            lambda values: 1 - _changed(values),
            "That is the fraction that stays as it is. The question is the fraction that changes.",
        ),
        Mistake(
            lambda values: np.count_nonzero(values.astype(np.float16) != values),
            "You count the numbers that change. Divide by how many there are to get a fraction.",
        ),
        Mistake(
            lambda values: 100 * _changed(values),
            "That is a percentage. The question is a fraction, from 0 to 1.",
        ),
        Mistake(
            lambda values: values.astype(np.float16) != values,
            "You say for each value whether it changes. The question is one number: the fraction that does.",
        ),
        Mistake(
            lambda values: np.mean(values.astype(np.float16) != np.float16(values)),
            "You compare float16 with float16, so nothing ever differs. Compare what was stored with the original.",
        ),
        Mistake(
            lambda values: np.mean(np.abs(values.astype(np.float16) - values) > 1e-3),
            "You let small changes pass. A number below 1 changes by less than a thousandth, but it does change: "
            "compare with !=.",
        ),
        Mistake(
            lambda values: np.mean(values.astype(np.float32) != values),
            "You store in float32. The question is float16.",
        ),
        Mistake(
            lambda values: np.mean(values != np.round(values)),
            "You ask which numbers are not whole. float16 holds many fractions, such as 0.75, and not every whole "
            "number.",
        ),
    ),
    hints=(
        "values.astype(np.float16) is what float16 stores. Which of those differ from the values themselves?",
        "Comparing two arrays with != gives an array of True and False, and np.mean of that is the fraction of True.",
    ),
    asks_for=(
        "ampcourse.numerics.Format.round",
        "ampcourse.numerics.FLOAT16.round",
        "ampcourse.numerics.Format.encode",
        "ampcourse.numerics.codes.Codec.round",
    ),
    insight="float16 holds every whole number up to 2,048. Above that, some whole numbers are missing; and of the "
    "numbers that are not whole, it holds only some at any size. Lesson 01 says which.",
)

EXERCISES = (megabytes, fraction_changed)
