"""Observers of lesson 11: a search through layers, and small models trained with the learner's own remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


def search_layers(answer: Callable, cases: list[tuple]) -> dict[str, Any]:
    """Call `answer(layers, x)` once for each case, given as (recipe, x).

    A recipe is a list of (name, operation, constant); each becomes a float16 layer, a pair (name, function).
    """
    return {f"case {i}": answer(_layers(recipe), x) for i, (recipe, x) in enumerate(cases, 1)}


def _layers(recipe: list[tuple]) -> list[tuple[str, Callable]]:
    import numpy as np

    def layer(operation: str, constant: float) -> Callable:
        c = np.float16(constant)
        work = {
            "times": lambda x: x * c,
            "plus": lambda x: x + c,
            "square": lambda x: x * x,
            "shares": lambda x: x / (np.abs(x).sum(axis=1, keepdims=True, dtype=np.float16) + c),
            "log": lambda x: np.log(np.abs(x) + c),
            "tanh": np.tanh,
            "clip": lambda x: np.clip(x, -c, c),
            "relu": lambda x: np.where(x > 0, x, np.float16(0)),
        }[operation]

        def run(x: Any) -> Any:
            with np.errstate(all="ignore"):
                return work(np.asarray(x).astype(np.float16)).astype(np.float16)

        return run

    return [(name, layer(operation, constant)) for name, operation, constant in recipe]


def train_masked(
    weigh: Callable, policy: str, tokens: Any, masks: Any, targets: Any, query: Any, rate: float
) -> dict[str, Any]:
    """Train an attention layer that weighs its tokens by `weigh(scores, mask)`, with a loss scaler where it is due.

    One query vector is trained by SGD, a batch a step. Reports the weights before training in float32, their dtype,
    the way of the query after each step, and the loss scale at the end.
    """
    import numpy as np
    import tensorflow as tf

    with _policy(policy):
        import keras

        dtype = keras.config.dtype_policy().compute_dtype
        variable = keras.Variable(query, dtype="float32")
        optimizer = keras.optimizers.SGD(rate)
        if policy == "mixed_float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**10)
        optimizer.build([variable])

        def weights(x: Any, mask: Any) -> Any:
            x, mask = tf.cast(x, dtype), tf.cast(mask, dtype)
            return weigh(tf.linalg.matvec(x, tf.cast(variable.value, dtype)), mask), x

        first, _ = weights(tokens[0], masks[0])
        kind = first.dtype.name
        way = []
        for x, mask, y in zip(tokens, masks, targets, strict=True):
            with tf.GradientTape() as tape:
                alpha, cast = weights(x, mask)
                pooled = tf.einsum("bl,blf->bf", tf.cast(alpha, dtype), cast)
                loss = tf.reduce_mean(tf.square(tf.cast(pooled, tf.float32) - y))
                scaled = optimizer.scale_loss(loss)
            optimizer.apply(tape.gradient(scaled, [variable.value]), [variable])
            way.append(np.asarray(variable.value) - query)
        return {
            "weights": np.asarray(tf.cast(first, tf.float32)),
            "dtype of the weights": kind,
            "way of the query": np.array(way),
            "loss scale at the end": float(getattr(optimizer, "dynamic_scale", 1.0)),
        }


def train_loudness(loudness: Callable, policy: str, sounds: Any, targets: Any, kernel: Any) -> dict[str, Any]:
    """Train a linear layer on `loudness(sound)` by SGD under the policy.

    Reports the loudness of the first batch in float32, its dtype, and the way of the kernel after each step.
    """
    import numpy as np
    import tensorflow as tf

    with _policy(policy):
        import keras

        dtype = keras.config.dtype_policy().compute_dtype
        variable = keras.Variable(kernel, dtype="float32")
        optimizer = keras.optimizers.SGD(1e-3)
        if policy == "mixed_float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**6)
        optimizer.build([variable])
        first = loudness(tf.cast(sounds[0], dtype))
        kind, way = first.dtype.name, []
        for sound, y in zip(sounds, targets, strict=True):
            with tf.GradientTape() as tape:
                level = tf.cast(loudness(tf.cast(sound, dtype)), dtype)
                outputs = tf.matmul(level, tf.cast(variable.value, dtype))
                loss = tf.reduce_mean(tf.square(tf.cast(outputs, tf.float32) - y))
                scaled = optimizer.scale_loss(loss)
            optimizer.apply(tape.gradient(scaled, [variable.value]), [variable])
            way.append(np.asarray(variable.value) - kernel)
        return {
            "loudness": np.asarray(tf.cast(first, tf.float32)),
            "dtype of the loudness": kind,
            "way of the kernel": np.array(way),
        }


def train_healed(
    step: Callable, weights: list, batches: list[tuple], limit: float, strength: float, loss_scale: float
) -> dict[str, Any]:
    """Train a linear model under mixed_float16 with `step(model, optimizer, x, y, limit, strength)`.

    The optimizer is SGD in a LossScaleOptimizer. Reports after each batch how far the weights have moved, and the
    loss scale; and how many updates were made.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    kernel, bias = weights
    layer = keras.layers.Dense(kernel.shape[1], dtype="mixed_float16")
    model = keras.Sequential([keras.Input((kernel.shape[0],)), layer])
    model.set_weights([kernel, bias])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=loss_scale)
    optimizer.build(model.trainable_variables)
    moved, scales = [], []
    for x, y in batches:
        step(model, optimizer, tf.constant(x), tf.constant(y), limit, strength)
        moved.append(np.concatenate([np.ravel(w - old) for w, old in zip(model.get_weights(), weights, strict=True)]))
        scales.append(float(optimizer.dynamic_scale))
    return {"movement": np.array(moved), "loss scale": scales, "updates made": int(optimizer.iterations)}


@contextlib.contextmanager
def _policy(name: str) -> Iterator[None]:
    """A global dtype policy for a while, whatever the learner has set."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
