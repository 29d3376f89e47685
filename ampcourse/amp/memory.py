"""`kept_for_backward`: how many bytes a training step keeps between forward and backward pass, and in which dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ampcourse.amp.dtypes_inputs import call_arguments, checked_layer, failed
from ampcourse.amp.dtypes_trace import FLOATS
from ampcourse.amp.memory_state import optimizer_bytes
from ampcourse.amp.memory_trace import KeptTensor, trace_step
from ampcourse.amp.reasons import essence
from ampcourse.amp.tables import html_table, text_table

_TOOL = "kept_for_backward"
_COLUMNS = ("What", "Dtype", "Tensors", "For each sample", "Whatever the batch", "Together")


@dataclass(frozen=True, repr=False)
class Kept:
    """What the memory of a training step holds, apart from what comes and goes; prints as text, shows as a table.

    Attributes:
        name: of the model or function.
        policy: the model's own dtype policy; "" for a function.
        batch: the batch size that was counted.
        tensors: the float tensors that forward makes and backward reads, in the order in which they are made.
        variables: bytes of all variables.
        gradients: bytes of the gradients.
        slots: bytes of the optimizer's memory; 0 without an optimizer.
        optimizer: its name; "" without one.
        unknown: kept tensors that are not counted, since the graph does not tell their size (the lists of a loop).
        uneven: names of kept tensors whose size is not proportional to the batch, counted as if it were.
    """

    name: str
    policy: str
    batch: int
    tensors: tuple[KeptTensor, ...]
    variables: int
    gradients: int
    slots: int = 0
    optimizer: str = ""
    unknown: int = 0
    uneven: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Bytes kept for backward at this batch size."""
        return sum(x.bytes for x in self.tensors)

    @property
    def by_dtype(self) -> dict[str, int]:
        """Bytes kept for backward at this batch size, by dtype, narrow dtypes first."""
        sums = {dtype: sum(x.bytes for x in self.tensors if x.dtype == dtype) for dtype in FLOATS}
        return {dtype: size for dtype, size in sums.items() if size}

    @property
    def fixed(self) -> int:
        """Bytes kept for backward that are the same for every batch size, such as 16-bit copies of weights."""
        return sum(x.bytes for x in self.tensors if not x.grows)

    @property
    def for_each_sample(self) -> float:
        """Bytes kept for backward that each sample of the batch adds."""
        return (self.total - self.fixed) / self.batch

    @property
    def state(self) -> int:
        """Bytes of variables, gradients and optimizer slots together: no batch and no mixed policy changes them."""
        return self.variables + self.gradients + self.slots

    def at(self, batch: int) -> int:
        """Bytes for another batch size: kept tensors and state together."""
        return round(self.state + self.fixed + batch * self.for_each_sample)

    def largest_batch(self, memory: float) -> int:
        """The largest batch whose kept tensors and state fit into `memory` bytes; 0 if none does.

        An upper bound: workspace of the kernels, tensors that live for a moment and the data pipeline come on top.

        Raises:
            ValueError: if `memory` is no positive number, or nothing grows with the batch.
        """
        if not (isinstance(memory, int | float) and math.isfinite(memory) and memory > 0):
            raise ValueError(f"memory is a positive number of bytes, such as 16e9, not {memory!r}.")
        if not self.for_each_sample:
            raise ValueError(f"Nothing that {self.name!r} keeps grows with the batch, so every batch fits.")
        return max(0, int((memory - self.state - self.fixed) // self.for_each_sample))

    def largest(self, count: int = 5) -> tuple[KeptTensor, ...]:
        """The kept tensors that take most bytes."""
        return tuple(sorted(self.tensors, key=lambda x: -x.bytes)[:count])

    @property
    def caption(self) -> str:
        """One line above the table."""
        policy = f", whose own policy is {self.policy}" if self.policy else ""
        caption = f"Memory of a training step of {self.name!r}{policy}, for a batch of {self.batch:,}"
        if self.unknown:
            caption += f"; {self.unknown} kept tensors are not counted, since the graph does not tell their size"
        if self.uneven:
            caption += f"; {len(self.uneven)} kept tensors are not proportional to the batch, such as {self.uneven[0]}"
        return caption

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The rows as shown."""
        rows = [self._kept_row(dtype) for dtype in self.by_dtype]
        each, fixed = in_words(self.for_each_sample), in_words(self.fixed)
        rows.append(("kept for backward", "together", str(len(self.tensors)), each, fixed, in_words(self.total)))
        named = f"slots of {self.optimizer}" if self.optimizer else "slots (no optimizer given)"
        parts = {"variables": self.variables, "gradients": self.gradients, named: self.slots}
        rows += [(what, "", "", "", in_words(size), in_words(size)) for what, size in parts.items()]
        rows.append(("all", "", "", each, in_words(self.fixed + self.state), in_words(self.total + self.state)))
        return tuple(rows)

    def _kept_row(self, dtype: str) -> tuple[str, ...]:
        mine = [x for x in self.tensors if x.dtype == dtype]
        total, fixed = sum(x.bytes for x in mine), sum(x.bytes for x in mine if not x.grows)
        each = in_words((total - fixed) / self.batch)
        return ("kept for backward", dtype, str(len(mine)), each, in_words(fixed), in_words(total))

    def __str__(self) -> str:
        return f"{self.caption}\n{text_table(_COLUMNS, self.rows)}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.caption, _COLUMNS, self.rows)


def in_words(size: float) -> str:
    """A number of bytes as people say it, in powers of 1,024: `"34.0 GiB"`."""
    for unit in ("bytes", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def kept_for_backward(
    model_or_fn: Any, sample: Any, loss: Callable[..., Any] | None = None, *, optimizer: Any = None
) -> Kept:
    """How many bytes of float tensors the forward pass makes and the backward pass reads, by dtype.

    A training step is traced, for the batch and for one of twice the size, and read; nothing is run, and the count is
    the same on every machine. It is the count before any compiler: XLA may recompute a tensor instead of keeping it,
    and kernels need workspace besides.

    Args:
        model_or_fn: a Keras 3 model or layer on the TensorFlow backend, or a function of the sample that returns
            tensors and uses `tf.Variable`s.
        sample: a batch: arrays or tensors with the batch first, in the structure that the model takes, or
            `tf.TensorSpec`s of fixed shape, for which no memory is needed. With a `loss`, a pair `(x, y)`.
        loss: a function `loss(y, prediction)`, such as a Keras loss; without one, the outputs are averaged.
        optimizer: a Keras optimizer or its name, such as `"adam"`, whose memory is counted; the model's own if it is
            compiled.

    Raises:
        TypeError: if `model_or_fn` is neither a Keras 3 model or layer nor a function.
        ValueError: if the sample does not fit, or the step cannot be traced.
    """
    from ampcourse import quietly

    with quietly():  # TensorFlow's first use, and what the model itself prints
        is_layer = _is_layer(model_or_fn)
        if is_layer:
            checked_layer(model_or_fn, _TOOL)
        if loss is not None and not (isinstance(sample, tuple | list) and len(sample) == 2):
            raise ValueError(f"{_TOOL} needs a pair (x, y) as its sample where there is a loss, one batch of each.")
        sample, batch = _checked_sample(sample)
        if is_layer:
            call_arguments(model_or_fn, _first(sample[0] if loss is not None else sample), _TOOL)
        name = str(getattr(model_or_fn, "name", None) or getattr(model_or_fn, "__name__", type(model_or_fn).__name__))
        used: list[Any] = []
        try:
            traced = trace_step(_step(model_or_fn, loss, is_layer, used), lambda n: _specs(sample, batch, n), batch)
        except Exception as error:
            says = (
                failed(model_or_fn, _TOOL, error) if is_layer else f"{_TOOL} cannot trace {name!r}: {essence(error)}."
            )
            raise ValueError(says) from None
        variables = list(model_or_fn.weights) if is_layer else used
        trainable = list(model_or_fn.trainable_variables) if is_layer else used
        chosen = optimizer or getattr(model_or_fn, "optimizer", None)
        named, slots = optimizer_bytes(chosen, trainable, _TOOL)
    return Kept(
        name=name,
        policy=model_or_fn.dtype_policy.name if is_layer else "",
        batch=batch,
        tensors=traced.tensors,
        variables=sum(_size(v) for v in variables),
        gradients=traced.gradients,
        slots=slots,
        optimizer=named,
        unknown=traced.unknown,
        uneven=traced.uneven,
    )


def _is_layer(given: Any) -> bool:
    import keras

    if isinstance(given, type | keras.Layer) or not callable(given):
        return True  # what is neither is told so by the check for layers
    return type(given).__module__.partition(".")[0] in {"tf_keras"}


def _checked_sample(sample: Any) -> tuple[Any, int]:
    """The sample, with stand-ins that need no memory for `tf.TensorSpec`s, and its batch size."""
    import keras
    import numpy as np
    import tensorflow as tf

    def stand_in(x: Any) -> Any:
        if not isinstance(x, tf.TensorSpec):
            return x if hasattr(x, "shape") else np.asarray(x)
        if not x.shape.is_fully_defined():
            raise ValueError(f"{_TOOL} needs a fixed shape, batch included, but this TensorSpec has {x.shape}.")
        return np.broadcast_to(np.zeros((), x.dtype.as_numpy_dtype), tuple(x.shape))

    sample = keras.tree.map_structure(stand_in, sample)
    sizes = {int(x.shape[0]) for x in keras.tree.flatten(sample) if len(x.shape) and x.shape[0] is not None}
    if len(sizes) != 1 or min(sizes) < 1:
        found = " and ".join(map(str, sorted(sizes))) or "none"
        raise ValueError(f"{_TOOL} needs a sample whose arrays all have the batch first, of one size; found: {found}.")
    return sample, sizes.pop()


def _first(sample: Any) -> Any:
    """One sample of the batch, enough to check a model with or to build it."""
    import keras

    return keras.tree.map_structure(lambda x: x[:1] if len(x.shape) else x, sample)


def _specs(sample: Any, batch: int, wanted: int) -> Any:
    import keras
    import tensorflow as tf

    def spec(x: Any) -> Any:
        shape = (wanted, *x.shape[1:]) if len(x.shape) else ()
        return tf.TensorSpec(shape, tf.as_dtype(x.dtype))

    return keras.tree.map_structure(spec, sample)


def _step(model: Any, loss: Callable[..., Any] | None, is_layer: bool, used: list[Any]) -> Callable[..., Any]:
    """A training step as `fit` makes one: outputs, loss, penalties of the layers, gradients."""
    import keras
    import tensorflow as tf

    def step(given: Any, mark: Callable[[], None]) -> list[Any]:
        x, y = given if loss is not None else (given, None)
        with tf.GradientTape() as tape:
            given = x if isinstance(x, tuple) and not is_layer else (x,)
            outputs = model(*given, training=True) if is_layer else model(*given)
            value = tf.reduce_mean(loss(y, outputs)) if loss is not None else _mean_of(outputs)
            for penalty in model.losses if is_layer else ():
                value += tf.cast(penalty, value.dtype)
        mark()
        used[:] = tape.watched_variables()
        variables = [v.value for v in model.trainable_variables] if is_layer else used
        if not variables:
            raise ValueError("it uses no trainable variable, so there is no backward pass")
        return tape.gradient(value, variables)

    def _mean_of(outputs: Any) -> Any:
        floats = [x for x in keras.tree.flatten(outputs) if x.dtype.is_floating]
        return tf.add_n([tf.reduce_mean(tf.cast(x, tf.float32)) for x in floats])

    return step


def _size(variable: Any) -> int:
    import tensorflow as tf

    return int(math.prod(variable.shape)) * tf.as_dtype(variable.dtype).size
