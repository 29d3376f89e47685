"""Exercise 5: many small batches as one large one, of unequal sizes, while the loss scale changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

Micro = list[tuple[np.ndarray, float, int]]
Answer = Callable[[Micro, float], Any]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Micro-batches as (scaled gradient of the mean loss, its scale, number of samples), and the scale of the end."""

    def micro(exponents: list[int], equal: bool = False, broken: int = -1) -> tuple[Micro, float]:
        size, count, batches = int(rng.integers(3, 6)), int(rng.integers(4, 33)), []
        for place, exponent in enumerate(exponents):
            gradient = (rng.normal(rng.normal(), 1, size) * 2.0**exponent).astype("float32")
            if place == broken:
                gradient[rng.integers(size)] = np.inf * rng.choice([-1, 1])
            samples = count if equal else int(rng.integers(1, 33))
            batches.append((gradient, float(2.0**exponent), samples))
        return batches, float(2.0 ** exponents[-1])

    e, first = int(rng.integers(10, 16)), int(rng.integers(1, 4))
    return {
        "equal sizes, one scale": micro([e] * 4, equal=True),
        "unequal sizes": micro([e] * 5),
        "the scale changes on the way": micro([e] * first + [e - 1] * (5 - first)),
        "a micro-batch that overflowed": micro([e] * (first + 1) + [e - 1] * 3, broken=first),
    }


def _sum(
    scale_of: Callable[[Micro, int], float] = lambda micro, i: micro[i][1],
    weight: Callable[[int], float] = lambda samples: samples,
    total: Callable[[Micro, list], float] = lambda micro, used: sum(n for _, _, n in used),
    keep: Callable[[np.ndarray], bool] = lambda g: bool(np.isfinite(g).all()),
    rescales: bool = True,
) -> Answer:
    """The right answer, with each of its parts open to a mistake."""

    def combined(micro_batches: Micro, scale: float) -> np.ndarray:
        places = [i for i, (g, _, _) in enumerate(micro_batches) if keep(g)]
        used = [micro_batches[i] for i in places]
        terms = [weight(micro_batches[i][2]) * micro_batches[i][0] / scale_of(micro_batches, i) for i in places]
        mean = np.sum(terms, axis=0) / total(micro_batches, used)
        return mean * (scale if rescales else 1)

    return combined


def _running(micro_batches: Micro, scale: float) -> np.ndarray:
    total, seen = np.zeros(len(micro_batches[0][0]), np.float64), 0
    for gradient, its_scale, samples in micro_batches:
        if np.isfinite(gradient).all():
            seen += samples
            total += (gradient / its_scale - total) * (samples / seen)
    return total * scale


def _in_tensorflow(micro_batches: Micro, scale: float) -> Any:
    import tensorflow as tf

    gradients = tf.stack([tf.constant(g, tf.float32) for g, _, _ in micro_batches])
    good = tf.reduce_all(tf.math.is_finite(gradients), axis=1)
    factors = tf.constant([scale / s * n for _, s, n in micro_batches], tf.float32)[:, None]
    samples = tf.boolean_mask(tf.constant([float(n) for _, _, n in micro_batches]), good)
    return tf.reduce_sum(tf.boolean_mask(gradients * factors, good), axis=0) / tf.reduce_sum(samples)


combined = Exercise(
    id="batch_and_memory.combined",
    inputs=_inputs,
    right=_sum(),
    points={
        "equal sizes, one scale": 1,
        "unequal sizes": 1,
        "the scale changes on the way": 2,
        "a micro-batch that overflowed": 1,
    },
    also_right=(_running, _in_tensorflow),
    mistakes=(
        Mistake(
            _sum(scale_of=lambda micro, i: micro[-1][1]),
            "You take all gradients for scaled by the last scale. Those from before a halving then count double: "
            "divide each by the scale it was made with.",
        ),
        Mistake(
            _sum(scale_of=lambda micro, i: micro[0][1]),
            "You take all gradients for scaled by the first scale. Those from after a halving then count half: divide "
            "each by the scale it was made with.",
        ),
        Mistake(
            _sum(rescales=False),
            "Your mean is right, but unscaled. optimizer.apply will divide by the loss scale: multiply by `scale` at "
            "the end.",
        ),
        Mistake(
            _sum(weight=lambda n: 1, total=lambda micro, used: len(used)),
            "Each micro-batch counts alike in your mean, so a sample in a small one counts for more. Weigh by samples.",
        ),
        Mistake(
            _sum(total=lambda micro, used: 1),
            "You return the sum over the samples. The gradient of the mean loss is the mean: divide by their number.",
        ),
        Mistake(
            _sum(weight=lambda n: 1, total=lambda micro, used: 1),
            "You add up means. The sum is too large by the number of micro-batches: take the mean over the samples.",
        ),
        Mistake(
            _sum(total=lambda micro, used: sum(n for _, _, n in micro)),
            "You leave the broken micro-batch out of the sum, but its samples are still in the divisor.",
        ),
        Mistake(
            _sum(keep=lambda g: True),
            "You add gradients that overflowed, and one infinity spoils the whole sum: leave that micro-batch out.",
        ),
    ),
    hints=(
        "Bring every gradient to the same unit first: divide it by its own scale.",
        "Leave out what is not finite. Add up samples * gradient / its_scale, and the samples.",
        "Sum over samples, divided by their number, times `scale`.",
    ),
    rtol=1e-4,
    atol=1e-5,
    asks_for=("ampcourse.training.on_tensorflow.Step",),
    insight="Add only what is in the same unit: gradients with the same scale, means weighed by their samples. Keras's "
    "gradient_accumulation_steps unscales first, but takes all micro-batches for equally large.",
)
