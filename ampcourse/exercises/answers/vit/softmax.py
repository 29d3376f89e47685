"""Exercise 3: a softmax that is right in 16 bits, for large scores and long rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.vit import in_dtype


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows far from each other, scores whose exponential overflows, and rows that a 16-bit sum cannot count."""

    def rows(dtype: str, middles: tuple[float, ...], columns: int) -> tuple[str, np.ndarray]:
        scores = rng.normal(size=(len(middles), columns)) * 1.5 + np.array(middles)[:, np.newaxis]
        return dtype, (np.round(scores * 4) / 4).astype(np.float32)

    def long_row() -> tuple[str, np.ndarray]:
        """Scores at most 1 below the largest: the sum of their exponentials is about 82,000 times the largest one."""
        scores = rng.integers(-16, 1, (1, 130_000)) / 16 + int(rng.integers(0, 6))
        scores[:, :24] = scores[:, :24] - rng.integers(2, 5)  # these differ from seed to seed by more than a tolerance
        return "float16", scores.astype(np.float32)

    high, low = float(rng.integers(100, 180)), float(rng.integers(-300, -150))
    return {
        "ordinary rows": rows(str(rng.choice(["float16", "bfloat16"])), (0.0, 1.0, -1.0), 7),
        "rows far from zero": rows("float16", (high, low, 0.0), 6),
        "a row of 130,000 scores": long_row(),
    }


def _softmax(
    sum_in: str | None = "float32",
    exp_in: str | None = "float32",
    less: Callable[[Any], Any] | None = None,
    out: str | None = None,
    axis: int = -1,
) -> Callable[[Any], Any]:
    """The right answer, with each of its parts open to a mistake."""

    def softmax(scores: Any) -> Any:
        import tensorflow as tf

        top = tf.reduce_max(scores, axis=axis, keepdims=True) if less is None else less(scores)
        terms = tf.exp(tf.cast(scores, exp_in or scores.dtype) - tf.cast(top, exp_in or scores.dtype))
        terms = tf.cast(terms, sum_in or scores.dtype)
        return tf.cast(terms / tf.reduce_sum(terms, axis=axis, keepdims=True), out or scores.dtype)

    return softmax


def _nothing(scores: Any) -> Any:
    import tensorflow as tf

    return tf.zeros((), scores.dtype)


def _highest(scores: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_max(scores)


def _limited(scores: Any) -> Any:
    import tensorflow as tf

    return _softmax()(tf.minimum(scores, tf.cast(10, scores.dtype)))


def _by_tensorflow(scores: Any) -> Any:
    import tensorflow as tf

    return tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), scores.dtype)


def _by_logarithms(scores: Any) -> Any:
    import keras

    wide = keras.ops.cast(scores, "float64")
    total = keras.ops.logsumexp(wide, axis=-1, keepdims=True)
    return keras.ops.cast(keras.ops.exp(wide - total), scores.dtype)


softmax = Exercise(
    id="vit.softmax",
    inputs=_inputs,
    observer=in_dtype,
    right=_softmax(),
    points={"ordinary rows": 1, "rows far from zero": 1, "a row of 130,000 scores": 2},
    also_right=(_by_tensorflow, _by_logarithms, _softmax(exp_in=None)),
    mistakes=(
        Mistake(
            _softmax(sum_in=None, exp_in=None),
            "Each term fits, but their sum does not: of 130,000 terms it can pass 65,504, and then every weight is 0. "
            "(tf.nn.softmax on a float16 tensor adds in float16, too.) Add up in float32.",
        ),
        Mistake(
            _softmax(sum_in=None, exp_in=None, less=_nothing),
            "exp overflows in float16 beyond 11, and all terms of a row far below zero are 0: subtract the row's "
            "largest score first. And add up in float32.",
        ),
        Mistake(
            _softmax(less=_nothing),
            "Float32 alone is not enough: exp overflows there beyond 88 and gives 0 below -104. Subtract the largest "
            "score of each row first, which changes nothing else.",
        ),
        Mistake(
            _softmax(less=_highest),
            "You subtract the largest score of the whole tensor. A row far below it has only zeros then, and 0 / 0 is "
            "NaN: each row has its own maximum.",
        ),
        Mistake(
            _softmax(out="float32"),
            "The values are right, but they are float32: return the dtype of the scores.",
        ),
        Mistake(
            _softmax(axis=0),
            "You go down the columns. Each *row* adds up to 1: axis=-1, keepdims=True.",
        ),
        Mistake(
            _limited,
            "Cutting scores off at a limit changes the weights of all that lie above it. Subtract the largest instead.",
        ),
    ),
    hints=(
        "Three lines of defence: subtract the row's maximum, add up in float32, and go back to 16 bits at the end.",
        "top = tf.reduce_max(scores, axis=-1, keepdims=True); the same keepdims for the sum.",
        "Cast to tf.float32 first and to scores.dtype last; between them everything is allowed.",
    ),
    rtol=0.02,
    atol=1e-6,
    trains=True,
    insight="The weights themselves are harmless in 16 bits. The sum is not: it is as large as the row is long, and "
    "nobody sees it.",
)
