"""What a model is called with when its graph is traced, and one clear sentence where that cannot be known."""

from __future__ import annotations

import warnings
from typing import Any

from ampcourse.amp.reasons import essence, is_about_arguments

_EXTENDED = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # NumPy calls them void


def checked_layer(model: Any, tool: str) -> Any:
    """The model, if it is a Keras layer or model that this tool can trace here.

    Args:
        model: what the user gave.
        tool: name of the tool, for the sentence.

    Raises:
        TypeError: if it is no Keras 3 layer or model.
        ValueError: if Keras does not run on TensorFlow, or TensorFlow does not run eagerly.
    """
    import keras
    import tensorflow as tf

    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"{tool} reads TensorFlow graphs, but Keras runs on {keras.backend.backend()!r} here: "
            'set the environment variable KERAS_BACKEND to "tensorflow" before Keras is imported.'
        )
    if isinstance(model, type):
        raise TypeError(f"{tool} needs a model, not the class {model.__name__}: make an instance of it first.")
    if not isinstance(model, keras.Layer):
        raise TypeError(f"{tool} needs a Keras 3 model or layer, {_instead(model)}.")
    if not tf.executing_eagerly():
        raise ValueError(
            f"{tool} makes a graph of its own and cannot work inside another one: call it outside of tf.Graph, "
            "tf.function and tf.compat.v1.disable_eager_execution()."
        )
    return model


def _instead(model: Any) -> str:
    module = type(model).__module__.partition(".")[0]
    if module in {"tf_keras", "tensorflow"}:
        return f"not a {type(model).__name__} of {module}: build the model with `import keras`"
    return f"not an object of type {type(model).__name__}"


def call_arguments(model: Any, sample: Any, tool: str) -> Any:
    """The `tf.TensorSpec`s to trace a model with; a model that is not built yet is built with the sample.

    Floats are taken as float32 where no sample says otherwise: that is what data pipelines deliver.

    Raises:
        ValueError: if there is no way to know the inputs, or the sample does not fit the model.
    """
    import keras

    if sample is None:
        known = getattr(model, "inputs", None)
        if known:
            return keras.tree.map_structure(_spec_of_input, _structure(model, known))
        shapes = _built_shapes(model)
        if shapes is None:
            raise ValueError(
                f"{tool} cannot know what {model.name!r} is called with, because it is not built: "
                "give a batch as the second argument, `sample`."
            )
        return shapes
    specs = keras.tree.map_structure(lambda x: _spec_of_sample(x, tool), sample)
    _check_fit(model, specs, tool)
    if not model.built:
        _call_once(model, sample, tool)
    return specs


def _structure(model: Any, known: Any) -> Any:
    """A Functional model may take a dict or a tuple of inputs; a Sequential one takes a single tensor."""
    if hasattr(model, "_inputs_struct"):
        return model._inputs_struct
    return known[0] if len(known) == 1 else known


def _spec_of_input(x: Any) -> Any:
    import keras
    import tensorflow as tf

    dtype = "float32" if keras.backend.is_float_dtype(x.dtype) else x.dtype
    if getattr(x, "sparse", False):
        return tf.SparseTensorSpec(x.shape, dtype)
    return tf.TensorSpec(x.shape, dtype)


def _spec_of_sample(x: Any, tool: str) -> Any:
    import keras
    import numpy as np
    import tensorflow as tf

    if isinstance(x, tf.SparseTensor | tf.RaggedTensor):
        return tf.type_spec_from_value(x)
    if isinstance(x, bool | int | float | complex | str | bytes) and not isinstance(x, np.generic):
        raise ValueError(
            f"{tool} cannot use this sample: it holds Python's {type(x).__name__}, but a batch is an array or a "
            "tensor, as numpy.asarray makes one."
        )
    if isinstance(x, keras.KerasTensor):
        raise ValueError(f"{tool} cannot use this sample: it holds a KerasTensor, which has no values.")
    array = x if tf.is_tensor(x) else np.asarray(x)
    if getattr(array.dtype, "kind", "f") in "OVMm" and str(array.dtype) not in _EXTENDED:
        what = f"array of {array.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
        raise ValueError(f"{tool} cannot use this sample: it holds a {what}, not numbers of one dtype.")
    shape = tuple(array.shape)
    return tf.TensorSpec((None, *shape[1:]) if shape else shape, tf.as_dtype(array.dtype))


def _built_shapes(model: Any) -> Any:
    """What a subclassed model was built with, where Keras kept a single shape of it."""
    import tensorflow as tf

    config = model.get_build_config() if model.built else None
    shape = (config or {}).get("input_shape")
    if not isinstance(shape, tuple | list) or not shape or not all(n is None or isinstance(n, int) for n in shape):
        return None
    return tf.TensorSpec((None, *shape[1:]), "float32")


def _check_fit(model: Any, specs: Any, tool: str) -> None:
    import keras

    known = getattr(model, "inputs", None)
    if not known:
        return
    wanted, got = keras.tree.flatten(_structure(model, known)), keras.tree.flatten(specs)
    if len(wanted) != len(got):
        raise ValueError(
            f"{tool}: {model.name!r} takes {len(wanted)} input{'s' * (len(wanted) > 1)}, but the sample has {len(got)}."
        )
    for x, spec in zip(wanted, got, strict=True):
        if spec.shape.rank is not None and not spec.shape.is_compatible_with(x.shape):
            given = tuple(spec.shape)
            raise ValueError(f"{tool}: {model.name!r} takes inputs of shape {x.shape}, but the sample has {given}.")


def _call_once(model: Any, sample: Any, tool: str) -> None:
    """Build the model as its user would: by calling it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Keras says it again when the user calls the model
            model(sample)
    except Exception as error:
        raise ValueError(failed(model, tool, error)) from None


def failed(model: Any, tool: str, error: Exception) -> str:
    """One sentence for a model that cannot be called or traced."""
    says = essence(error)
    if isinstance(error, TypeError) and is_about_arguments(says):
        return (
            f"{tool} calls {model.name!r} with one argument, the sample, and that does not fit ({says}): wrap it in a "
            "model that takes all of its inputs as one tuple or dict."
        )
    return f"{tool} cannot call {model.name!r} in a graph: {type(error).__name__}: {says}."
