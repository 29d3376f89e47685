"""Exercise 2: attention scores that do not overflow before they are scaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.vit import in_dtype


def _inputs(rng: np.random.Generator) -> Inputs:
    """Features whose number is no power of four, and different numbers of queries and keys."""

    def ordinary(dtype: str, features: int) -> tuple:
        query = rng.normal(size=(2, 3, features)) * rng.uniform(1.5, 2.5)
        return dtype, query.astype(np.float16).astype(np.float32), _like(rng, query, 5)

    def large(features: int) -> tuple:
        """Products from 80,000 to 330,000, which are 8,000 to 35,000 once scaled."""
        size = np.sqrt(rng.uniform(90_000, 300_000) / features)
        near = [size * rng.uniform(0.97, 1.03, (2, count, features)) for count in (3, 5)]
        return "float16", *[x.astype(np.float16).astype(np.float32) for x in near]

    return {
        "ordinary numbers in float16": ordinary("float16", int(rng.choice([20, 24, 40]))),
        "large numbers in float16": large(int(rng.choice([80, 96, 128]))),
        "ordinary numbers in bfloat16": ordinary("bfloat16", int(rng.choice([20, 24, 40]))),
    }


def _like(rng: np.random.Generator, query: np.ndarray, count: int) -> np.ndarray:
    """Keys that are near some query, so that scores are larger than their rounding."""
    chosen = query[:, rng.integers(query.shape[1], size=count)]
    return (chosen + rng.normal(size=chosen.shape)).astype(np.float16).astype(np.float32)


def _scores(
    before: Callable[[float], float] = lambda features: features**-0.5,
    after: Callable[[float], float] = lambda features: 1.0,
    wide: bool = False,
    out: str | None = None,
    turned: bool = False,
) -> Callable[[Any, Any], Any]:
    """The right answer, with each of its parts open to a mistake."""

    def scaled_scores(query: Any, key: Any) -> Any:
        import tensorflow as tf

        features, dtype = query.shape[-1], query.dtype
        q, k = (tf.cast(x, tf.float32 if wide else dtype) for x in (query, key))
        s = tf.matmul(q * tf.cast(before(features), q.dtype), k, transpose_b=True)
        s = tf.cast(s * tf.cast(after(features), s.dtype), out or dtype)
        return tf.transpose(s, (0, 2, 1)) if turned else s

    return scaled_scores


def _key_first(query: Any, key: Any) -> Any:
    import tensorflow as tf

    return tf.einsum("bqf,bkf->bqk", query, key / tf.cast(query.shape[-1] ** 0.5, key.dtype))


def _half_each(query: Any, key: Any) -> Any:
    import keras

    root = float(query.shape[-1]) ** -0.25
    return keras.ops.matmul(query * root, keras.ops.transpose(key * root, (0, 2, 1)))


def _as_written(query: Any, key: Any) -> Any:
    import tensorflow as tf

    return tf.matmul(query, key, transpose_b=True) / tf.cast(query.shape[-1] ** 0.5, query.dtype)


scaled_scores = Exercise(
    id="vit.scaled_scores",
    inputs=_inputs,
    observer=in_dtype,
    right=_scores(),
    points={"ordinary numbers in float16": 1, "large numbers in float16": 2, "ordinary numbers in bfloat16": 1},
    also_right=(_key_first, _half_each, _scores(lambda f: 1, lambda f: f**-0.5, wide=True)),
    mistakes=(
        Mistake(
            _as_written,
            "You divide after the product. By then it is infinite in float16 where numbers are large, and infinity "
            "divided by anything stays infinite: scale one of the two factors first.",
        ),
        Mistake(
            lambda query, key: _scores(lambda f: 1, lambda f: f**-0.5, wide=False, out="float32")(query, key),
            "You cast after the product and return float32. What float16 could not hold is lost by then, and the "
            "result should have the dtype of query: scale one of the two factors before they are multiplied.",
        ),
        Mistake(
            _scores(wide=True, out="float32"),
            "The values are right, but they are float32: return the dtype of query.",
        ),
        Mistake(
            _scores(lambda f: 1),
            "The scale is missing: each score is divided by the square root of the number of features.",
        ),
        Mistake(
            _scores(lambda f: 1 / f),
            "You divide by the number of features (or scale both factors by the root). Scores of random vectors grow "
            "with its square root: scale one factor, once.",
        ),
        Mistake(
            lambda query, key: _scores(lambda f: key.shape[1] ** -0.5)(query, key),
            "You take the root of the number of keys. What counts is how many products are added up for a score: the "
            "features, the last axis of query.",
        ),
        Mistake(
            _scores(turned=True),
            "Your result is turned: one row a query, one column a key.",
        ),
        Mistake(
            _scores(lambda f: f**0.5),
            "You multiply by the square root where it has to be divided by.",
        ),
    ),
    hints=(
        "tf.matmul(query, key, transpose_b=True) gives all products at once.",
        "The scale may be applied to one of the factors before the product: (c q) · k is the same as c (q · k).",
        "scale = query.shape[-1] ** -0.5; a Python number takes the dtype of the tensor that it multiplies.",
    ),
    rtol=0.02,
    atol=0.06,
    trains=True,
    insight="The final scores fit into float16; only what lay between did not. The order of two multiplications, which "
    "are the same in mathematics, decides.",
)
