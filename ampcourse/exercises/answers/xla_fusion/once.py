"""Exercise 5: a function that is traced once, whatever it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.xla_fusion import count_traces


def _inputs(rng: np.random.Generator) -> Inputs:
    """Calls with a batch and a number; some come twice."""

    def batch(size: int, dtype: str = "float32") -> np.ndarray:
        return rng.normal(size=(size, 4)).astype(dtype)

    def again(calls: list[tuple]) -> list[tuple]:
        return calls + calls[: int(rng.integers(1, 3))]

    sizes = [int(n) for n in rng.choice(np.arange(2, 40), 5, replace=False)]
    rates = [float(rate) for rate in rng.uniform(0.1, 2.0, 4)]
    same = float(rng.uniform(0.1, 2.0))
    return {
        "batches of many sizes": (again([(batch(n), same) for n in sizes]),),
        "other numbers": (again([(batch(sizes[0]), rate) for rate in rates]),),
        "batches of other dtypes": (again([(batch(3, d), 1.5) for d in ("float64", "float32", "float16")]),),
    }


def _specs(batch: int | None = None) -> list:
    import tensorflow as tf

    return [tf.TensorSpec([batch, 4], tf.float32), tf.TensorSpec([], tf.float32)]


def _function(fn: Callable, **options: Any) -> Callable:
    import tensorflow as tf

    return tf.function(fn, **options)


def _float32(value: Any) -> Any:
    import tensorflow as tf

    return tf.cast(value, tf.float32)


def _right(fn: Callable) -> Callable:
    compiled = _function(fn, input_signature=_specs())
    return lambda x, rate: compiled(_float32(x), _float32(rate))


def _with_xla(fn: Callable) -> Callable:
    """One trace; XLA compiles it for each batch size."""
    compiled = _function(fn, input_signature=_specs(), jit_compile=True)

    def call(x: Any, rate: Any) -> Any:
        return compiled(np.asarray(x, "float32"), np.float32(rate))

    return call


def _concrete(fn: Callable) -> Callable:
    concrete = _function(fn).get_concrete_function(*_specs())
    return lambda x, rate: concrete(_float32(x), _float32(rate))


def _only_batch_cast(fn: Callable) -> Callable:
    compiled = _function(fn)
    return lambda x, rate: compiled(_float32(x), rate)


def _only_rate_cast(fn: Callable) -> Callable:
    compiled = _function(fn)
    return lambda x, rate: compiled(x, _float32(rate))


def _both_cast(fn: Callable) -> Callable:
    compiled = _function(fn)
    return lambda x, rate: compiled(_float32(x), _float32(rate))


def _relaxed(fn: Callable) -> Callable:
    compiled = _function(fn, reduce_retracing=True)
    return lambda x, rate: compiled(_float32(x), _float32(rate))


traced_once = Exercise(
    id="xla_fusion.traced_once",
    inputs=_inputs,
    observer=count_traces,
    right=_right,
    points={"batches of many sizes": 2, "other numbers": 2, "batches of other dtypes": 1},
    also_right=(_with_xla, _concrete),
    mistakes=(
        Mistake(
            lambda fn: _function(fn),
            "A bare tf.function traces anew for every batch size, every dtype and every Python number. Say beforehand "
            "what may come: input_signature=[...].",
        ),
        Mistake(
            lambda fn: fn,
            "Python runs the function at every call: either you return it as it is, or you make a new tf.function each "
            "time, which begins with an empty cache. Make one, outside the function that you return.",
        ),
        Mistake(
            lambda fn: _function(fn, input_signature=_specs()),
            "The signature is right, but it refuses a float64 tensor. Cast to float32 before the call.",
        ),
        Mistake(
            _only_batch_cast,
            "The rate still goes in as a Python number, which is a constant of the program: make a tensor of it. And "
            "leave the batch size open with None in an input_signature.",
        ),
        Mistake(
            _only_rate_cast,
            "The rate is a tensor now, but the batch still brings its size and dtype along: cast it, and leave the "
            "batch size open with None in an input_signature.",
        ),
        Mistake(
            _both_cast,
            "Everything goes in as a float32 tensor, but each batch size still makes a trace: leave it open with None "
            "in an input_signature.",
        ),
        Mistake(
            _relaxed,
            "reduce_retracing=True learns from the second trace that the size may vary, so there are two. An "
            "input_signature says it beforehand.",
        ),
        Mistake(
            lambda fn: _function(fn, input_signature=_specs(8)),
            "Your signature fixes the batch size. Put None where any size may come.",
        ),
    ),
    hints=(
        "tf.function(fn, input_signature=[...]) traces once for all that fits the signature.",
        "The signature needs a tf.TensorSpec for each argument: tf.TensorSpec([None, 4], tf.float32) and "
        "tf.TensorSpec([], tf.float32).",
        "Return a small function that casts both arguments with tf.cast(..., tf.float32) and calls the compiled one.",
    ),
    rtol=1e-4,
    atol=1e-5,
    trains=True,
    insight="The signature is a contract: open sizes as None, numbers as tensors, one dtype. What does not fit is "
    "refused, so cast at the door, once.",
)
