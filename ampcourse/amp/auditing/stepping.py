"""Tracing a training step: the user's own, or the `train_step` of a model that has its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.amp.auditing.accepted import Accepted
from ampcourse.amp.auditing.tracing import Trace, trace

_LIBRARIES = ("keras", "keras_hub")
_NOISE = ("in user code", "File ", "Arguments received", "Graph execution error", "Detected at node")


def step_of(given: Accepted) -> tuple[Callable, bool] | None:
    """The step to look at, and whether the user asked for that; None if Keras's own runs, which is right."""
    if given.step is not None:
        return given.step, True
    model = given.model
    own = [name for name in ("train_step", "compute_loss", "_compute_loss") if _is_own(model, name)]
    if not own:
        return None
    if getattr(model, "optimizer", None) is None:
        given.not_checked.append(f"{own[0]} of {model.name!r}: the model is not compiled.")
        return None
    if given.x is None:
        given.not_checked.append(f"{own[0]} of {model.name!r}: it can be traced only with sample=(x, y).")
        return None
    return model.train_step, False


def _is_own(model: Any, name: str) -> bool:
    method = getattr(type(model), name, None)
    return method is not None and getattr(method, "__module__", "keras").partition(".")[0] not in _LIBRARIES


def trace_step(given: Accepted, step: Callable, asked: bool) -> Trace | None:
    """Trace a step with the sample; `apply` is noted and not done.

    Raises:
        ValueError: if a step that was asked for cannot be traced.
    """
    import keras
    import tensorflow as tf

    specs = [_spec(x) for x in given.step_arrays]
    plain = getattr(step, "python_function", step)
    whole = not asked or _takes_one(plain)
    trouble: Exception | None = None
    # Keras keeps autograph out of `fit`, `tf.function` uses it: what fails as plain Python is tried with it.
    for function in (plain, _with_autograph(plain)):

        def call(*tensors: Any, function: Callable = function) -> Any:
            batch = keras.tree.pack_sequence_as(given.batch, list(tensors))
            whole_batch = whole or not isinstance(given.batch, tuple)
            result = function(batch) if whole_batch else function(*batch)
            return [x for x in tf.nest.flatten(result) if tf.is_tensor(x)]

        try:
            return trace(call, specs, given.model, until_applied=not asked)
        except Exception as error:  # whatever the user's code raises
            trouble = trouble or error
    said = _unbuilt(trouble) or first_line(trouble)
    if asked:
        raise ValueError(f"audit cannot trace the step: {said}.") from None
    given.not_checked.append(f"train_step of {given.model.name!r}: it cannot be traced ({said}).")
    return None


def _unbuilt(error: Exception | None) -> str:
    """A step that reads the loss scale itself, of a LossScaleOptimizer that has none yet; "" for other errors."""
    if not isinstance(error, AttributeError) or getattr(error, "name", "") not in ("dynamic_scale", "step_counter"):
        return ""
    return (
        f"it reads optimizer.{error.name}, which a LossScaleOptimizer has only once it is built; call "
        "optimizer.build(model.trainable_variables) first"
    )


def _spec(x: Any) -> Any:
    import tensorflow as tf

    dtype = x.dtype if tf.is_tensor(x) else np.asarray(x).dtype
    return tf.TensorSpec(np.shape(x), tf.as_dtype(dtype))


def _takes_one(function: Callable) -> bool:
    """Whether a step takes the batch as one argument."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(places) == 1 and not any(p.kind == p.VAR_POSITIONAL for p in parameters)


def _with_autograph(function: Callable) -> Callable:
    import tensorflow as tf

    return lambda *args: tf.autograph.to_graph(function)(*args)


def first_line(error: Exception | None) -> str:
    """An error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(_NOISE)]
    return f"{type(error).__name__}: {(told or lines or ['no message'])[0].rstrip('.:')[:300]}"
