"""Exercise 3: attention weights with a mask, right in every dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.nan_clinic import train_masked


def _inputs(rng: np.random.Generator) -> Inputs:
    length, features = int(rng.integers(4, 8)), int(rng.integers(3, 6))

    def run(policy: str, size: float = 1.0, empty: bool = False, bias: float = 0.0) -> tuple:
        """Batches of 8 texts; `bias` brings all scores down by about so much."""
        query = rng.normal(size=features).astype(np.float32)
        tokens = (rng.normal(size=(4, 8, length, features)) * size).astype(np.float32)
        targets = rng.normal(size=(4, 8, features)).astype(np.float32)
        if bias:
            tokens[..., 0], query[0] = bias, -32.0
            targets[..., 0] = bias  # so that this feature has no error of its own
        mask = (np.arange(length) < rng.integers(2, length, (4, 8, 1))).astype(np.float32)
        if empty:
            mask[:, int(rng.integers(8))] = 0
        return policy, tokens, mask, targets, query, 0.0 if bias else 0.1  # near -16,000 a score is a multiple of 8

    return {
        "texts under mixed_float16": run("mixed_float16"),
        "texts without a token": run("mixed_float16", empty=True),
        "scores far below zero": run("mixed_float16", bias=float(rng.uniform(400, 600))),
        "texts under float32": run("float32"),
    }


def _weights(
    low: Callable[[Any], Any] = lambda dtype: dtype.min,
    after: Callable[[Any, Any], Any] = lambda alpha, mask: alpha * mask,
    keep: Callable[[Any], Any] = lambda mask: mask > 0,
) -> Callable[[Any, Any], Any]:
    """Fill, softmax, and what is done afterwards: each open to a mistake."""

    def masked_weights(scores: Any, mask: Any) -> Any:
        import tensorflow as tf

        filled = tf.where(keep(mask), scores, tf.cast(low(scores.dtype), scores.dtype))
        return after(tf.nn.softmax(filled), mask)

    return masked_weights


def _in_float32(scores: Any, mask: Any) -> Any:
    import tensorflow as tf

    wide = tf.cast(scores, tf.float32) + (1 - tf.cast(mask, tf.float32)) * -1e9
    return tf.cast(tf.nn.softmax(wide) * tf.cast(mask, tf.float32), scores.dtype)


def _by_keras(scores: Any, mask: Any) -> Any:
    import keras
    import tensorflow as tf

    there = tf.cast(mask, tf.bool)
    weights = keras.layers.Softmax(dtype="float32")(tf.cast(scores, tf.float32), mask=there)
    return tf.where(there, tf.cast(weights, scores.dtype), tf.zeros_like(scores))


def _by_shares(scores: Any, mask: Any) -> Any:
    import tensorflow as tf

    s, m = tf.cast(scores, tf.float32), tf.cast(mask, tf.float32)
    top = tf.stop_gradient(tf.reduce_max(tf.where(m > 0, s, -1e30), axis=-1, keepdims=True))
    e = tf.exp(tf.where(m > 0, s - top, 0.0)) * m
    return tf.cast(e / tf.maximum(tf.reduce_sum(e, axis=-1, keepdims=True), 1e-30), scores.dtype)


def _added(constant: float) -> Callable[[Any, Any], Any]:
    def masked_weights(scores: Any, mask: Any) -> Any:
        import tensorflow as tf

        return tf.nn.softmax(scores + (1 - mask) * constant) * mask

    return masked_weights


def _own_shares(scores: Any, mask: Any) -> Any:
    """Dividing by the sum, with an epsilon that float16 does not hold."""
    import tensorflow as tf

    e = tf.exp(scores - tf.reduce_max(scores, axis=-1, keepdims=True)) * mask
    return e / (tf.reduce_sum(e, axis=-1, keepdims=True) + tf.cast(1e-8, e.dtype))


def _wide(scores: Any, mask: Any) -> Any:
    import tensorflow as tf

    return _in_float32(tf.cast(scores, tf.float32), mask)


masked_weights = Exercise(
    id="nan_clinic.masked_weights",
    inputs=_inputs,
    observer=train_masked,
    right=_weights(),
    points={
        "texts under mixed_float16": 1,
        "texts without a token": 1,
        "scores far below zero": 1,
        "texts under float32": 1,
    },
    also_right=(_in_float32, _by_keras, _by_shares, _added(-1e4)),
    mistakes=(
        Mistake(
            _added(-1e9),
            "-1e9 is minus infinity in float16, and (1 - mask) * -inf is NaN wherever the mask is 1. Choose with "
            "tf.where instead of multiplying, or compute in float32.",
        ),
        Mistake(
            _weights(low=lambda dtype: -1e4),
            "-1e4 fits into float16, but filling with it is not low enough once scores themselves lie below it: masked "
            "tokens take all the weight. Fill with scores.dtype.min.",
        ),
        Mistake(
            _weights(after=lambda alpha, mask: alpha),
            "A text without any token gets equal weights everywhere: all its scores are the same. Multiply the weights "
            "by the mask.",
        ),
        Mistake(
            _weights(low=lambda dtype: -np.inf),
            "Filled with minus infinity, a text without any token gives NaN: softmax subtracts the largest score, and "
            "-inf - -inf is NaN. Fill with the lowest finite number.",
        ),
        Mistake(
            _weights(low=lambda dtype: 0),
            "A score of 0 does not mean no weight: exp(0) is 1. Masked scores must be so low that exp gives 0.",
        ),
        Mistake(
            lambda scores, mask: _weights(keep=lambda m: m >= 0)(scores, mask),
            "You take masked tokens out after the softmax only, so what they had is missing from the rest: weights of "
            "a text must add up to 1.",
        ),
        Mistake(
            _own_shares,
            "You divide by the sum of what is there, and a text without a token has a sum of 0. An epsilon such as "
            "1e-8 is 0 in float16 as well, so it gives 0 / 0: use softmax, or divide in float32.",
        ),
        Mistake(
            _wide,
            "Right weights, but you return float32: everything behind this layer would be promoted to float32. Cast "
            "back to scores.dtype.",
        ),
        Mistake(
            _weights(keep=lambda mask: mask == 0, after=lambda alpha, mask: alpha * (1 - mask)),
            "The mask is the wrong way round: 1 says that there is a token, 0 that there is none.",
        ),
    ),
    hints=(
        "Choosing is safer than adding: tf.where(mask > 0, scores, something low).",
        "The lowest finite number of any dtype is scores.dtype.min.",
        "For texts without a token, multiply the weights by the mask at the end.",
    ),
    rtol=0.05,
    atol=4e-3,
    trains=True,
    insight="A constant belongs to a format. `dtype.min` asks the tensor for it, so the same line is right in float32, "
    "float16 and bfloat16.",
)
