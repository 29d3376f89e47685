"""Exercise 4: a masked softmax that is right in every format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.policies import softmax_in


def _inputs(rng: np.random.Generator) -> Inputs:
    """The largest score of every row is masked, and rows lie far from 0: leaks and overflow show."""

    def question(dtype: str, nothing_allowed: bool = False) -> tuple:
        rows, columns = int(rng.integers(3, 5)), int(rng.integers(5, 8))
        scores = rng.normal(0, 1.5, (rows, columns)) + rng.choice([-200.0, 0.0, 150.0], (rows, 1))
        mask = rng.random((rows, columns)) < 0.6
        places = np.array([rng.permutation(columns)[:3] for _ in range(rows)])
        for row, (top, *kept) in enumerate(places):
            scores[row, top], mask[row, top], mask[row, kept] = scores[row].max() + 4, False, True
        if nothing_allowed:
            mask[0] = False
        return dtype, np.round(scores * 8).astype(np.float32) / 8, mask

    return {
        "float16": question("float16"),
        "bfloat16": question("bfloat16"),
        "float32 and float64": question(str(rng.choice(["float32", "float64"]))),
        "a row with nothing allowed": question("float16", nothing_allowed=True),
    }


def _right(scores: Any, mask: Any) -> Any:
    import keras
    import tensorflow as tf

    wide = keras.ops.cast(scores, keras.backend.result_type(scores.dtype, "float32"))
    wide = tf.where(mask, wide, wide.dtype.min)
    p = tf.where(mask, tf.nn.softmax(wide, axis=-1), 0)
    return tf.cast(p, scores.dtype)


def _without_constants(scores: Any, mask: Any) -> Any:
    import tensorflow as tf

    wide = tf.cast(scores, tf.float64)
    allowed = tf.cast(mask, tf.float64)
    terms = allowed * tf.exp(tf.minimum(wide - _highest(wide, mask), 0))
    return tf.cast(tf.math.divide_no_nan(terms, tf.reduce_sum(terms, -1, keepdims=True)), scores.dtype)


def _highest(wide: Any, mask: Any) -> Any:
    import tensorflow as tf

    top = tf.reduce_max(tf.where(mask, wide, wide.dtype.min), -1, keepdims=True)
    return tf.maximum(top, -1e300)


def _in_its_own_format(scores: Any, mask: Any) -> Any:
    import tensorflow as tf

    p = tf.nn.softmax(tf.where(mask, scores, scores.dtype.min), axis=-1)
    return p * tf.cast(tf.reduce_any(mask, -1, keepdims=True), p.dtype)


def _adds(constant: float, inverted: bool = False) -> Callable:
    """What is written everywhere: a large negative number, added where the mask is 0."""

    def masked_softmax(scores: Any, mask: Any) -> Any:
        import tensorflow as tf

        masked = tf.cast(mask if inverted else ~mask, scores.dtype)
        return tf.nn.softmax(scores + masked * tf.cast(constant, scores.dtype), axis=-1)

    return masked_softmax


def _where(constant: str) -> Callable:
    def masked_softmax(scores: Any, mask: Any) -> Any:
        import tensorflow as tf

        low = tf.constant(-np.inf if constant == "-inf" else float(scores.dtype.min), scores.dtype)
        return tf.nn.softmax(tf.where(mask, scores, low), axis=-1)

    return masked_softmax


def _masks_afterwards(scores: Any, mask: Any) -> Any:
    import tensorflow as tf

    return tf.nn.softmax(scores, axis=-1) * tf.cast(mask, scores.dtype)


def _without_maximum(scores: Any, mask: Any) -> Any:
    import tensorflow as tf

    terms = tf.exp(tf.cast(scores, tf.float32)) * tf.cast(mask, tf.float32)
    total = tf.reduce_sum(terms, -1, keepdims=True)
    return tf.cast(terms / total, scores.dtype)


def _multiplies_scores(scores: Any, mask: Any) -> Any:
    import tensorflow as tf

    return tf.nn.softmax(scores * tf.cast(mask, scores.dtype), axis=-1)


def _in_float32(scores: Any, mask: Any) -> Any:
    import tensorflow as tf

    return _right(tf.cast(scores, tf.float32), mask)


masked_softmax = Exercise(
    id="policies.masked_softmax",
    inputs=_inputs,
    observer=softmax_in,
    right=_right,
    points={"float16": 2, "bfloat16": 1, "float32 and float64": 1, "a row with nothing allowed": 1},
    also_right=(_without_constants, _in_its_own_format),
    mistakes=(
        Mistake(
            _adds(-1e9),
            "-1e9 does not exist in float16: it becomes -infinity, and 0 × infinity is NaN wherever the mask is True. "
            "Choose with tf.where instead of multiplying, and take the constant from the format: scores.dtype.min.",
        ),
        Mistake(
            _where("-inf"),
            "A row of nothing but -infinity gives NaN. Take the lowest finite number, scores.dtype.min, and set rows "
            "in which nothing is allowed to 0.",
        ),
        Mistake(
            _where("min"),
            "Where nothing is allowed, all scores are equally low and the softmax shares 1 out among them. Such a "
            "row should be all 0.",
        ),
        Mistake(
            _adds(-100.0),
            "The masked positions still get a share: -100 fits into every format, but so do scores that are higher "
            "by 100. Nothing below dtype.min is safe, so choose that.",
        ),
        Mistake(
            _masks_afterwards,
            "You mask after the softmax, so what is left of a row no longer adds up to 1. Mask the scores, before it.",
        ),
        Mistake(
            _without_maximum,
            "exp overflows for scores above 88, even in float32, and is 0 below -104. Subtract the row's maximum "
            "first, or let tf.nn.softmax do it.",
        ),
        Mistake(
            _multiplies_scores,
            "A masked score of 0 is not out of the race: exp(0) is 1. It has to be the lowest number there is.",
        ),
        Mistake(
            _in_float32,
            "The values are right, but the result is float32 whatever the scores were: cast it back to scores.dtype.",
        ),
        Mistake(
            _adds(-1e4, inverted=True),
            "You mask what is allowed. True means: this position may be looked at.",
        ),
    ),
    hints=(
        "tf.where(mask, scores, lowest) needs no multiplication, so no 0 × infinity can arise.",
        "Cast the scores to at least float32 first: keras.backend.result_type(scores.dtype, 'float32') leaves "
        "float64 alone. Its lowest finite number is wide.dtype.min.",
        "tf.where(mask, softmax, 0) at the end empties the rows in which nothing is allowed; then cast back.",
    ),
    atol=0.02,  # a softmax computed in bfloat16 itself is coarse, not wrong
    insight="A constant belongs to a format. Ask the format for it (dtype.min, or keras.ops.finfo), and never "
    "multiply by a number that may be infinite.",
)
