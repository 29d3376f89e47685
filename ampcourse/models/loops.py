"""A plain training loop, with or without one call: what lesson 04 compares before its reader writes such a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras
    import numpy as np

FEW = 16
"""Up to so many steps run faster as they are than compiled into a graph."""


def train(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    loss_fn: Callable[[Any, Any], Any],
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    scale_loss: bool = True,
) -> list[float]:
    """Train on each batch once; the loss of each step, before its update and unscaled.

    Args:
        model: a Keras model with weights; it is trained in place.
        optimizer: a Keras 3 optimizer, with or without a LossScaleOptimizer around it; built here if it is not.
        loss_fn: `loss_fn(targets, outputs)`, a scalar float32 tensor.
        batches: pairs of inputs and targets.
        scale_loss: False leaves out `optimizer.scale_loss`, as many loops do by mistake.

    Raises:
        ValueError: for no batch at all.
    """
    import tensorflow as tf

    given = list(batches)
    if not given:
        raise ValueError("There is no batch to train on: give at least one pair of inputs and targets.")
    if not optimizer.built:  # building a LossScaleOptimizer again would set its scale back
        optimizer.build(model.trainable_variables)

    def step(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_fn(targets, model(inputs, training=True))
            minimised = optimizer.scale_loss(loss) if scale_loss else loss
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(minimised, variables), variables)
        return loss

    take = tf.function(step) if len(given) > FEW else step
    return [float(take(tf.constant(inputs), tf.constant(targets))) for inputs, targets in given]
