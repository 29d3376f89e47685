"""Exercise 3: clip by the true global norm, and leave skipping to the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.custom_loops import apply_clipped

Answer = Callable[[Any, list, list, float], None]


def _inputs(rng: np.random.Generator) -> Inputs:
    """A matrix and a vector; true gradients with a chosen global norm, so that it is known what is clipped."""
    shapes = [(4, 3), (5,)]
    values = [rng.normal(size=shape).astype("float32") for shape in shapes]
    clip = float(np.round(rng.uniform(0.5, 2.0), 2))

    def gradients(norm: float) -> list[np.ndarray]:
        raw = [rng.normal(size=shape) for shape in shapes]
        length = np.sqrt(sum((g**2).sum() for g in raw))
        return [(g * norm / length).astype("float32") for g in raw]

    broken = gradients(5 * clip)
    broken[int(rng.integers(2))].flat[int(rng.integers(5))] = np.inf * rng.choice([-1, 1])
    good = [gradients(clip * r) for r in rng.uniform(2, 9, 3)]
    good.insert(int(rng.integers(1, 3)), broken)
    scale = float(2.0 ** rng.integers(10, 16))
    return {
        "gradients that are too long": (values, [gradients(clip * r) for r in rng.uniform(2, 9, 3)], scale, clip),
        "gradients short enough": (values, [gradients(clip * r) for r in rng.uniform(0.2, 0.9, 3)], scale, clip),
        "a step that overflows": (values, good, scale, clip),
    }


def _norm(gradients: list) -> Any:
    import tensorflow as tf

    return tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(g)) for g in gradients]))


def _by_tensorflow(unscale: bool = True, rescale: bool = True, inner: bool = False) -> Answer:
    """Clipping with tf.clip_by_global_norm, with each step open to a mistake."""

    def clip_and_apply(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
        import tensorflow as tf

        scale = tf.identity(optimizer.dynamic_scale.value)
        true = [g / scale for g in gradients] if unscale else gradients
        clipped, _ = tf.clip_by_global_norm(true, clip_norm)
        if inner:
            optimizer.inner_optimizer.apply(clipped, variables)
        else:
            optimizer.apply([g * scale for g in clipped] if rescale else clipped, variables)

    return clip_and_apply


def _each(clip: Callable, scaled: bool = False) -> Answer:
    """Clipping tensor by tensor, which is another thing."""

    def clip_and_apply(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
        scale = 1.0 if scaled else optimizer.dynamic_scale.numpy()
        optimizer.apply([clip(g / scale, clip_norm) * scale for g in gradients], variables)

    return clip_and_apply


def _raises_the_limit(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
    import tensorflow as tf

    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm * optimizer.dynamic_scale)
    optimizer.apply(clipped, variables)


def _by_hand(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
    import tensorflow as tf

    factor = clip_norm / tf.maximum(_norm(gradients) / optimizer.dynamic_scale, clip_norm)
    optimizer.apply([g * factor for g in gradients], variables)


def _by_the_inner_optimizer(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
    optimizer.inner_optimizer.global_clipnorm = clip_norm
    optimizer.apply(gradients, variables)


def _always_full_length(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
    factor = clip_norm * optimizer.dynamic_scale / _norm(gradients)
    optimizer.apply([g * factor for g in gradients], variables)


def _clip_by_norm(gradient: Any, limit: float) -> Any:
    import tensorflow as tf

    return tf.clip_by_norm(gradient, limit)


def _clip_by_value(gradient: Any, limit: float) -> Any:
    import tensorflow as tf

    return tf.clip_by_value(gradient, -limit, limit)


def _lowers_the_limit(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
    import tensorflow as tf

    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm / optimizer.dynamic_scale)
    optimizer.apply(clipped, variables)


def _skips_by_itself(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
    if np.isfinite(_norm(gradients)):
        _raises_the_limit(optimizer, gradients, variables, clip_norm)


def _by_another_norm(norm: Callable[[list], Any]) -> Answer:
    """Clipping all gradients by one factor, with a norm of their own."""

    def clip_and_apply(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
        import tensorflow as tf

        scale = optimizer.dynamic_scale.numpy()
        factor = clip_norm / tf.maximum(norm([g / scale for g in gradients]), clip_norm)
        optimizer.apply([g * factor for g in gradients], variables)

    return clip_and_apply


def _sum_of_norms(gradients: list) -> Any:
    import tensorflow as tf

    return tf.add_n([tf.norm(g) for g in gradients])


def _replaces_broken(optimizer: Any, gradients: list, variables: list, clip_norm: float) -> None:
    import tensorflow as tf

    clean = [tf.where(tf.math.is_finite(g), g, tf.zeros_like(g)) for g in gradients]
    _raises_the_limit(optimizer, clean, variables, clip_norm)


clip_and_apply = Exercise(
    id="custom_loops.clip_and_apply",
    inputs=_inputs,
    observer=apply_clipped,
    right=_by_tensorflow(),
    points={"gradients that are too long": 2, "gradients short enough": 1, "a step that overflows": 1},
    also_right=(_raises_the_limit, _by_hand, _by_the_inner_optimizer),
    mistakes=(
        Mistake(
            _by_tensorflow(unscale=False, rescale=False),
            "You clip the scaled gradients at a limit meant for true ones. They are longer by the loss scale, so next "
            "to nothing is left of them after `apply` has divided.",
        ),
        Mistake(
            _by_tensorflow(rescale=False),
            "You unscale and clip, but then `apply` divides by the loss scale once more. Multiply the clipped "
            "gradients by the scale again, or raise the limit instead of lowering the gradients.",
        ),
        Mistake(
            _by_tensorflow(inner=True),
            "You clip the right gradients, then go round the LossScaleOptimizer: nobody skips the step that "
            "overflows, and the scale never falls. Give it gradients that are still scaled.",
        ),
        Mistake(
            _each(_clip_by_norm),
            "You clip each gradient by its own norm. The global norm is that of all of them together, so that the "
            "direction of the update stays.",
        ),
        Mistake(
            _each(_clip_by_norm, scaled=True),
            "You clip each gradient by its own norm, and scaled ones at that: next to nothing is left after `apply`.",
        ),
        Mistake(
            _each(_clip_by_value),
            "You clip value by value. That bends the direction, and it turns infinity into the limit: the overflow is "
            "hidden from the optimizer, and a made-up number is applied.",
        ),
        Mistake(
            _each(_clip_by_value, scaled=True),
            "You clip scaled gradients value by value. Nearly all of them end at the limit, infinity too, and next to "
            "nothing is left after `apply`.",
        ),
        Mistake(
            lambda optimizer, gradients, variables, clip_norm: optimizer.apply(gradients, variables),
            "You do not clip at all.",
        ),
        Mistake(
            _always_full_length,
            "You bring every gradient to exactly the limit. Shorter ones must stay as they are.",
        ),
        Mistake(
            _replaces_broken,
            "You put zeros where a gradient is not finite and apply the rest. The optimizer must see the infinity to "
            "skip the step and to halve its scale.",
        ),
        Mistake(
            _lowers_the_limit,
            "You divide the limit by the loss scale. The gradients are longer by the scale, so their limit is, too: "
            "multiply.",
        ),
        Mistake(
            _skips_by_itself,
            "You keep the broken step from the optimizer. It has to see the infinity: only optimizer.apply can halve "
            "the scale, and it skips by itself.",
        ),
        Mistake(
            _by_another_norm(_sum_of_norms),
            "You add up the norms of the tensors. The global norm is the root of the sum of all squares, which is "
            "smaller: your updates are too short.",
        ),
        Mistake(
            _by_another_norm(lambda gradients: _norm(gradients) ** 2),
            "You compare the *square* of the norm with the limit: take the root.",
        ),
        Mistake(
            lambda optimizer, gradients, variables, clip_norm: None,
            "Nothing moves: the clipped gradients have to be handed to optimizer.apply.",
        ),
    ),
    hints=(
        "How long are the gradients that you are given, compared with the true ones?",
        "Two ways: divide by optimizer.dynamic_scale, clip, multiply again; or clip at clip_norm * dynamic_scale.",
        "clipped, _ = tf.clip_by_global_norm(gradients, limit), then optimizer.apply(clipped, variables). Infinity "
        "needs no care: the global norm is infinite then, and what comes out is NaN, which is skipped.",
    ),
    rtol=1e-4,
    atol=1e-7,
    trains=True,
    asks_for=("ampcourse.training.on_tensorflow.Step",),
    insight="A limit on the gradients means the true ones. Simplest of all is to let the inner optimizer clip: "
    "LossScaleOptimizer(SGD(0.1, global_clipnorm=1.0)) unscales first, and needs no line in your loop.",
)
