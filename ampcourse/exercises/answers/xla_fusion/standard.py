"""Exercise 6: standardise float16 rows, with the same right result op by op and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.xla_fusion import both_ways

EPSILON = 1e-3


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of 256 float16 numbers; their spread is wide against float16's gaps."""

    def rows(middles: Any, spreads: Any) -> np.ndarray:
        count = len(middles)
        noise = rng.normal(size=(count, 256)) * np.reshape(spreads, (count, 1)) + np.reshape(middles, (count, 1))
        return np.clip(noise, -65504, 65504).astype(np.float16)

    ordinary = rows(rng.uniform(-2, 2, 3), [rng.uniform(0.5, 3), rng.uniform(0.04, 0.06), 1.0])
    ordinary[2] = rng.uniform(-5, 5)
    ordinary = rng.permutation(ordinary)
    return {
        "ordinary rows, one of them flat": (ordinary,),
        "rows of large numbers": (rows(rng.choice([-1, 1], 3) * rng.uniform(2e4, 4e4, 3), rng.uniform(1e3, 4e3, 3)),),
        "large numbers close together": (rows(rng.uniform(4e4, 6e4, 3), rng.uniform(60, 90, 3)),),
    }


def _standardise(
    mean_in: str = "float32",
    square_in: str = "float32",
    epsilon: float = EPSILON,
    out: str | None = "float16",
    by_squares: bool = False,
) -> Callable[[Any], Any]:
    """The right answer, with each of its parts open to a mistake."""

    def standardise(x: Any) -> Any:
        import tensorflow as tf

        mean = tf.cast(tf.reduce_mean(tf.cast(x, mean_in), axis=1, keepdims=True), square_in)
        wide = tf.cast(x, square_in)
        if by_squares:
            variance = tf.reduce_mean(wide * wide, axis=1, keepdims=True) - mean * mean
        else:
            variance = tf.reduce_mean(tf.square(wide - mean), axis=1, keepdims=True)
        result = (wide - mean) / tf.sqrt(variance + epsilon)
        return tf.cast(result, out) if out else result

    return standardise


def _over(
    axis: int | None = 1, less_mean: bool = True, by: Callable[[Any], Any] = lambda v: (v + EPSILON) ** 0.5
) -> Callable[[Any], Any]:
    """In float32, over another axis, without subtracting, or divided by something else."""

    def standardise(x: Any) -> Any:
        import tensorflow as tf

        wide = tf.cast(x, tf.float32)
        apart = wide - tf.reduce_mean(wide, axis=axis, keepdims=True)
        variance = tf.reduce_mean(tf.square(apart), axis=axis, keepdims=True)
        return tf.cast((apart if less_mean else wide) / by(variance), tf.float16)

    return standardise


def _with_moments(x: Any) -> Any:
    import tensorflow as tf

    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, axes=[1], keepdims=True)
    return tf.cast((wide - mean) * tf.math.rsqrt(variance + EPSILON), x.dtype)


def _with_keras(x: Any) -> Any:
    import keras

    wide = keras.ops.cast(x, "float64")
    mean, variance = keras.ops.moments(wide, axes=[1], keepdims=True)
    return keras.ops.cast((wide - mean) / keras.ops.sqrt(variance + EPSILON), "float16")


standardise = Exercise(
    id="xla_fusion.standardise",
    inputs=_inputs,
    observer=both_ways,
    right=_standardise(),
    points={
        "ordinary rows, one of them flat": 2,
        "rows of large numbers": 2,
        "large numbers close together": 1,
    },
    also_right=(_with_moments, _with_keras),
    mistakes=(
        Mistake(
            _standardise("float16", "float16"),
            "You compute in float16. Squares of more than 255 are infinite there, in both modes, and op by op the sum "
            "inside the mean overflows as well: cast to float32 first.",
        ),
        Mistake(
            _standardise(mean_in="float16"),
            "Your mean is taken in float16. Compiled, XLA adds in float32 and you do not notice; op by op the sum "
            "overflows. Cast to float32 before the mean.",
        ),
        Mistake(
            _standardise(square_in="float16"),
            "Your mean is right, but the variance is a float16 number (squared there, or cast to it, as tf.nn.moments "
            "does): it overflows where numbers are further than 255 from the mean. Cast x to float32 first.",
        ),
        Mistake(
            _standardise("bfloat16", "bfloat16"),
            "bfloat16 has the range, but only 8 bits of significand: too few to subtract a mean from numbers near it. "
            "Compute in float32.",
        ),
        Mistake(
            _standardise(out=None),
            "The values are right, but you return float32: cast the result back to float16.",
        ),
        Mistake(
            _standardise(epsilon=0.0),
            "A flat row has the variance 0, and 0 / 0 is NaN: add 1e-3 to the variance.",
        ),
        Mistake(
            _over(by=lambda v: v + EPSILON),
            "You divide by the variance. The standard deviation is its square root.",
        ),
        Mistake(
            _over(by=lambda v: v**0.5 + EPSILON),
            "You add 1e-3 to the standard deviation. It belongs to the variance, under the root.",
        ),
        Mistake(_over(less_mean=False), "You divide, but do not subtract the mean."),
        Mistake(_over(axis=None), "You take one mean and one variance of all rows together. Each row has its own."),
        Mistake(_over(axis=0), "You take the means down the columns. Each *row* has its own: axis=1, keepdims=True."),
        Mistake(
            _standardise(by_squares=True),
            "Mean of squares less square of the mean: where numbers are large and close together, float32 cancels most "
            "digits away. Square the differences from the mean.",
        ),
    ),
    hints=(
        "Everything between the first cast and the last should be float32.",
        "tf.reduce_mean(..., axis=1, keepdims=True) gives the mean of each row, in a shape that fits the rows.",
        "wide = tf.cast(x, tf.float32); mean; variance of wide - mean; tf.cast(..., tf.float16) at the end.",
    ),
    rtol=4e-3,
    atol=4e-3,
    trains=True,
    insight="XLA may compute an intermediate more precisely than the op by op program, and it may not. What must not "
    "overflow has to be cast by you: then the result is the same in both modes.",
)
