"""From whatever has a graph (function, tf.function, ConcreteFunction, Keras model) to one graph, or one sentence."""

from __future__ import annotations

import contextlib
import inspect
import re
import traceback
from typing import Any

from ampcourse.amp.reasons import essence, is_about_arguments

_LIBRARIES = re.compile(
    r"[/\\](tensorflow|keras|tf_keras|ampcourse)[/\\]|__autograph_generated_file|<frozen|contextlib|"
    r"[/\\]lib[/\\]python3[^/\\]*[/\\]\w+\.py"
)
_SHAPES = re.compile(r"shape|dimension|rank|incompatible|axes|input tensors", re.IGNORECASE)
_SYMBOLIC = re.compile(r"symbolic|numpy|__bool__|eager tensor", re.IGNORECASE)


def concrete(fn: Any, args: tuple) -> Any:
    """The `ConcreteFunction` of `fn(*args)`.

    Args:
        fn: a Python function, a `tf.function`, a `ConcreteFunction`, or a Keras model or layer (its forward pass).
        args: arrays, tensors or `tf.TensorSpec`s; none for a `ConcreteFunction` and for a model that knows its inputs.

    Raises:
        TypeError: for something that has no graph, or belongs to another framework.
        ValueError: if arguments are missing or have the wrong shape, or the function does not trace.
    """
    import tensorflow as tf

    _refuse(fn, tf)
    if hasattr(fn, "structured_input_signature") and hasattr(fn, "graph"):
        return _same_shapes(fn, args)
    if _is_keras(fn):
        return _traced(_forward(fn), args or _inputs_of(fn), getattr(fn, "name", "the model"), tf)
    name = _name(fn)
    if not args and not _has_signature(fn):
        _check_that_none_are_missing(fn, name)
    return _traced(fn, args, name, tf)


def _refuse(fn: Any, tf: Any) -> None:
    v1 = tf.compat.v1
    if isinstance(fn, tf.Graph | v1.Session | v1.GraphDef | v1.MetaGraphDef):
        raise TypeError(
            f"A TensorFlow 1 {type(fn).__name__} was given: pass a function, a tf.function or a Keras model instead, "
            "so that its graph can be traced here."
        )
    if not v1.executing_eagerly_outside_functions():
        raise ValueError(
            "Eager execution is switched off, as in TensorFlow 1: start a fresh process without "
            "`disable_eager_execution` or `disable_v2_behavior`."
        )
    if type(fn).__module__.partition(".")[0] in ("torch", "jax", "jaxlib", "flax"):
        raise TypeError(f"{type(fn).__name__} is not TensorFlow's: only graphs of TensorFlow can be rewritten.")
    if _is_keras(fn) and (backend := _backend(fn)) != "tensorflow":
        raise TypeError(
            f"Keras runs on the backend '{backend}' here, which has no TensorFlow graph: set KERAS_BACKEND=tensorflow "
            "before Python starts."
        )
    if isinstance(fn, type) or not callable(fn):
        what = f"the class {fn.__name__}" if isinstance(fn, type) else f"a {type(fn).__name__}"
        raise TypeError(f"Give a function, a tf.function, a ConcreteFunction or a Keras model, not {what}.")


def _is_keras(fn: Any) -> bool:
    homes = {cls.__module__.partition(".")[0] for cls in type(fn).__mro__}
    return bool(homes & {"keras", "tf_keras"}) and hasattr(fn, "trainable_variables")


def _backend(fn: Any) -> str:
    if any(cls.__module__.startswith("tf_keras") for cls in type(fn).__mro__):
        return "tensorflow"
    import keras

    return keras.backend.backend()


def _forward(model: Any) -> Any:
    takes = inspect.signature(model.call).parameters if hasattr(model, "call") else {}

    def forward(*args: Any) -> Any:
        return model(*args, training=False) if "training" in takes else model(*args)

    return forward


def _inputs_of(model: Any) -> tuple:
    """The model's own inputs as `tf.TensorSpec`s, in the structure in which it takes them."""
    import tensorflow as tf

    inputs = getattr(model, "inputs", None)
    if not inputs:
        raise ValueError(
            f"The model '{model.name}' does not say what its inputs look like: give a sample batch or a tf.TensorSpec, "
            "as in rewritten_graph(model, tf.TensorSpec([None, 32]))."
        )
    with contextlib.suppress(AttributeError):
        inputs = model.input  # a functional model's own structure, which may be a dictionary; Sequential has none
    inputs = inputs[0] if isinstance(inputs, list) and len(inputs) == 1 else inputs
    return (tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), inputs),)


def _name(fn: Any) -> str:
    return str(getattr(fn, "__name__", None) or type(fn).__name__)


def _has_signature(fn: Any) -> bool:
    return getattr(fn, "input_signature", None) is not None


def _check_that_none_are_missing(fn: Any, name: str) -> None:
    try:
        signature = inspect.signature(getattr(fn, "python_function", fn))
    except (TypeError, ValueError):
        return
    needed = [
        p.name
        for p in signature.parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "self"
    ]
    if needed:
        listed = ", ".join(needed)
        raise ValueError(
            f"{name} takes {listed}, and nothing was given for {'it' if len(needed) == 1 else 'them'}: add an example "
            f"or a tf.TensorSpec for each, as in rewritten_graph({name}, {listed})."
        )


def _same_shapes(fn: Any, args: tuple) -> Any:
    import tensorflow as tf

    specs = tf.nest.flatten(fn.structured_input_signature)
    for number, (spec, value) in enumerate(zip(specs, tf.nest.flatten(args), strict=False), 1):
        if isinstance(spec, tf.TensorSpec) and not spec.is_compatible_with(_as_spec(value, tf)):
            raise ValueError(
                f"Argument {number} has {_shape(value)}, but the ConcreteFunction was traced for {_shape(spec)}: give "
                "none, or one that fits."
            )
    return fn


def _as_spec(value: Any, tf: Any) -> Any:
    return value if isinstance(value, tf.TensorSpec) else tf.TensorSpec.from_tensor(tf.convert_to_tensor(value))


def _traced(fn: Any, args: tuple, name: str, tf: Any) -> Any:
    traceable, specs = fn if hasattr(fn, "get_concrete_function") else tf.function(fn), []
    for number, value in enumerate(args, 1):
        try:
            specs += [_spec(value, tf)]
        except Exception as error:
            raise ValueError(f"Argument {number} of {name} cannot be used: {essence(error)}.") from None
    try:
        return traceable.get_concrete_function(*specs)
    except Exception as error:
        raise ValueError(_why(error, name, args)) from None


def _spec(value: Any, tf: Any) -> Any:
    """Arrays become tensors, so that every array is traced as an input and none as a constant."""
    if type(value).__name__ == "KerasTensor":
        raise ValueError("it is a KerasTensor, which has no values: give an array or a tf.TensorSpec")
    if getattr(getattr(value, "dtype", None), "kind", "f") in "OMm":
        raise ValueError(f"its dtype is {value.dtype}, which TensorFlow does not know: give numbers of one dtype")
    return tf.convert_to_tensor(value) if hasattr(value, "__array__") and not tf.is_tensor(value) else value


def _why(error: Exception, name: str, args: tuple) -> str:
    says = essence(error)
    if match := re.search(r"Binding inputs to tf.function failed due to `([^`]+)`", str(error)):
        return f"{name} cannot be called with {len(args)} argument{'' if len(args) == 1 else 's'}: {match[1]}."
    if isinstance(error, TypeError) and is_about_arguments(says):
        return f"{name} cannot be called with {len(args)} argument{'' if len(args) == 1 else 's'}: {says}."
    if isinstance(error, ValueError) and any(hasattr(a, "shape") for a in args) and _SHAPES.search(says):
        shapes = " and ".join(_shape(a) for a in args)
        return f"{name} does not accept arguments of {shapes}: {says}."
    told = f"{name} does not trace into a graph{_where(error)}: {says}."
    if not _SYMBOLIC.search(says):
        return told
    return (
        f"{told} Inside a graph tensors have no values yet: use TensorFlow's operations instead of .numpy(), NumPy, or "
        "Python's `if` on a tensor."
    )


def _shape(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"shape {tuple(shape)}" if shape is not None else f"type {type(value).__name__}"


def _where(error: Exception) -> str:
    """The innermost line of the caller's own code, as AutoGraph's message or the traceback gives it."""
    found = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', str(error))
    found += [(f.filename, f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__)]
    own = [line for file, line, _ in found if not _LIBRARIES.search(file)]
    return f" (line {own[-1]})" if own else ""
