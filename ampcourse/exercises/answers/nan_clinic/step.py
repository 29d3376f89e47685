"""Exercise 6: one training step with a penalty and clipping, healed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.nan_clinic import train_healed


def _inputs(rng: np.random.Generator) -> Inputs:
    """Batches of 16 for a model from 3 numbers to 2."""
    weights = [rng.normal(size=(3, 2)).astype("float32"), rng.normal(size=2).astype("float32")]

    def batches(count: int, size: float = 1.0, bad: bool = False) -> list:
        made = [(rng.normal(size=(16, 3)), rng.normal(size=(16, 2)) * size) for _ in range(count)]
        if bad:
            made.insert(int(rng.integers(1, count)), (made[0][0] * 3e3, made[0][1]))
        return [(x.astype("float32"), y.astype("float32")) for x, y in made]

    scale, strength = float(2.0 ** rng.integers(8, 11)), float(rng.uniform(0.05, 0.2))
    return {
        "short gradients": (weights, batches(3), 1e3, 0.0, scale),
        "long gradients": (weights, batches(3, 20.0), float(rng.uniform(0.3, 0.9)), 0.0, scale),
        "with a penalty": (weights, batches(3), 1e3, strength, scale),
        "a batch that overflows": (weights, batches(4, 1.0, bad=True), float(rng.uniform(0.5, 1)), strength, scale),
    }


def _loss(model: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_mean(tf.square(tf.cast(model(x, training=True), tf.float32) - y))


def _penalty(model: Any, strength: float) -> Any:
    import tensorflow as tf

    return strength * sum(tf.reduce_sum(tf.square(w.value)) for w in model.trainable_variables)


def _step(
    scale: Callable[[Any, Any, Any], Any] = lambda optimizer, loss, penalty: optimizer.scale_loss(loss + penalty),
    clip: Callable[[list, float, float], list] | None = None,
) -> Callable:
    """Scale, differentiate, clip, hand over: each open to a mistake."""

    def healed_step(model: Any, optimizer: Any, x: Any, y: Any, limit: float, strength: float) -> None:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            scaled = scale(optimizer, _loss(model, x, y), _penalty(model, strength))
        gradients = tape.gradient(scaled, model.trainable_variables)
        factor = float(optimizer.dynamic_scale)
        gradients = (clip or _clip_scaled_limit)(gradients, limit, factor)
        optimizer.apply(gradients, model.trainable_variables)

    return healed_step


def _clip_scaled_limit(gradients: list, limit: float, factor: float) -> list:
    import tensorflow as tf

    return tf.clip_by_global_norm(gradients, limit * factor)[0]


def _clip_as_they_are(gradients: list, limit: float, factor: float) -> list:
    import tensorflow as tf

    return tf.clip_by_global_norm(gradients, limit)[0]


def _unscale_and_forget(gradients: list, limit: float, factor: float) -> list:
    return _clip_as_they_are([g / factor for g in gradients], limit, factor)


def _each_alone(gradients: list, limit: float, factor: float) -> list:
    import tensorflow as tf

    return [tf.clip_by_norm(g, limit * factor) for g in gradients]


def _nan_to_zero(gradients: list, limit: float, factor: float) -> list:
    import tensorflow as tf

    return _clip_scaled_limit([tf.where(tf.math.is_finite(g), g, 0.0) for g in gradients], limit, factor)


def _by_value(gradients: list, limit: float, factor: float) -> list:
    import tensorflow as tf

    return [tf.clip_by_value(g, -limit * factor, limit * factor) for g in gradients]


def _half_a_penalty(optimizer: Any, loss: Any, penalty: Any) -> Any:
    return optimizer.scale_loss(loss + penalty / 2)


def _skipped_by_hand(model: Any, optimizer: Any, x: Any, y: Any, limit: float, strength: float) -> None:
    """Leaves the step out before the optimizer can see that it has to."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        scaled = optimizer.scale_loss(_loss(model, x, y) + _penalty(model, strength))
    gradients = tape.gradient(scaled, model.trainable_variables)
    if all(bool(tf.reduce_all(tf.math.is_finite(g))) for g in gradients):
        gradients = _clip_scaled_limit(gradients, limit, float(optimizer.dynamic_scale))
        optimizer.apply(gradients, model.trainable_variables)


def _there_and_back(model: Any, optimizer: Any, x: Any, y: Any, limit: float, strength: float) -> None:
    """Unscale, clip, scale again."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        total = _loss(model, x, y) + strength * tf.add_n(
            [tf.nn.l2_loss(w.value) * 2 for w in model.trainable_variables]
        )
        scaled = optimizer.scale_loss(total)
    s = optimizer.dynamic_scale.value
    true = [g / s for g in tape.gradient(scaled, model.trainable_variables)]
    clipped, _ = tf.clip_by_global_norm(true, limit)
    optimizer.apply_gradients(zip([g * s for g in clipped], model.trainable_variables, strict=True))


def _by_hand(model: Any, optimizer: Any, x: Any, y: Any, limit: float, strength: float) -> float:
    """The norm by numpy, and the scale by hand."""
    import tensorflow as tf

    scale = float(optimizer.dynamic_scale)
    with tf.GradientTape() as tape:
        loss = _loss(model, x, y)
        scaled = scale * loss + scale * _penalty(model, strength)
    gradients = tape.gradient(scaled, model.trainable_variables)
    length = np.sqrt(sum(float(tf.reduce_sum(tf.cast(g, tf.float64) ** 2)) for g in gradients)) / scale
    shrink = limit / length if limit < length < np.inf else 1.0
    optimizer.apply([g * shrink for g in gradients], model.trainable_variables)
    return float(loss)


def _by_the_optimizer(model: Any, optimizer: Any, x: Any, y: Any, limit: float, strength: float) -> None:
    """The inner optimizer sees unscaled gradients, so it may clip."""
    import tensorflow as tf

    optimizer.inner_optimizer.global_clipnorm = limit
    with tf.GradientTape() as tape:
        scaled = optimizer.scale_loss(_loss(model, x, y) + _penalty(model, strength))
    optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)


healed_step = Exercise(
    id="nan_clinic.healed_step",
    inputs=_inputs,
    observer=train_healed,
    right=_step(),
    points={"short gradients": 1, "long gradients": 2, "with a penalty": 2, "a batch that overflows": 1},
    also_right=(_there_and_back, _by_hand, _by_the_optimizer),
    mistakes=(
        Mistake(
            _step(scale=lambda optimizer, loss, penalty: loss + penalty),
            "Nothing is scaled, and the optimizer divides all the same: updates are too small by the loss scale. Call "
            "optimizer.scale_loss inside the tape.",
        ),
        Mistake(
            _step(scale=lambda optimizer, loss, penalty: optimizer.scale_loss(loss) + penalty),
            "The penalty stands outside of scale_loss: it is divided by the loss scale, but was never multiplied by "
            "it. Add it to the loss first.",
        ),
        Mistake(
            _step(clip=_clip_as_they_are),
            "You clip gradients that are still scaled: nearly every step is cut to the limit, and then divided by the "
            "loss scale. Clip at limit * scale, or unscale, clip, and scale again.",
        ),
        Mistake(
            _step(clip=_unscale_and_forget),
            "You unscale, clip, and hand the true gradients over. optimizer.apply divides once more: multiply by the "
            "scale again before.",
        ),
        Mistake(
            _step(clip=lambda gradients, limit, factor: gradients),
            "You do not clip at all: long gradients arrive in full length.",
        ),
        Mistake(
            _step(clip=_each_alone),
            "You clip each gradient by itself. That turns the direction of the step; global clipping shortens all of "
            "them by one factor.",
        ),
        Mistake(
            _step(scale=lambda optimizer, loss, penalty: optimizer.scale_loss(loss)),
            "The penalty is missing from your loss altogether.",
        ),
        Mistake(
            _step(clip=_by_value),
            "You clip value by value. Each gradient keeps its own size below the limit, and the direction of the step "
            "turns: clip by the global norm.",
        ),
        Mistake(
            _step(scale=_half_a_penalty),
            "Your penalty is half of what it should be. tf.nn.l2_loss halves the sum of squares; the task does not.",
        ),
        Mistake(
            _skipped_by_hand,
            "You leave the step out yourself, so the optimizer never hears of the overflow and its scale never comes "
            "down. Hand infinity over: it skips the step, and halves the scale.",
        ),
        Mistake(
            _step(clip=_nan_to_zero),
            "You put zeros where gradients are not finite, so the step is applied and the scale never comes down. Hand "
            "them over as they are: the optimizer skips the step.",
        ),
    ),
    hints=(
        "Four things in this order: add the penalty to the loss; scale the sum inside the tape; gradients; clip.",
        "The gradients are dynamic_scale times too long, and apply divides by it afterwards. So is the limit to be.",
        "tf.clip_by_global_norm(gradients, limit * optimizer.dynamic_scale) gives the gradients to apply, and a norm.",
    ),
    rtol=2e-3,
    atol=1e-6,
    trains=True,
    asks_for=("ampcourse.clinic.usual_step",),
    insight="Whatever has a size of its own, a limit, a penalty, a threshold, must meet gradients of the same scale. "
    "Simplest of all: set global_clipnorm on the inner optimizer, which only ever sees true gradients.",
)
