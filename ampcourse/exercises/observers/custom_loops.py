"""Observers of lesson 04: training steps and loops of the learner's own, driven with Keras 3's LossScaleOptimizer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def _as_usual() -> Iterator[None]:
    """Whatever the notebook has set for the whole process: tf.function makes graphs, and plain floats are float32.

    TensorFlow's log is kept still: that an observer traces anew for each question is no fault of the answer.
    """
    import keras
    import tensorflow as tf

    eager, floatx = tf.config.functions_run_eagerly(), keras.config.floatx()
    level = tf.get_logger().level
    tf.config.run_functions_eagerly(False)
    tf.get_logger().setLevel("ERROR")
    keras.config.set_floatx("float32")
    try:
        yield
    finally:
        tf.get_logger().setLevel(level)
        tf.config.run_functions_eagerly(eager)
        keras.config.set_floatx(floatx)


def _scaled_sgd(initial_scale: float, rate: float = 0.1, momentum: float = 0.5, growth_steps: int = 3) -> Any:
    """A LossScaleOptimizer around SGD: what is applied shows in full, and momentum remembers it."""
    import keras

    inner = keras.optimizers.SGD(rate, momentum=momentum)
    return keras.optimizers.LossScaleOptimizer(inner, initial_scale, dynamic_growth_steps=growth_steps)


def _moved(model: Any, before: list) -> Any:
    import numpy as np

    return np.concatenate([np.ravel(new - old) for new, old in zip(model.get_weights(), before, strict=True)])


@_as_usual()
def train_by_steps(
    step: Callable, weights: list, batches: list[tuple], initial_scale: float, compiled: bool
) -> dict[str, Any]:
    """Train two layers under mixed_float16 with `step(model, optimizer, loss_fn, x, y)`, batch after batch.

    Reports after each batch the loss that the step returned, how far the weights have moved and the loss scale, and
    at the end how many updates were made.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    hidden = keras.layers.Dense(weights[0].shape[1], "tanh", dtype="mixed_float16")
    model = keras.Sequential(
        [keras.Input((weights[0].shape[0],)), hidden, keras.layers.Dense(weights[2].shape[1], dtype="float32")]
    )
    model.set_weights(weights)
    optimizer = _scaled_sgd(initial_scale)
    optimizer.build(model.trainable_variables)
    loss_fn = keras.losses.MeanSquaredError(dtype="float32")
    take = tf.function(step, jit_compile=False) if compiled else step
    losses, moved, scales = [], [], []
    for x, y in batches:
        losses.append(float(take(model, optimizer, loss_fn, tf.constant(x), tf.constant(y))))
        moved.append(_moved(model, weights))
        scales.append(float(optimizer.dynamic_scale))
    return {
        "movement": np.array(moved),
        "loss": losses,
        "loss scale": scales,
        "updates made": int(optimizer.iterations),
    }


@_as_usual()
def apply_clipped(
    answer: Callable, values: list, steps: list[list], initial_scale: float, clip_norm: float
) -> dict[str, Any]:
    """Call `answer(optimizer, gradients, variables, clip_norm)` once a step with gradients as a tape gives them.

    `steps` holds true gradients; they are multiplied by the loss scale of the moment. Reports how far the variables
    have moved after each step, the loss scale, and how many updates were made.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    variables = [keras.Variable(value, dtype="float32") for value in values]
    optimizer = _scaled_sgd(initial_scale)
    optimizer.build(variables)
    moved, scales = [], []
    for gradients in steps:
        scale = optimizer.dynamic_scale.numpy()
        answer(optimizer, [tf.constant(g * scale, tf.float32) for g in gradients], variables, float(clip_norm))
        moved.append(np.concatenate([np.ravel(v.numpy() - old) for v, old in zip(variables, values, strict=True)]))
        scales.append(float(optimizer.dynamic_scale))
    return {"movement": np.array(moved), "loss scale": scales, "updates made": int(optimizer.iterations)}


@_as_usual()
def count_inside(answer: Callable, gradients: list, missing: int, how: str) -> Any:
    """Call `answer(gradients)` in eager mode, inside tf.function or compiled by XLA.

    At position `missing` stands None, as where a variable takes no part in the loss; -1 for nowhere.
    """
    import tensorflow as tf

    tensors: list = [tf.constant(g) for g in gradients]

    def ask(*given: Any) -> Any:
        listed = list(given)
        if missing >= 0:
            listed.insert(missing, None)
        return answer(listed)

    take = {
        "eager": lambda: ask,
        "graph": lambda: tf.function(ask, jit_compile=False),
        "xla": lambda: tf.function(ask, jit_compile=True),
    }[how]()
    return take(*tensors)


@_as_usual()
def train_by_loop(
    loop: Callable, weights: list, data: tuple, settings: dict, initial_scale: float, normalised: bool
) -> dict[str, Any]:
    """Train a small model with `loop(model, optimizer, loss_fn, x, y, batch_size, epochs)`.

    Hidden layer under mixed_float16, where `normalised` with a regulariser and BatchNormalization behind it. Its fit
    and train_on_batch refuse. Reports the movement of all weights, the losses returned, the scale, the updates made.
    """
    import keras

    layers = keras.layers
    penalty = keras.regularizers.L2(settings["penalty"]) if normalised else None
    model = keras.Sequential(
        [
            keras.Input((weights[0].shape[0],)),
            layers.Dense(weights[0].shape[1], "relu", dtype="mixed_float16", kernel_regularizer=penalty),
            *([layers.BatchNormalization(dtype="mixed_float16", momentum=0.5)] if normalised else []),
            layers.Dense(1, dtype="float32"),
        ]
    )
    model.set_weights(weights)
    model.fit = model.train_on_batch = _refuse
    optimizer = _scaled_sgd(initial_scale, rate=settings["rate"])
    optimizer.build(model.trainable_variables)
    loss_fn = keras.losses.MeanSquaredError(dtype="float32")
    x, y = data
    losses = loop(model, optimizer, loss_fn, x, y, settings["batch_size"], settings["epochs"])
    return {
        "movement": _moved(model, weights),
        "loss of each epoch": [float(loss) for loss in losses],
        "loss scale": float(optimizer.dynamic_scale),
        "updates made": int(optimizer.iterations),
    }


def _refuse(*args: Any, **kwargs: Any) -> None:
    raise RuntimeError("this exercise asks for a loop of your own: fit and train_on_batch are switched off")
