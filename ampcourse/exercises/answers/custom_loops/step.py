"""Exercise 1: one training step with Keras 3's LossScaleOptimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.custom_loops import train_by_steps

Batch = tuple[np.ndarray, np.ndarray]
Step = Callable[[Any, Any, Any, Any, Any], Any]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Batches of 16 for a model from 3 numbers to 2; where one is bad differs from seed to seed."""
    shapes = [(3, 4), (4,), (4, 2), (2,)]
    weights = [rng.normal(size=shape).astype("float32") for shape in shapes]
    # a last layer so weak that without scaling no gradient reaches the hidden layer
    weak = [*weights[:2], *(w * np.float32(2**-19) for w in weights[2:])]

    def batch(y_size: float = 1.0) -> Batch:
        x, y = rng.normal(size=(16, 3)), rng.normal(size=(16, 2)) * y_size
        return x.astype("float32"), y.astype("float32")

    def among_good(bad: Batch) -> list[Batch]:
        batches = [batch() for _ in range(3)]
        batches.insert(int(rng.integers(0, 2)), bad)
        return batches

    return {
        "ordinary batches": (weights, [batch() for _ in range(3)], float(2.0 ** rng.integers(5, 11)), False),
        "small gradients": (weak, [batch(2.0**-9)], float(2.0 ** rng.integers(14, 16)), False),
        "a batch that overflows": (weights, among_good(batch(1e4)), float(2.0 ** rng.integers(11, 13)), False),
        "inside tf.function": (weights, among_good(batch(1e4)), float(2.0 ** rng.integers(11, 13)), True),
    }


def _step(
    scale: Callable = lambda optimizer, loss: optimizer.scale_loss(loss),
    between: Callable = lambda optimizer, gradients: gradients,
    apply: Callable = lambda optimizer, gradients, variables: optimizer.apply(gradients, variables),
    returns: Callable = lambda loss, scaled: loss,
) -> Step:
    """The right step, with each of its parts open to a mistake."""

    def train_step(model: Any, optimizer: Any, loss_fn: Any, x: Any, y: Any) -> Any:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
            scaled = scale(optimizer, loss)
        gradients = between(optimizer, tape.gradient(scaled, model.trainable_variables))
        apply(optimizer, gradients, model.trainable_variables)
        return returns(loss, scaled)

    return train_step


def _zipped(model: Any, optimizer: Any, loss_fn: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
        scaled = optimizer.dynamic_scale * loss
    gradients = tape.gradient(scaled, model.trainable_weights)
    optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
    return loss


def _divides_the_loss(model: Any, optimizer: Any, loss_fn: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        scaled = optimizer.scale_loss(loss_fn(y, model(x, training=True)))
    loss = scaled / optimizer.dynamic_scale  # before apply, which may change the scale
    optimizer.apply(tape.gradient(scaled, model.trainable_variables))
    return loss


def _unscaled(optimizer: Any, gradients: list) -> list:
    return [g / optimizer.dynamic_scale for g in gradients]


def _scaled_outside(model: Any, optimizer: Any, loss_fn: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    scaled = optimizer.scale_loss(loss)
    optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
    return loss


def _without_holes(optimizer: Any, gradients: list) -> list:
    import tensorflow as tf

    return [tf.where(tf.math.is_finite(g), g, tf.zeros_like(g)) for g in gradients]


def _apply_if_finite(optimizer: Any, gradients: list, variables: list) -> None:
    import tensorflow as tf

    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
    tf.cond(finite, lambda: (optimizer.apply(gradients, variables), 0)[1], lambda: 0)


train_step = Exercise(
    id="custom_loops.train_step",
    inputs=_inputs,
    observer=train_by_steps,
    right=_step(),
    points={"ordinary batches": 2, "small gradients": 1, "a batch that overflows": 1, "inside tf.function": 1},
    also_right=(_zipped, _divides_the_loss),
    mistakes=(
        Mistake(
            _step(scale=lambda optimizer, loss: loss),
            "You never scale the loss, but `apply` divides by the loss scale all the same: your updates are too small "
            "by that factor, and small gradients are flushed. Call optimizer.scale_loss(loss) inside the tape.",
        ),
        Mistake(
            _step(between=_unscaled),
            "You divide the gradients by the loss scale, and then `apply` does it again. In Keras 3 it wants the "
            "gradients just as the tape gives them.",
        ),
        Mistake(
            _step(scale=lambda optimizer, loss: loss, between=_unscaled),
            "Your loss is not scaled, and yet you divide by the loss scale, and `apply` divides once more. Scale the "
            "loss with optimizer.scale_loss(loss), and leave unscaling to `apply`.",
        ),
        Mistake(
            _step(apply=lambda optimizer, gradients, variables: optimizer.inner_optimizer.apply(gradients, variables)),
            "You hand scaled gradients to the inner optimizer, which knows nothing of the scale: the updates are too "
            "large by that factor. Apply with the LossScaleOptimizer.",
        ),
        Mistake(
            _step(
                between=_unscaled,
                apply=lambda optimizer, gradients, variables: optimizer.inner_optimizer.apply(gradients, variables),
            ),
            "You unscale by yourself and go round the LossScaleOptimizer. Then nobody skips the step that overflows, "
            "and the scale never moves. Let optimizer.apply do both.",
        ),
        Mistake(
            _step(apply=_apply_if_finite),
            "You skip the bad step by yourself, so the optimizer never hears of it and its scale never falls: the "
            "next steps overflow too. Call optimizer.apply always; it looks for itself.",
        ),
        Mistake(
            _step(
                scale=lambda optimizer, loss: loss,
                apply=lambda optimizer, gradients, variables: optimizer.inner_optimizer.apply(gradients, variables),
            ),
            "You train without any loss scaling, past the LossScaleOptimizer: small gradients are flushed to 0.",
        ),
        Mistake(
            _step(returns=lambda loss, scaled: scaled),
            "You return the scaled loss. What is logged should be the true one: keep `loss` and `scaled_loss` apart.",
        ),
        Mistake(
            _step(scale=lambda optimizer, loss: optimizer.scale_loss(optimizer.scale_loss(loss))),
            "Your loss is scaled twice, but unscaled only once.",
        ),
        Mistake(
            _scaled_outside,
            "All gradients are None: the tape has not seen optimizer.scale_loss, because it is called outside of the "
            "`with` block. Move it inside.",
        ),
        Mistake(
            _step(between=_without_holes),
            "You put zeros where a gradient is not finite, so the optimizer applies what is left of a broken step and "
            "its scale never falls. Hand over the gradients as the tape gives them.",
        ),
        Mistake(
            _step(apply=lambda optimizer, gradients, variables: None),
            "Nothing moves: the gradients have to be handed to optimizer.apply.",
        ),
    ),
    hints=(
        "Four calls in this order: model and loss inside the tape; optimizer.scale_loss(loss), also inside the tape "
        "(outside it, the gradients are None); tape.gradient of the scaled loss; optimizer.apply.",
        "Nothing has to be divided, checked or skipped by you: `apply` does all three.",
        "with tf.GradientTape() as tape: loss = loss_fn(y, model(x, training=True)); "
        "scaled_loss = optimizer.scale_loss(loss)",
    ),
    rtol=2e-3,
    atol=1e-13,
    trains=True,
    asks_for=(
        "ampcourse.models.loops.train",
        "ampcourse.training.loops.CustomLoop",
        "ampcourse.training.on_tensorflow.Step",
        "ampcourse.clinic.usual_step",
    ),
    insight="Two calls make a float32 loop a mixed-precision loop: scale_loss inside the tape, and apply with the "
    "gradients as they come. They belong together; one without the other is wrong by the loss scale.",
)
