"""Exercise 5: loss scaling that is right together with the rewrite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.graph_amp import train_rewritten

LEARNING_RATE = 0.1
Batch = tuple[np.ndarray, np.ndarray]


def _inputs(rng: np.random.Generator) -> Inputs:
    """A linear model with 3 inputs and 2 outputs, in batches of 16."""

    def batch(x: float, y: float) -> Batch:
        return tuple((rng.normal(size=(16, n)) * s).astype(np.float32) for n, s in ((3, x), (2, y)))

    def tiny() -> Batch:
        """Without scaling every activation gradient is below 2**-25; the weight gradients lie among the subnormals."""
        y = rng.uniform(0.6e-4, 1.1e-4, (4096, 2)) * rng.choice([-1.0, 1.0], (4096, 2))
        return (rng.normal(size=(4096, 3)) * 0.1).astype(np.float32), y.astype(np.float32)

    good = [batch(1.0, 1.0) for _ in range(4)]
    x, y = map(np.abs, batch(1.0, 1.0))  # of one sign: the sums become infinite, and not NaN
    y[:, int(rng.integers(2))] *= np.float32(6000.0)  # overflows with the loss scale only, and in one column only
    good.insert(int(rng.integers(1, 3)), (x, y))
    return {
        "small gradients": (np.zeros((3, 2), np.float32), [tiny() for _ in range(3)], 2.0**15),
        "ordinary gradients": (
            rng.normal(size=(3, 2)).astype(np.float32),
            [batch(1.0, 1.0) for _ in range(4)],
            float(2.0 ** rng.integers(5, 10)),
        ),
        "a batch that overflows": (
            rng.normal(size=(3, 2)).astype(np.float32),
            good,
            float(2.0 ** rng.integers(10, 12)),
        ),
    }


def _loss(w: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_mean(tf.square(x @ w - y))


def _gradient(w: Any, x: Any, y: Any, scale: float) -> Any:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = _loss(w, x, y) * scale
    return tape.gradient(loss, w)


def _in_float64(g: Any, scale: float) -> Any:
    import tensorflow as tf

    return tf.cast(tf.cast(g, tf.float64) / scale, tf.float32)


def _directly(g: Any, scale: float) -> Any:
    return g / scale


def _step(
    unscale: Callable[[Any, float], Any] = _in_float64,
    scale_by: Callable[[float], float] = lambda scale: scale,
    skip: bool = True,
    rate: Callable[[float], float] = lambda scale: LEARNING_RATE,
    replace: bool = False,
) -> Callable:
    """The right step, with each of its parts open to a mistake."""

    def rewritten_step(w: Any, x: Any, y: Any, loss_scale: float) -> None:
        import tensorflow as tf

        g = unscale(_gradient(w, x, y, scale_by(loss_scale)), loss_scale)
        finite = tf.math.is_finite(g) if replace else tf.reduce_all(tf.math.is_finite(g))
        kept = tf.where(finite, g, tf.zeros_like(g)) if skip else g
        w.assign_sub(rate(loss_scale) * kept)

    return rewritten_step


def _without_a_list(w: Any, x: Any, y: Any, loss_scale: float) -> None:
    import tensorflow as tf

    g = tf.math.divide_no_nan(_gradient(w, x, y, loss_scale), loss_scale)
    if tf.reduce_all(tf.math.is_finite(g)):
        w.assign_sub(LEARNING_RATE * g)


def _in_a_branch(w: Any, x: Any, y: Any, loss_scale: float) -> None:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        scaled = loss_scale * tf.reduce_mean(tf.math.squared_difference(x @ w, y))
    g = tape.gradient(scaled, w)
    if tf.math.is_finite(tf.reduce_sum(tf.abs(g))):
        w.assign(w - LEARNING_RATE * (g / loss_scale))


def _scales_afterwards(w: Any, x: Any, y: Any, loss_scale: float) -> None:
    g = _gradient(w, x, y, 1.0) * loss_scale
    _apply_finite(w, _in_float64(g, loss_scale))


def _not_nan(w: Any, x: Any, y: Any, loss_scale: float) -> None:
    import tensorflow as tf

    g = _in_float64(_gradient(w, x, y, loss_scale), loss_scale)
    if not tf.reduce_any(tf.math.is_nan(g)):
        w.assign_sub(LEARNING_RATE * g)


def _rate_first(w: Any, x: Any, y: Any, loss_scale: float) -> None:
    import tensorflow as tf

    g = _gradient(w, x, y, loss_scale)
    update = LEARNING_RATE * g / loss_scale
    w.assign_sub(tf.where(tf.reduce_all(tf.math.is_finite(g)), update, tf.zeros_like(g)))


def _times_zero(w: Any, x: Any, y: Any, loss_scale: float) -> None:
    import tensorflow as tf

    g = _in_float64(_gradient(w, x, y, loss_scale), loss_scale)
    w.assign_sub(LEARNING_RATE * tf.cast(tf.reduce_all(tf.math.is_finite(g)), tf.float32) * g)


def _apply_finite(w: Any, g: Any) -> None:
    import tensorflow as tf

    if tf.reduce_all(tf.math.is_finite(g)):
        w.assign_sub(LEARNING_RATE * g)


rewritten_step = Exercise(
    id="graph_amp.rewritten_step",
    inputs=_inputs,
    observer=train_rewritten,
    right=_step(),
    points={"small gradients": 3, "ordinary gradients": 1, "a batch that overflows": 2},
    also_right=(_without_a_list, _in_a_branch),
    mistakes=(
        Mistake(
            _step(unscale=_directly),
            "You unscale with a division that the rewriter turns into float16 (RealDiv is on the infer list and stands "
            "directly behind the gradient), so small gradients are rounded or flushed after all. Divide in float64, "
            "or with an operation on no list, or inside a branch.",
        ),
        Mistake(
            _step(scale_by=lambda scale: 1.0, unscale=lambda g, scale: g),
            "You leave the loss scale out, and the rewriter brings none along: small gradients are flushed.",
        ),
        Mistake(
            _step(unscale=lambda g, scale: g),
            "You never unscale: your updates are too large by the loss scale.",
        ),
        Mistake(
            _step(scale_by=lambda scale: 1.0),
            "You unscale gradients that were never scaled: multiply the loss inside the tape.",
        ),
        Mistake(
            _step(skip=False),
            "You apply the step although a gradient is not finite: all weights are lost. Skip it.",
        ),
        Mistake(
            _step(replace=True),
            "You set only those entries to 0 that are not finite, and apply the others. Skip the whole update if any "
            "entry of the gradient is not finite: tf.reduce_all.",
        ),
        Mistake(
            _not_nan,
            "You look for NaN only. A gradient that overflows may be infinite without a NaN in it: ask "
            "tf.math.is_finite.",
        ),
        Mistake(
            _rate_first,
            "You multiply by the learning rate and divide by the loss scale in float16: both are Mul and RealDiv, on "
            "the infer list, behind the gradient. The update is smaller than what float16 can hold, and is flushed or "
            "rounded. Unscale in float64, or with an operation on no list, or inside a branch.",
        ),
        Mistake(
            _times_zero,
            "You multiply by 0 to skip, but infinity times 0 is NaN, and NaN times 0 too: all weights are lost. Choose "
            "with `if`, tf.cond or tf.where.",
        ),
        Mistake(
            _scales_afterwards,
            "Small gradients are lost, every one. Either you multiply the gradient and not the loss, and what "
            "backpropagation has flushed stays 0; or your update is computed in float16 after the loss scale has been "
            "taken out, and is flushed there. Let rewritten_graph show you in which dtype it runs.",
        ),
        Mistake(
            lambda w, x, y, loss_scale: None,
            "Your step changes nothing. Update the weights with w.assign_sub.",
        ),
        Mistake(
            _step(rate=lambda scale: -LEARNING_RATE),
            "You go uphill: subtract the gradient.",
        ),
        Mistake(
            _step(rate=lambda scale: 1.0),
            "You leave out the learning rate, 0.1.",
        ),
    ),
    hints=(
        "The parts are those of lesson 02: scale the loss inside the tape, unscale, all finite?, apply or skip. A "
        "Python `if` on a tensor is fine here: tf.function turns it into a branch of the graph.",
        "Let rewritten_graph show you the RealDiv of your step. In which dtype does it run? Why?",
        "tf.cast(tf.cast(g, tf.float64) / loss_scale, tf.float32) is out of the rewriter's reach: it only ever changes "
        "float32.",
    ),
    atol=0.03,
    trains=True,
    asks_for=("ampcourse.amp.rewritten_graph", "ampcourse.amp.graph_pass.run"),
    insight="The rewriter does not know what a loss scale is: to it, unscaling is one more division. The "
    "LossScaleOptimizer of Keras comes through because it unscales inside a branch. That is luck, so look.",
)
