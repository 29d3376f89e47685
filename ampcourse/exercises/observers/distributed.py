"""Observers of lesson 10: replicas are simulated, one after the other, so that any process with one device can look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def drive_replicas(
    update: Callable, scale: float, good_steps: int, growth_steps: int, finite_steps: Any
) -> dict[str, Any]:
    """Take `update(scale, good_steps, finite, growth_steps)` through a run on several replicas.

    `finite_steps` has shape (steps, replicas); a step hands over its row as a list of bools. What the update returned
    is fed to the next. Reports, step by step, the scale and the count that it returned and whether it applied the step.
    """
    scales, counts, applied = [], [], []
    for row in finite_steps:
        scale, good_steps, took = update(scale, good_steps, [bool(finite) for finite in row], growth_steps)
        scale, good_steps = float(scale), int(good_steps)
        scales.append(scale)
        counts.append(good_steps)
        applied.append(bool(took))
    return {"scale": scales, "good steps": counts, "applied": applied}


def train_shards(step: Callable, weights: list, batches: list[list[tuple]], scale: float) -> dict[str, Any]:
    """Train a linear model under mixed_float16 with `step(model, optimizer, shards)`, one global batch after the other.

    Each batch is a list of shards `(x, y)`, one a replica. The optimizer is Keras's LossScaleOptimizer around SGD with
    momentum, so whatever is applied leaves its mark on later steps. Reports after each batch how far kernel and bias
    have moved, the loss scale, and how many updates have been made.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    kernel, bias = weights
    layer = keras.layers.Dense(kernel.shape[1], dtype="mixed_float16")
    model = keras.Sequential([keras.Input((kernel.shape[0],)), layer])
    model.set_weights([kernel, bias])
    inner = keras.optimizers.SGD(0.1, momentum=0.5)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=float(scale), dynamic_growth_steps=2000)
    optimizer.build(model.trainable_variables)
    moved, scales, made = [], [], []
    for shards in batches:
        step(model, optimizer, [(tf.constant(x), tf.constant(y)) for x, y in shards])
        moved.append(np.concatenate([np.ravel(w - old) for w, old in zip(model.get_weights(), weights, strict=True)]))
        scales.append(float(optimizer.dynamic_scale))
        made.append(int(optimizer.iterations))
    return {"movement": np.array(moved), "scale": scales, "updates made": made}
