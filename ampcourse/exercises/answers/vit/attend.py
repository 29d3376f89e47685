"""Exercise 4: attention with a mask, right in every float format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.vit import in_dtype

QUERIES, KEYS = 4, 6


def _inputs(rng: np.random.Generator) -> Inputs:
    """The best key of each query is forbidden, so that leaks show; values tell the keys apart."""

    def case(size: float = 1.0, features: int = 24) -> list[np.ndarray]:
        query, key = rng.normal(size=(2, QUERIES, features)), rng.normal(size=(2, KEYS, features))
        value = rng.normal(size=(2, KEYS, 5)) * 3 + np.arange(KEYS)[:, np.newaxis] * 2
        allowed = rng.random((2, QUERIES, KEYS)) < 0.5
        best = (query @ key.transpose(0, 2, 1)).argmax(-1)[..., np.newaxis]
        np.put_along_axis(allowed, best, False, axis=-1)
        np.put_along_axis(allowed, (best + rng.integers(1, KEYS)) % KEYS, True, axis=-1)
        query, key, value = (
            (x * s).astype(np.float16).astype(np.float32) for x, s in ((query, size), (key, 1), (value, 1))
        )
        return [query, key, value, allowed]

    def overflowing() -> list[np.ndarray]:
        """Products of 80,000 and more, for which 256 features give scores of at most 25,000, multiples of 256."""
        query, _, value, allowed = case(features=256)
        whole = rng.integers(2, 6, (2, KEYS, 1)) * np.ones((1, 1, 256))
        return [np.full_like(query, 64.0), (whole * 4).astype(np.float32), value, allowed]

    def below_zero(least: int) -> list[np.ndarray]:
        """Scores of -16 * least, and now and then 80 less: multiples of 16, which float16 holds down to -32,768."""
        query, key, value, allowed = case(features=16)
        query[...], key[...] = 0, 0
        query[..., 0], key[..., 0] = 64, -(least + rng.choice([0, 5], (2, KEYS)))
        return [query, key, value, allowed]

    def blind() -> list[np.ndarray]:
        query, key, value, allowed = below_zero(int(rng.integers(2, 6)))
        allowed[int(rng.integers(2)), int(rng.integers(QUERIES))] = False
        return [query, key, value, allowed]

    return {
        "float16": ("float16", *case(1.5)),
        "bfloat16 or float32": (str(rng.choice(["bfloat16", "float32"])), *case(1.5)),
        "products that overflow": ("float16", *overflowing()),
        "scores far below zero": ("float16", *below_zero(int(rng.integers(1000, 1400)))),
        "a query that may see nothing": ("float16", *blind()),
    }


def _attention(
    low: Callable[[Any], float] = lambda dtype: dtype.min,
    added: bool = False,
    after: Callable[[Any, Any], Any] = lambda weights, allowed: weights * allowed,
    wide: bool = True,
    late: bool = False,
    inverted: bool = False,
    out: str | None = None,
) -> Callable[..., Any]:
    """Scores, mask, softmax and what is done afterwards: each open to a mistake."""

    def attention(query: Any, key: Any, value: Any, allowed: Any) -> Any:
        import tensorflow as tf

        dtype, scale = query.dtype, query.shape[-1] ** -0.5
        if late:
            scores = tf.matmul(query, key, transpose_b=True) * tf.cast(scale, dtype)
        else:
            scores = tf.matmul(query * tf.cast(scale, dtype), key, transpose_b=True)
        scores = tf.cast(scores, tf.float32) if wide else scores
        there = ~allowed if inverted else allowed
        bottom = tf.cast(low(scores.dtype), scores.dtype)
        replaced = tf.where(there, scores, bottom)
        scores = scores + tf.cast(~there, scores.dtype) * bottom if added else replaced
        weights = after(tf.nn.softmax(scores), tf.cast(there, scores.dtype))
        return tf.cast(tf.matmul(tf.cast(weights, dtype), value), out or dtype)

    return attention


def _all_wide(query: Any, key: Any, value: Any, allowed: Any) -> Any:
    import tensorflow as tf

    q, k, v = (tf.cast(x, tf.float32) for x in (query, key, value))
    s = tf.einsum("bqf,bkf->bqk", q, k) / q.shape[-1] ** 0.5
    weights = tf.nn.softmax(s + tf.where(allowed, 0.0, -1e9))
    return tf.cast(tf.where(allowed, weights, 0.0) @ v, query.dtype)


def _by_keras(query: Any, key: Any, value: Any, allowed: Any) -> Any:
    import keras

    there = keras.ops.any(allowed, axis=-1, keepdims=True)
    q, k, v = (keras.ops.expand_dims(keras.ops.cast(x, "float32"), 2) for x in (query, key, value))
    seen = keras.ops.dot_product_attention(q, k, v, mask=keras.ops.expand_dims(allowed, 1))
    return keras.ops.cast(keras.ops.where(there, seen[:, :, 0], 0), query.dtype)


def _unshared(weights: Any, allowed: Any) -> Any:
    """What is left in a query that may see nothing stays."""
    return weights


attention = Exercise(
    id="vit.attention",
    inputs=_inputs,
    observer=in_dtype,
    right=_attention(),
    points={
        "float16": 1,
        "bfloat16 or float32": 1,
        "products that overflow": 1,
        "scores far below zero": 1,
        "a query that may see nothing": 2,
    },
    also_right=(_all_wide, _by_keras, _attention(wide=False)),
    mistakes=(
        Mistake(
            _attention(lambda dtype: -1e9, added=True, wide=False),
            "-1e9 is minus infinity in float16, and 0 times infinity is NaN, wherever a key *is* allowed. Choose with "
            "tf.where instead of multiplying.",
        ),
        Mistake(
            _attention(lambda dtype: dtype.min, added=True, wide=False),
            "A query that may see nothing has only minus infinities, and softmax, which subtracts the largest, gets "
            "-inf - -inf: NaN. Either you fill with -inf, or you *add* the lowest number to scores that are negative. "
            "Replace the score by the lowest finite number, with tf.where.",
        ),
        Mistake(
            _attention(lambda dtype: -1e4),
            "-10,000 fits into float16, but scores may lie below it, and then the forbidden keys get all the "
            "weight: fill with scores.dtype.min.",
        ),
        Mistake(
            _attention(after=_unshared),
            "A query that may see nothing gets the mean of all values: its scores are all the same, so softmax gives "
            "equal weights. Set the weights of forbidden keys to 0 after the softmax.",
        ),
        Mistake(
            _attention(late=True),
            "The product overflows before you scale it, and a cast to float32 afterwards cannot bring it back: scale "
            "the query first.",
        ),
        Mistake(
            _attention(lambda dtype: 0.0),
            "You give forbidden keys the score 0, not the weight 0: exp(0) is 1, and it takes its share from the rest.",
        ),
        Mistake(
            _attention(inverted=True),
            "The mask is the wrong way round: True says that the query may see the key.",
        ),
        Mistake(
            _attention(out="float32"),
            "The values are right, but they are float32: return the dtype of query.",
        ),
    ),
    hints=(
        "Four steps: scores (exercise 2), mask, softmax (exercise 3), and the product with value.",
        "tf.where(allowed, scores, scores.dtype.min) forbids; there is nothing to overflow in it.",
        "After the softmax, set the weights of forbidden keys to 0, then cast to the dtype of value and multiply.",
    ),
    rtol=0.02,
    atol=0.08,
    trains=True,
    insight="Three places decide: what is multiplied first, how the mask is put in, and in which dtype the softmax "
    "adds. Each is one line, and none of them fails in float32.",
)
