"""Observers of lesson 08: what a function makes of tensors in a given dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_SHOWN, _PARTS = 24, 8
_LONG = 2_000
"""More numbers than this are told by some of them, and by the sums of their parts."""


def in_dtype(answer: Callable, dtype: str, *arrays: Any) -> dict[str, Any]:
    """Call the answer with tensors: floats in `dtype`, booleans as they are.

    Reports dtype and shape of the result and, of a shape that is asked for, its numbers: all of them, or of a long
    result the first ones of each row and the sums over parts of the rows.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    tensors = [tf.constant(a) if a.dtype == bool else tf.cast(tf.constant(a), dtype) for a in map(np.asarray, arrays)]
    result = tf.convert_to_tensor(answer(*tensors))
    facts = {"dtype": keras.backend.standardize_dtype(result.dtype), "shape": [int(side) for side in result.shape]}
    if not 0 < np.prod(facts["shape"]) <= 10 * _LONG**2 or result.dtype == tf.string:
        return facts
    values = keras.ops.convert_to_numpy(keras.ops.cast(result, "float64")).astype(np.float64)
    if values.size <= _LONG:
        return facts | {"values": values}
    rows = values.reshape(-1, values.shape[-1])
    sums = [part.sum(axis=1) for part in np.array_split(rows, _PARTS, axis=1)]
    return facts | {"first values of each row": rows[:, :_SHOWN], "sums over eighths of each row": np.array(sums).T}
