"""Exercise 5: a mean of float16 numbers that neither overflows nor stalls."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

HALF = np.float16


def _inputs(rng: np.random.Generator) -> Inputs:
    columns = rng.integers(3, 7)

    def spread(values: np.ndarray) -> np.ndarray:
        return (values * rng.uniform(0.5, 2.0, columns)).astype(HALF)  # else every mean could be guessed

    return {
        "sums beyond 65504": (spread(rng.uniform(100, 900, (1024, columns))),),
        "thousands of terms": (spread(rng.uniform(0.5, 1.5, (8192, columns))),),
        "tiny values": (spread(2.0 ** rng.uniform(-13, -11, (4096, columns))),),
    }


def _row_by_row(x: np.ndarray, dtype: type = HALF) -> np.ndarray:
    """The sum from the first row to the last, every partial sum rounded to the dtype."""
    with np.errstate(over="ignore"):
        return np.add.accumulate(x.astype(dtype), axis=0)[-1]


def _quietly_halved(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(HALF)


def _in_float32(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32).sum(axis=0) / len(x)).astype(HALF)


def _one_by_one(x: np.ndarray) -> np.ndarray:
    return np.array([math.fsum(column) / len(x) for column in x.T.tolist()], HALF)


def _in_tensorflow(x: np.ndarray) -> np.ndarray:
    import tensorflow as tf

    return tf.cast(tf.reduce_mean(tf.cast(x, tf.float32), axis=0), tf.float16)


def _in_keras(x: np.ndarray) -> np.ndarray:
    import keras

    return keras.ops.convert_to_numpy(keras.ops.mean(keras.ops.convert_to_tensor(x), axis=0))


safe_mean = Exercise(
    id="fp16_range.safe_mean",
    inputs=_inputs,
    right=_in_float32,
    points={"sums beyond 65504": 1, "thousands of terms": 1, "tiny values": 1},
    also_right=(
        lambda x: x.mean(axis=0),  # for float16, NumPy adds in float32 without being asked
        lambda x: np.mean(x, axis=0, dtype=np.float32).astype(HALF),
        lambda x: _quietly_halved(_row_by_row(x, np.float32) / np.float32(len(x))),
        _one_by_one,
        _in_tensorflow,
        _in_keras,
    ),
    mistakes=(
        Mistake(
            lambda x: _row_by_row(x) / HALF(len(x)),
            "You add in float16: the sum overflows beyond 65504, and before that it stalls where the terms fall below "
            "half its gap. Convert to float32 before you add.",
        ),
        Mistake(
            lambda x: _row_by_row(x / HALF(len(x))),
            "Dividing before you add avoids the overflow, but each quotient is rounded to float16, small ones to "
            "subnormals or zero, and the float16 sum still stalls. Convert to float32 before you add.",
        ),
        Mistake(
            lambda x: (x / HALF(len(x))).astype(np.float32).sum(axis=0).astype(HALF),
            "You divide while the values are still float16: small quotients become subnormals or zero. "
            "Convert to float32 first, then add, then divide.",
        ),
        Mistake(
            lambda x: _quietly_halved(x.astype(np.float32).sum(axis=0)) / HALF(len(x)),
            "The sum is right in float32, but you store it in float16 before dividing, and there it overflows. "
            "Divide first, convert last.",
        ),
        Mistake(
            lambda x: np.minimum(_row_by_row(x), HALF(65504)) / HALF(len(x)),
            "You cap the sum at 65504. The infinity is gone and the mean is still wrong: "
            "the partial sums need the range and precision of float32.",
        ),
        Mistake(
            lambda x: (_row_by_row(x, ml_dtypes.bfloat16) / ml_dtypes.bfloat16(len(x))).astype(HALF),
            "bfloat16 has the range for the sum but only 8 significand bits: the sum stalls 8 times sooner than in "
            "float16. Add in float32.",
        ),
        Mistake(
            lambda x: x.astype(np.float32).mean(axis=0),
            "The values are right, but the dtype is float32. Convert the result back to float16.",
        ),
        Mistake(
            lambda x: x.mean(),
            "You average over everything. The question is one mean for each column, over axis 0.",
        ),
        Mistake(
            lambda x: x.mean(axis=1),
            "You average each row. The question is one mean for each column, over axis 0.",
        ),
        Mistake(
            lambda x: _quietly_halved(x.astype(np.float32).sum(axis=0)),
            "That is the sum: divide by the number of rows before you convert back to float16.",
        ),
    ),
    hints=(
        "The values fit into float16 and so does their mean. What does not fit is something in between.",
        "Three steps in this order: convert to float32, add and divide there, convert the result to float16.",
        "x.astype(np.float32).sum(axis=0) / len(x) does the first two steps.",
    ),
    rtol=2.0**-9,  # two float16 neighbours: honest float32 sums in another order may round to the next value
    dtype="float16",
    asks_for=("ampcourse.numerics.sum_in", "ampcourse.numerics.accumulate", "ampcourse.numerics.dot"),
    insight="Inputs and output may be float16 as long as the sum in between is not. Matrix units are used "
    "in the same way: float16 in, sums in float32, float16 out.",
)
