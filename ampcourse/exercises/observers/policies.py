"""Observers of lesson 03: models, layers and files made with the learner's code under every dtype policy.

The policy of the whole process is set here for every observation and put back afterwards.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def _surrounded_by(policy: str) -> Iterator[None]:
    """The global dtype policy, set while the block runs; Keras's own deprecation warnings are nobody's fault here."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        keras.config.set_dtype_policy(before)


def built_under(build: Callable, policy: str, sizes: tuple, surrounding: str, x: Any, weights: list) -> dict[str, Any]:
    """A classifier that the learner builds for `policy` in a process whose global policy is `surrounding`.

    Reports the dtypes of its layers, what `compile` makes of a plain optimizer, the global policy that is left behind,
    and the probabilities for given weights.
    """
    import keras
    import numpy as np

    with _surrounded_by(surrounding):
        model = build(policy, *sizes)
        left = keras.config.dtype_policy().name
        keras.config.set_dtype_policy("float32")
        model(x)
        model.compile("sgd", "mse")
        wrapped = type(model.optimizer).__name__ == "LossScaleOptimizer"
        model.set_weights([np.reshape(w, v.shape) for w, v in zip(weights, model.weights, strict=True)])
        answer = model(x)
    p = _as_float64(answer, (len(x), sizes[-1]))
    layers = [x for x in model.layers if x.weights]
    return {
        "global policy afterwards": left,
        "compute and variable dtype of the layers before the head": [
            f"{type(x).__name__}: {x.compute_dtype}, {x.variable_dtype}" for x in layers[:-1]
        ],
        "output dtype": keras.backend.standardize_dtype(answer.dtype),
        "every row adds up to 1 in float32": bool(np.all(np.abs(p.sum(-1) - 1) < 1e-5)),
        "probabilities": p,
        "loss scaling after compile": "yes" if wrapped else "no",
    }


def softmax_in(answer: Callable, dtype: str, scores: Any, mask: Any) -> dict[str, Any]:
    """What a masked softmax makes of scores in a given dtype: the dtype of the result, its values and its row sums."""
    import keras
    import tensorflow as tf

    p = answer(tf.cast(tf.constant(scores), dtype), tf.constant(mask))
    return {"dtype": keras.backend.standardize_dtype(p.dtype), "values": _as_float64(p, scores.shape)}


def _as_float64(x: Any, shape: tuple) -> Any:
    """The values, if they have the shape that was asked for: what has another may be huge."""
    import keras
    import numpy as np

    if tuple(x.shape) != tuple(shape):
        raise ValueError(f"a result of shape {tuple(shape)} is asked for, not {tuple(x.shape)}")
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float64")).astype(np.float64)


def layer_under(make: Callable, policy: str, epsilon: float, gain: Any, x: Any) -> dict[str, Any]:
    """A layer class of the learner's under a policy: dtypes, values, and the digits that only float64 holds."""
    import keras
    import numpy as np
    import tensorflow as tf

    with _surrounded_by("float32"):
        layer = make(epsilon=float(epsilon), dtype=policy)
        layer(tf.constant(x))
        layer.set_weights([np.asarray(gain)])
        result = layer(tf.constant(x))
        variables = [keras.backend.standardize_dtype(v.dtype) for v in layer.weights]
        values = _as_float64(result, x.shape)
        facts = {
            "output dtype": keras.backend.standardize_dtype(result.dtype),
            "variable dtypes": variables,
            "values": values,
            "output dtype for a float16 input": keras.backend.standardize_dtype(layer(tf.cast(x, "float16")).dtype),
        }
        if policy == "float64":
            coarse = values.astype(np.float32)
            facts["digits beyond float32"] = (values - coarse) / np.spacing(np.abs(coarse) + np.float32(1e-30))
    return facts


def reloaded(reload: Callable, policy: str, surrounding: str, weights: list, x: Any, y: Any, scale: float) -> dict:
    """A model trained and saved under `policy`, loaded by the learner in a process set to another one, trained on.

    Reports what is left of the optimizer, the global policy that is left behind, and the movement of the next step.
    """
    import keras
    import numpy as np

    with tempfile.TemporaryDirectory() as folder, _surrounded_by(policy):
        path = str(Path(folder) / "model.keras")
        inputs = keras.Input((x.shape[1],))
        model = keras.Model(inputs, keras.layers.Dense(y.shape[1], name="dense")(inputs))
        model.set_weights([np.array(w) for w in weights])
        model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
        for _ in range(2):
            model.train_on_batch(x, y)
        if hasattr(model.optimizer, "dynamic_scale"):
            model.optimizer.dynamic_scale.assign(scale)
        model.save(path)
        keras.config.set_dtype_policy(surrounding)
        again = reload(path, policy)
        left = keras.config.dtype_policy().name
        keras.config.set_dtype_policy("float32")
        facts = _state(again.optimizer)
        before = again.get_weights()
        if again.optimizer is not None:
            again.train_on_batch(x, y)
        moved = [np.ravel(new - old) for new, old in zip(again.get_weights(), before, strict=True)]
        computes = [layer.compute_dtype for layer in again.layers if layer.weights]
    return {
        "global policy afterwards": left,
        "the layer computes in": computes,
        **facts,
        "movement of the next step": np.concatenate(moved),
    }


def _state(optimizer: Any) -> dict[str, Any]:
    import numpy as np

    if optimizer is None:
        return {"optimizer": "none", "loss scale": 0.0, "steps remembered": 0, "sizes of its moments": [0.0]}
    inner = getattr(optimizer, "inner_optimizer", None) or optimizer
    moments = [float(np.abs(v.numpy()).sum()) for v in inner.variables if v.shape]
    return {
        "optimizer": type(optimizer).__name__,
        "loss scale": float(getattr(optimizer, "dynamic_scale", 0.0)),
        "steps remembered": int(inner.iterations),
        "sizes of its moments": moments or [0.0],
    }
