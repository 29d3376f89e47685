"""Observers of lesson 02: a loss scale driven through a run, and a model trained with the learner's own step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def drive_loss_scale(
    update: Callable, scale: float, good_steps: int, growth_steps: int, finite_steps: Any
) -> dict[str, Any]:
    """Take `update(scale, good_steps, finite, growth_steps)` through a run, feeding it what it returned.

    Reports, step by step, the scale and the count that it returned and whether it applied the step.
    """
    scales, counts, applied = [], [], []
    for finite in finite_steps:
        scale, good_steps, took = update(scale, good_steps, bool(finite), growth_steps)
        scale, good_steps = float(scale), int(good_steps)
        scales.append(scale)
        counts.append(good_steps)
        applied.append(bool(took))
    return {"scale": scales, "good steps": counts, "applied": applied}


def train_scaled(step: Callable, weights: list, batches: list[tuple], loss_scale: float) -> dict[str, Any]:
    """Train a linear model under mixed_float16 with `step(model, optimizer, x, y, loss_scale)`, batch after batch.

    The optimizer is plain SGD with momentum, so whatever is applied leaves its mark on later steps. Reports after
    each batch how far kernel and bias have moved, whether the step says it was applied, and how often it was.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    kernel, bias = weights
    layer = keras.layers.Dense(kernel.shape[1], dtype="mixed_float16")
    model = keras.Sequential([keras.Input((kernel.shape[0],)), layer])
    model.set_weights([kernel, bias])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
    optimizer.build(model.trainable_variables)
    says, moved = [], []
    for x, y in batches:
        says.append(bool(step(model, optimizer, tf.constant(x), tf.constant(y), float(loss_scale))))
        moved.append(np.concatenate([np.ravel(w - old) for w, old in zip(model.get_weights(), weights, strict=True)]))
    return {"movement": np.array(moved), "applied": says, "updates made": int(optimizer.iterations)}
