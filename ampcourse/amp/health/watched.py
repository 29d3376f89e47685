"""What is watched: variables with their dtypes, and the counters of an optimizer, of Keras 3 or of tf_keras."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.numerics import get_format

NO_WEIGHTS = (
    "The model has no weights yet, so there is nothing to watch: call it once on a batch, or give it an Input, before "
    "monitor.attach."
)


@dataclass(frozen=True)
class Watched:
    """One trainable variable.

    Attributes:
        name: its path in the model.
        shape: its shape.
        dtype: the dtype it is stored in.
        compute: the compute dtype of the layer that owns it.
        kernel: whether it is a matrix or more: only those speak of underflow, since the gradient of a bias or of a
            normalization's scale may rightly be zero (a bias before a normalization, the bias of an attention key),
            and so may most rows of an embedding.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    compute: str
    kernel: bool

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    @property
    def least_normal(self) -> float:
        """The least number that has the full precision of the compute dtype."""
        return _format_of(self.compute).least_normal

    @property
    def flushes_at(self) -> float:
        """The largest absolute value that rounds to zero in the compute dtype; 0.0 where float32 cannot hold it."""
        half = _format_of(self.compute).least_subnormal / 2
        return half if half >= 2.0**-126 else 0.0

    @property
    def unit_roundoff(self) -> float:
        """Of the dtype that the variable is stored in, since that is where an update is added."""
        return _format_of(self.dtype).unit_roundoff


def _format_of(dtype: str) -> Any:
    return get_format("float32" if dtype == "float64" else dtype)


def is_float(dtype: str) -> bool:
    """Whether it is a floating-point dtype that a variable can have."""
    return dtype in ("float16", "bfloat16", "float32", "float64")


def trainable(source: Any) -> list[Any]:
    """The trainable variables of a model, or those given.

    Raises:
        ValueError: if there are none, or it is neither a model nor a collection of variables.
    """
    try:
        found = getattr(source, "trainable_variables", None)
    except ValueError:  # tf_keras
        raise ValueError(NO_WEIGHTS) from None
    if found is not None:
        found, where = list(found), "The model has no trainable variables"
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes | dict):
        found, where = list(source), "The list of variables is empty"
    else:
        raise ValueError(
            f"monitor.attach needs a model or a list of variables as its second argument, not {type(source).__name__}."
        )
    if not found and not getattr(source, "built", True):
        raise ValueError(NO_WEIGHTS)
    if not found:
        raise ValueError(f"{where}, so there is nothing to watch.")
    if wrong := [v for v in found if not hasattr(v, "assign") or not hasattr(v, "shape")]:
        raise ValueError(f"monitor.attach was given something that is no variable: {type(wrong[0]).__name__}.")
    if odd := [v for v in found if not is_float(dtype_of(v))]:
        raise ValueError(
            f"The variable '{odd[0].name}' is of dtype {dtype_of(odd[0])}, which has no gradients: leave it out of the "
            "list, or make it not trainable."
        )
    return found


def check_gradients(gradients: Any, expected: list[Watched]) -> list[Any]:
    """The gradients as a list.

    Raises:
        ValueError: if they do not fit the variables.
    """
    if not isinstance(gradients, Sequence) or isinstance(gradients, str | bytes):
        raise ValueError(f"monitor.record needs the list of gradients, not {type(gradients).__name__}.")
    if len(gradients) != len(expected):
        raise ValueError(
            f"monitor.record got {len(gradients):,} gradients for {len(expected):,} variables: give one a "
            "variable, in the order given to monitor.attach, and None where there is none."
        )
    if all(gradient is None for gradient in gradients):
        raise ValueError("All gradients are None: the loss does not depend on any watched variable.")
    for gradient, variable in zip(gradients, expected, strict=True):
        if gradient is not None:
            _check_gradient(gradient, variable)
    return list(gradients)


def _check_gradient(gradient: Any, variable: Watched) -> None:
    import tensorflow as tf

    if not hasattr(gradient, "shape") or not hasattr(gradient, "dtype"):
        raise ValueError(
            f"The gradient for '{variable.name}' is a {type(gradient).__name__}, not a tensor: give the gradients "
            "alone, as the tape gives them."
        )
    if not is_float(dtype := dtype_of(gradient)):
        raise ValueError(
            f"The gradient for '{variable.name}' is of dtype {dtype}, but gradients are floating-point numbers."
        )
    if not tf.TensorShape(gradient.shape).is_compatible_with(variable.shape):
        raise ValueError(
            f"The gradient for '{variable.name}' has shape {tuple(gradient.shape)}, but the variable {variable.shape}: "
            "give the gradients in the order given to monitor.attach."
        )


def describe(source: Any, variables: list[Any], scaled: bool) -> list[Watched]:
    """Each variable with its dtypes; without a model the compute dtype is float16 where the loss is scaled."""
    owners = _owners(source)
    described = []
    for variable in variables:
        dtype = dtype_of(variable)
        guess = "float16" if scaled and dtype == "float32" else dtype
        compute, kind = owners.get(key(variable), (guess if not owners else dtype, ""))
        shape = tuple(int(n) for n in variable.shape)
        name = str(getattr(variable, "path", variable.name))
        described.append(
            Watched(
                name, shape, dtype, compute if is_float(compute) else dtype, len(shape) > 1 and "Embedding" not in kind
            )
        )
    return described


def dtype_of(variable: Any) -> str:
    """The name of a variable's dtype, of Keras 3 or of TensorFlow."""
    dtype = variable.dtype
    return dtype if isinstance(dtype, str) else dtype.name


def tensorflow_variable(variable: Any) -> Any:
    """The TensorFlow variable in a Keras 3 variable, or what was given: there `value` is a method."""
    inner = getattr(variable, "value", variable)
    return variable if callable(inner) else inner


def key(variable: Any) -> int:
    """What a Keras variable and the TensorFlow variable in it have in common."""
    return id(tensorflow_variable(variable))


def _owners(source: Any) -> dict[int, tuple[str, str]]:
    """Compute dtype and class by variable: of the layer that made it, not of the models around that layer."""
    if not hasattr(source, "_flatten_layers"):
        return {}
    owners: dict[int, tuple[str, str]] = {}
    for layer in source._flatten_layers():
        compute = getattr(layer, "compute_dtype", None)
        for variable in (
            getattr(layer, "_trainable_variables", None) or getattr(layer, "_trainable_weights", None) or ()
        ):
            if compute:
                owners[key(variable)] = compute, type(layer).__name__
    return owners


class Counters:
    """Loss scale and number of applied steps of an optimizer, however many loss scalers are around it."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer, self.scalers, self.inner = optimizer, [], optimizer
        while (inner := getattr(self.inner, "inner_optimizer", None)) is not None:
            self.scalers.append(self.inner)
            self.inner = inner
        fixed = getattr(self.inner, "loss_scale_factor", None)
        self.fixed = float(fixed) if fixed else 1.0
        self.accumulates = int(getattr(self.inner, "gradient_accumulation_steps", None) or 1)

    @property
    def dynamic(self) -> bool:
        """Whether there is a loss scaler, which skips steps that are not finite."""
        return bool(self.scalers)

    @property
    def scaled(self) -> bool:
        """Whether gradients arrive scaled at all."""
        return self.dynamic or self.fixed != 1.0

    @property
    def counts_skips(self) -> bool:
        """Whether `iterations` goes on at a skipped step, as in tf_keras: then skipped is what was not finite."""
        return self.dynamic and not hasattr(self.scalers[0], "dynamic_scale")

    @property
    def growth_steps(self) -> int:
        """Good steps after which the scale doubles."""
        return int(getattr(self.scalers[0], "dynamic_growth_steps", 2000) or 2000) if self.scalers else 0

    @property
    def learning_rate(self) -> float | None:
        """As it is now, None where the optimizer has none that can be read."""
        try:
            return float(np.asarray(self.inner.learning_rate))
        except (AttributeError, TypeError, ValueError, NotImplementedError):
            return None

    def scale(self) -> Any:
        """The scale of this step's gradients, a float32 tensor."""
        import tensorflow as tf

        total = tf.constant(self.fixed, tf.float32)
        for scaler in self.scalers:
            one = scaler.dynamic_scale if hasattr(scaler, "dynamic_scale") else scaler.loss_scale
            total *= tf.cast(tf.convert_to_tensor(tensorflow_variable(one)), tf.float32)
        return total

    def applied(self) -> Any:
        """The number of steps applied so far, an int64 tensor; a step that only accumulates counts."""
        import tensorflow as tf

        count = getattr(self.inner, "_iterations", None)
        count = self.inner.iterations if count is None else count
        return tf.cast(tf.convert_to_tensor(tensorflow_variable(count)), tf.int64)
