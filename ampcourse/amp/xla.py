"""What XLA makes of a function: its program before and after optimisation."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ampcourse.amp import xla_tables, xla_words
from ampcourse.amp.xla_module import Fusion, HloModule, Instruction

__all__ = ["Fusion", "Hlo", "HloModule", "Instruction", "hlo"]


@dataclass(frozen=True, eq=False)
class Hlo:
    """A function as XLA sees it.

    Attributes:
        name: of the function.
        before: the module as TensorFlow hands it to XLA, one instruction for each small operation.
        after: the module that XLA compiles to machine code: fused, simplified, laid out for the device.
        device: what it is compiled for, "CPU" or "GPU".
    """

    name: str
    before: HloModule
    after: HloModule
    device: str

    @property
    def fusions(self) -> tuple[Fusion, ...]:
        """The fusions of the optimised module."""
        return self.after.fusions

    @cached_property
    def largest_fusion(self) -> Fusion | None:
        """The fusion that contains most operations; None where nothing was fused."""
        return max(self.fusions, key=lambda fusion: len(fusion.ops), default=None)

    def __str__(self) -> str:
        return xla_tables.as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return xla_tables.as_html(self)


def hlo(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Hlo:
    """Compile a function with XLA, without running it, and return its program before and after optimisation.

    Nothing is executed and no value changes; a Keras model or an optimizer that is not built yet is built. The
    function is traced once more than before.

    Args:
        fn: a function, a `tf.function` (with `jit_compile` or without), a `ConcreteFunction`, a Keras model or layer.
        args: what it is called with: arrays, tensors, nested structures of them, or `tf.TensorSpec` with a fixed
            shape. Python numbers are constants of the program, as in any `tf.function`.
        kwargs: Python values handed to the function, such as `training=True`.

    Raises:
        TypeError: if `fn` cannot be called.
        ValueError: if the arguments do not fit, the function does not trace, or XLA cannot compile it; one sentence
            says which.
    """
    from ampcourse import quietly

    name = _name(fn)
    _refuse(fn, name)
    _fits(fn, name, args, kwargs)
    with quietly():
        before, after, device = _compile(fn, name, args, kwargs)
    return Hlo(name, HloModule.from_text(before), HloModule.from_text(after), device)


def _compile(fn: Callable, name: str, args: tuple, kwargs: dict) -> tuple[str, str, str]:
    import tensorflow as tf

    def traced(*inputs: Any) -> Any:
        return fn(*inputs, **kwargs)

    compiled = tf.function(
        traced, jit_compile=True, autograph=not isinstance(fn, tf.types.experimental.GenericFunction)
    )
    try:
        compiled.get_concrete_function(*args)
    except Exception as error:
        raise ValueError(xla_words.does_not_trace(name, error)) from None
    try:
        program = compiled.experimental_get_compiler_ir(*args)
        before, after = program(stage="hlo"), program(stage="optimized_hlo")
    except Exception as error:
        raise ValueError(xla_words.does_not_compile(name, error)) from None
    return before, after, "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


def _name(fn: Any) -> str:
    return str(getattr(fn, "name", None) or getattr(fn, "__name__", None) or type(fn).__name__)


def _refuse(fn: Any, name: str) -> None:
    """Say at once what can never be compiled.

    Raises:
        TypeError: for what cannot be called.
        ValueError: for what belongs to another framework, or to TensorFlow 1.
    """
    homes = {base.__module__.partition(".")[0] for base in type(fn).__mro__}
    if "keras" in homes and (backend := sys.modules["keras"].config.backend()) != "tensorflow":
        raise ValueError(
            f"'{name}' runs on Keras's {backend} backend: hlo() needs TensorFlow's, so set KERAS_BACKEND=tensorflow "
            f"before Keras is imported."
        )
    if foreign := homes & {"torch", "jax", "jaxlib", "flax"}:
        raise ValueError(f"'{name}' belongs to {min(foreign)}, not to TensorFlow: give a TensorFlow function.")
    import tensorflow as tf

    if not tf.executing_eagerly() or isinstance(fn, tf.Graph):
        raise ValueError(
            "This is a TensorFlow 1 graph, or eager execution is switched off: hlo() needs a function that TensorFlow "
            "2 can trace, so wrap the code that builds the graph in a function."
        )
    if not callable(fn):
        raise TypeError(f"hlo() takes a function or a Keras model, and then its arguments, not {type(fn).__name__}.")
    if isinstance(fn, type):
        raise TypeError(f"'{name}' is a class: make an object of it first, and give that.")


def _fits(fn: Any, name: str, args: tuple, kwargs: dict) -> None:
    """Whether the function can be called with these arguments, as far as can be told before tracing.

    Raises:
        ValueError: if not.
    """
    import tensorflow as tf

    for number, value in enumerate(tf.nest.flatten(args), 1):
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(value, tf.TensorSpec) and not value.shape.is_fully_defined():
            raise ValueError(
                f"Argument {number} of '{name}' has the shape {_shape(shape)}, but XLA compiles for one size at a "
                f"time: put a number wherever it says None."
            )
        if type(value).__name__ == "KerasTensor" or (tf.is_tensor(value) and tf.is_symbolic_tensor(value)):
            raise ValueError(
                f"Argument {number} of '{name}' is symbolic, it has a shape but no values: give an array, or a "
                f"tf.TensorSpec with a fixed shape."
            )
        if dtype == tf.string or (shape is not None and getattr(dtype, "kind", "f") in "OUSMm"):
            kind = {"O": "Python objects", "M": "dates", "m": "times"}.get(getattr(dtype, "kind", ""), "text")
            raise ValueError(
                f"Argument {number} of '{name}' holds {kind}, which XLA cannot process: give numbers only."
            )
    try:
        signature = inspect.signature(getattr(fn, "python_function", None) or getattr(fn, "call", None) or fn)
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(
            f"'{name}' cannot be called like that ({error}): write hlo({name}, ...) with what it takes."
        ) from None
    except ValueError:
        return  # some built-in functions have no signature that could be read


def _shape(shape: Any) -> str:
    return "unknown" if shape.rank is None else f"({', '.join(map(str, shape.as_list()))})"
