"""Exercise 4: accumulate gradients over micro-batches while the loss scale changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

Micro = list[tuple[np.ndarray, float]]
Answer = Callable[[Micro], Any]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Micro-batches as (scaled gradient, scale); a halving, or a gradient that overflowed, at another place by seed."""

    def micro(exponents: list[int], broken: int = 99) -> tuple[Micro]:
        """From `broken` on, one gradient with an infinity and one with NaN."""
        size, batches = int(rng.integers(3, 6)), []
        for place, exponent in enumerate(exponents):
            gradient = (rng.normal(size=size) * 2.0**exponent).astype("float32")
            if place == broken:
                gradient[rng.integers(size)] = np.inf * rng.choice([-1, 1])
            elif place == broken + 1:
                gradient[rng.integers(size)] = np.nan
            batches.append((gradient, float(2.0**exponent)))
        return (batches,)

    e, first = int(rng.integers(12, 16)), int(rng.integers(1, 3))
    at = int(rng.integers(1, 3))
    return {
        "one scale throughout": micro([e] * 4),
        "the scale halves on the way": micro([e] * first + [e - 1] * (4 - first)),
        "micro-batches that overflowed": micro([e] * (at + 1) + [e - 1] + [e - 2] * (4 - at), broken=at),
    }


def _mean(
    scale_of: Callable[[Micro, int], float] = lambda micro, i: micro[i][1],
    keep: Callable[[np.ndarray], bool] = lambda g: bool(np.isfinite(g).all()),
    share: Callable[[int, int], float] = lambda used, all_: 1 / used,
    clean: Callable[[np.ndarray], np.ndarray] = lambda g: g,
) -> Answer:
    """The right mean, with each of its parts open to a mistake."""

    def accumulated(micro_batches: Micro) -> np.ndarray:
        used = [clean(g) / np.float32(scale_of(micro_batches, i)) for i, (g, _) in enumerate(micro_batches) if keep(g)]
        return np.sum(used, axis=0) * np.float32(share(len(used), len(micro_batches)))

    return accumulated


def _running(micro_batches: Micro) -> np.ndarray:
    total, count = np.zeros_like(micro_batches[0][0]), 0
    for scaled, scale in micro_batches:
        if np.all(np.isfinite(scaled)):
            total += scaled / scale
            count += 1
    return total / count


def _in_tensorflow(micro_batches: Micro) -> Any:
    import tensorflow as tf

    true = tf.stack([tf.constant(g) / s for g, s in micro_batches])
    good = tf.reduce_all(tf.math.is_finite(true), axis=1)
    return tf.reduce_mean(tf.boolean_mask(true, good), axis=0)


def _rescaling(micro_batches: Micro) -> np.ndarray:
    """Keeps the sum scaled, and corrects it whenever the scale changes."""
    total, count, now = np.zeros_like(micro_batches[0][0]), 0, micro_batches[0][1]
    for scaled, scale in micro_batches:
        total, now = total * np.float32(scale / now), scale
        if not np.isfinite(scaled).all():
            continue
        total, count = total + scaled, count + 1
    return total / np.float32(now) / count


def _zero(g: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(g), g, np.float32(0))


def _until_one_breaks(micro_batches: Micro) -> np.ndarray:
    broken = [not np.isfinite(g).all() for g, _ in micro_batches]
    return _mean()(micro_batches[: broken.index(True)] if any(broken) else micro_batches)


def _all_or_nothing(micro_batches: Micro) -> np.ndarray:
    if all(np.isfinite(g).all() for g, _ in micro_batches):
        return _mean()(micro_batches)
    return np.zeros_like(micro_batches[0][0])


def _last_only(micro_batches: Micro) -> np.ndarray:
    gradient, scale = [(g, s) for g, s in micro_batches if np.isfinite(g).all()][-1]
    return gradient / np.float32(scale)


def _element_by_element(micro_batches: Micro) -> np.ndarray:
    true = np.array([g / np.float32(s) for g, s in micro_batches])
    return np.nanmean(np.where(np.isfinite(true), true, np.nan), axis=0)


accumulated = Exercise(
    id="custom_loops.accumulated",
    inputs=_inputs,
    right=_mean(),
    points={"one scale throughout": 1, "the scale halves on the way": 2, "micro-batches that overflowed": 1},
    also_right=(_running, _in_tensorflow, _rescaling),
    mistakes=(
        Mistake(
            _mean(scale_of=lambda micro, i: micro[-1][1]),
            "You divide all of them by the last scale. Those from before a halving then count double: divide each by "
            "the scale that it was made with, before you add.",
        ),
        Mistake(
            _mean(scale_of=lambda micro, i: micro[0][1]),
            "You divide all of them by the first scale. Those from after a halving then count half: divide each by "
            "the scale that it was made with, before you add.",
        ),
        Mistake(
            _mean(scale_of=lambda micro, i: float(np.mean([s for _, s in micro]))),
            "You divide by the mean scale. That is right for none of them: divide each by its own, before you add.",
        ),
        Mistake(
            _mean(scale_of=lambda micro, i: 1.0),
            "You never unscale: what you return is too large by the loss scale.",
        ),
        Mistake(
            _mean(share=lambda used, all_: 1.0),
            "You return the sum. The gradient of the whole batch's mean loss is the mean.",
        ),
        Mistake(
            _mean(share=lambda used, all_: 1 / all_),
            "You leave the broken micro-batch out of the sum, but count it in the mean: divide by the number used.",
        ),
        Mistake(
            _mean(keep=lambda g: True),
            "You add gradients that overflowed. One infinity, and the whole sum is lost: leave that micro-batch out.",
        ),
        Mistake(
            _mean(keep=lambda g: not np.isnan(g).any()),
            "You look for NaN only. What overflows is infinite first: use np.isfinite.",
        ),
        Mistake(
            _mean(keep=lambda g: True, clean=_zero),
            "You replace what is not finite by 0 and use the rest. A gradient with holes is a wrong gradient: leave "
            "the whole micro-batch out.",
        ),
        Mistake(
            _until_one_breaks,
            "You stop at the first micro-batch that overflowed. Those after it are good: `continue`, not `break`.",
        ),
        Mistake(
            _all_or_nothing,
            "One broken micro-batch, and you give up the whole step. The others are good gradients: take their mean.",
        ),
        Mistake(
            _last_only,
            "Only the last micro-batch is in your result: each round of the loop overwrites what was there. Add up.",
        ),
        Mistake(
            _mean(scale_of=lambda micro, i: 1 / micro[i][1]),
            "You multiply by the scale. The gradients are scaled already: divide.",
        ),
        Mistake(
            _element_by_element,
            "You leave out single elements, so that each place is a mean over other micro-batches. Leave the whole "
            "micro-batch out.",
        ),
    ),
    hints=(
        "Which number does each gradient have to be divided by, and when?",
        "for gradient, scale in micro_batches: unscale first, then add.",
        "Skip a micro-batch unless np.isfinite(gradient).all(), and divide at the end by how many you used.",
    ),
    rtol=1e-5,
    atol=1e-7,
    asks_for=("ampcourse.training.on_tensorflow.Step",),
    insight="Scaled gradients made with different scales are in different units, and must not be added. Unscale first, "
    "then accumulate; the built-in gradient_accumulation_steps works in this order.",
)
