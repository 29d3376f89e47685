"""How many bytes an optimizer remembers: read from itself if it is built, else found out on a tiny stand-in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_SHAPE = (2, 3)


def optimizer_bytes(optimizer: Any, variables: Sequence[Any], tool: str) -> tuple[str, int]:
    """The optimizer's name, and the bytes of what it remembers for each of the variables, counters left out.

    Args:
        optimizer: a Keras optimizer, its name, or None.
        variables: the trainable variables.
        tool: name of the tool, for the sentence.

    Raises:
        ValueError: if `optimizer` is no optimizer.
    """
    import keras

    if optimizer is None:
        return "", 0
    try:
        optimizer = keras.optimizers.get(optimizer)
    except Exception:
        raise ValueError(f"{tool} knows no optimizer {optimizer!r}: give a Keras optimizer or its name.") from None
    kind = type(getattr(optimizer, "inner_optimizer", optimizer)).__name__
    if optimizer.built:
        return kind, sum(_size(v) for v in optimizer.variables if len(v.shape))
    return kind, sum(_slots(optimizer, v) for v in variables)


def _slots(optimizer: Any, variable: Any) -> int:
    """What a fresh optimizer of that kind remembers for a variable, measured on a small one of the same dtype."""
    import keras

    fresh = type(optimizer).from_config(optimizer.get_config())
    dtype = keras.backend.standardize_dtype(variable.dtype)
    fresh.build([keras.Variable(keras.ops.zeros(_SHAPE, dtype), dtype=dtype)])
    remembered = sum(_size(v) for v in fresh.variables if len(v.shape))
    return round(remembered / math.prod(_SHAPE) * math.prod(variable.shape))


def _size(variable: Any) -> int:
    import tensorflow as tf

    return int(math.prod(variable.shape)) * tf.as_dtype(variable.dtype).size
