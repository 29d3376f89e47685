"""Exercise 6: one training step with loss scaling, written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.loss_scaling import train_scaled

Batch = tuple[np.ndarray, np.ndarray]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Batches of 16 for a model from 3 numbers to 2; where one is bad differs from seed to seed."""
    weights = [rng.normal(size=(3, 2)).astype("float32"), rng.normal(size=2).astype("float32")]

    def batch(x_size: float = 1.0, y_size: float = 1.0) -> Batch:
        x, y = rng.normal(size=(16, 3)) * x_size, rng.normal(size=(16, 2)) * y_size
        return x.astype("float32"), y.astype("float32")

    def among_good(bad: Batch) -> list[Batch]:
        batches = [batch() for _ in range(4)]
        batches.insert(int(rng.integers(1, 3)), bad)
        return batches

    tiny, one_sided = batch(2.0**-9), batch(2.0**-12)
    return {
        # errors so small that without scaling their float16 gradients are flushed
        "small gradients": ([w * 0 for w in weights], [batch(1.0, 3e-7) for _ in range(4)], float(2.0**15)),
        "ordinary gradients": (weights, [batch() for _ in range(4)], float(2.0 ** rng.integers(6, 11))),
        "a batch whose kernel gradient overflows": (weights, among_good(batch(2e3)), float(2.0 ** rng.integers(8, 10))),
        "a batch whose bias gradient alone overflows": (
            weights,
            among_good((one_sided[0], tiny[1] + np.float32(3e3))),
            float(2.0 ** rng.integers(6, 8)),
        ),
    }


def _loss(model: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_mean(tf.square(tf.cast(model(x, training=True), tf.float32) - y))


def _gradients(model: Any, x: Any, y: Any, scale: float) -> tuple[list, Any]:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = _loss(model, x, y) * scale
    return tape.gradient(loss, model.trainable_variables), loss


def _all_finite(gradients: list) -> bool:
    return all(np.isfinite(g.numpy()).all() for g in gradients)


def _step(
    scale_by: Callable[[float], float] = lambda s: s,
    divide_by: Callable[[float], float] = lambda s: s,
    finite: Callable[[list, Any], bool] = lambda gradients, loss: _all_finite(gradients),
    skip: bool = True,
) -> Callable:
    """The right step, with each of its parts open to a mistake."""

    def scaled_step(model: Any, optimizer: Any, x: Any, y: Any, loss_scale: float) -> bool:
        gradients, loss = _gradients(model, x, y, scale_by(loss_scale))
        gradients = [g / divide_by(loss_scale) for g in gradients]
        ok = finite(gradients, loss)
        if ok or not skip:
            optimizer.apply(gradients, model.trainable_variables)
        return ok

    return scaled_step


def _with_tensorflow_only(model: Any, optimizer: Any, x: Any, y: Any, loss_scale: float) -> bool:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.cast(model(x), tf.float32) - y) ** 2)
        scaled = loss_scale * loss
    gradients = tape.gradient(scaled, model.weights)
    pairs = [(g * (1 / loss_scale), v) for g, v in zip(gradients, model.weights, strict=True)]
    if tf.reduce_any([tf.reduce_any(~tf.math.is_finite(g)) for g, _ in pairs]):
        return False
    optimizer.apply_gradients(pairs)
    return True


def _checks_the_sum(model: Any, optimizer: Any, x: Any, y: Any, loss_scale: float) -> bool:
    import keras

    gradients, _ = _gradients(model, x, y, loss_scale)
    if not bool(keras.ops.isfinite(sum(keras.ops.sum(keras.ops.absolute(g)) for g in gradients))):
        return False
    optimizer.apply([keras.ops.divide(g, loss_scale) for g in gradients], model.trainable_variables)
    return True


def _replaces_broken(model: Any, optimizer: Any, x: Any, y: Any, loss_scale: float) -> bool:
    gradients, _ = _gradients(model, x, y, loss_scale)
    clean = [np.nan_to_num(g.numpy() / loss_scale, nan=0.0, posinf=0.0, neginf=0.0) for g in gradients]
    optimizer.apply(clean, model.trainable_variables)
    return True


def _says_nothing(model: Any, optimizer: Any, x: Any, y: Any, loss_scale: float) -> None:
    _step()(model, optimizer, x, y, loss_scale)


def _applies_then_unscales(model: Any, optimizer: Any, x: Any, y: Any, loss_scale: float) -> bool:
    gradients, _ = _gradients(model, x, y, loss_scale)
    if _all_finite(gradients):
        optimizer.apply(gradients, model.trainable_variables)
        model.set_weights([w / loss_scale for w in model.get_weights()])
        return True
    return False


def _in_float16(model: Any, optimizer: Any, x: Any, y: Any, loss_scale: float) -> bool:
    import tensorflow as tf

    gradients, _ = _gradients(model, x, y, loss_scale)
    gradients = [tf.cast(tf.cast(g, tf.float16) / loss_scale, tf.float32) for g in gradients]
    if _all_finite(gradients):
        optimizer.apply(gradients, model.trainable_variables)
        return True
    return False


scaled_step = Exercise(
    id="loss_scaling.scaled_step",
    inputs=_inputs,
    observer=train_scaled,
    right=_step(),
    points={
        "small gradients": 2,
        "ordinary gradients": 2,
        "a batch whose kernel gradient overflows": 1,
        "a batch whose bias gradient alone overflows": 1,
    },
    also_right=(_with_tensorflow_only, _checks_the_sum),
    mistakes=(
        Mistake(
            _step(scale_by=lambda s: 1.0, divide_by=lambda s: 1.0),
            "You leave the loss scale out altogether: small gradients are flushed to 0 on the way back, "
            "and those weights do not move.",
        ),
        Mistake(
            _step(divide_by=lambda s: 1.0),
            "You scale the loss but never unscale: your updates are too large by the loss scale.",
        ),
        Mistake(
            _step(scale_by=lambda s: 1.0),
            "You unscale gradients that were never scaled: the loss has to be multiplied by the scale inside the tape.",
        ),
        Mistake(
            _step(skip=False),
            "You apply the step although a gradient is not finite; all it touches is NaN from then on. Skip it.",
        ),
        Mistake(
            _step(finite=lambda gradients, loss: bool(np.isfinite(loss.numpy()))),
            "You check the loss, or look for NaN only. The loss is float32 and stays finite while a float16 gradient "
            "overflows, and what overflows is infinite, not always NaN: check all gradients with np.isfinite.",
        ),
        Mistake(
            _step(finite=lambda gradients, loss: bool(np.isfinite(gradients[0].numpy()).all())),
            "You check the first gradient only. A step is good if *every* gradient of every variable is finite.",
        ),
        Mistake(
            _says_nothing,
            "Your step does the right things but never returns True: say so after the update.",
        ),
        Mistake(
            _replaces_broken,
            "You put zeros where gradients are not finite and apply the rest. Half a gradient is a wrong gradient, and "
            "momentum decays: skip the whole step, and return False.",
        ),
        Mistake(
            _applies_then_unscales,
            "You divide the *weights* by the scale after the update. The gradients must be divided, before it.",
        ),
        Mistake(
            _in_float16,
            "You unscale in float16, which flushes the small gradients again. Divide in float32.",
        ),
    ),
    hints=(
        "Five things in this order: scale the loss inside the tape (outside it, the gradients are None); gradients; "
        "unscale; all finite?; apply or skip.",
        "tape.gradient(scaled_loss, model.trainable_variables) gives float32 tensors here, one for each variable.",
        "all(np.isfinite(g).all() for g in gradients) decides; optimizer.apply(gradients, model.trainable_variables).",
    ),
    rtol=1e-3,
    atol=1e-12,
    trains=True,
    asks_for=("ampcourse.models.density.train", "ampcourse.models.density.gradients", "ampcourse.models.loops.train"),
    insight="These five steps are all that a LossScaleOptimizer does, next to moving the scale. A skipped step changes "
    "nothing: no weight, no momentum, no count of iterations.",
)
