"""Exercise 6: a batch normalisation that is right under float16 inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.resnet import normalised

EPSILON, MOMENTUM, AXES = 1e-3, 0.9, (0, 1, 2)


def _inputs(rng: np.random.Generator) -> Inputs:
    """Pictures of three channels; the spread is wide against float16's gaps."""

    def case(middle: float, spread: float, training: bool) -> tuple:
        shape = (8, 5, 6, 3)
        middles = middle * rng.uniform(0.8, 1.2, 3) * rng.choice([-1, 1], 3)
        spreads = spread * rng.uniform(0.7, 1.3, 3)
        x = (rng.normal(size=shape) * spreads + middles).astype(np.float16).astype(np.float32)
        moving = middles * rng.uniform(0.8, 1.2, 3), spreads**2 * rng.uniform(0.5, 2, 3)
        parameters = [rng.uniform(0.5, 2, 3), rng.uniform(0.5, 2, 3), *moving]
        return "float16", x, [p.astype(np.float32) for p in parameters], training

    return {
        "training": case(1.5, 1.0, True),
        "training, large activations": case(2000.0, 400.0, True),
        "inference": case(1.0, 1.5, False),
    }


def _norm(
    compute: str | None = "float32",
    *,
    momentum: float = MOMENTUM,
    out: str | None = None,
    batch_when: Callable[[bool], bool] = lambda training: training,
    move_when: Callable[[bool], bool] = lambda training: training,
    by_squares: bool = False,
    kept_in: str | None = None,
    root: bool = True,
    scale: bool = True,
) -> Callable[..., Any]:
    """The right answer, with each of its parts open to a mistake."""

    def batch_norm(x: Any, gamma: Any, beta: Any, moving_mean: Any, moving_variance: Any, training: bool) -> Any:
        import tensorflow as tf

        wide = tf.cast(x, compute or x.dtype)
        mean = tf.reduce_mean(wide, AXES)
        if by_squares:
            variance = tf.reduce_mean(wide * wide, AXES) - mean * mean
        else:
            variance = tf.reduce_mean(tf.square(wide - mean), AXES)
        moved = [
            tf.cast(momentum * old + (1 - momentum) * tf.cast(new, tf.float32), kept_in or tf.float32)
            for old, new in ((moving_mean, mean), (moving_variance, variance))
        ]
        if not batch_when(training):
            mean, variance = (tf.cast(old, wide.dtype) for old in (moving_mean, moving_variance))
        under = variance + EPSILON
        result = (wide - mean) / (tf.sqrt(under) if root else under)
        if scale:
            result = result * tf.cast(gamma, wide.dtype) + tf.cast(beta, wide.dtype)
        kept = moved if move_when(training) else [moving_mean, moving_variance]
        return tf.cast(result, out or x.dtype), *kept

    return batch_norm


def _one_for_all(x: Any, gamma: Any, beta: Any, moving_mean: Any, moving_variance: Any, training: bool) -> Any:
    import tensorflow as tf

    if not training:
        return _norm()(x, gamma, beta, moving_mean, moving_variance, training)
    mean, variance = tf.nn.moments(tf.cast(x, tf.float32), [0, 1, 2, 3])
    result = gamma * (tf.cast(x, tf.float32) - mean) / tf.sqrt(variance + EPSILON) + beta
    kept = MOMENTUM * moving_mean + 0.1 * mean, MOMENTUM * moving_variance + 0.1 * variance
    return tf.cast(result, x.dtype), *kept


def _with_moments(x: Any, gamma: Any, beta: Any, moving_mean: Any, moving_variance: Any, training: bool) -> Any:
    import tensorflow as tf

    mean, variance = moving_mean, moving_variance
    if training:
        mean, variance = tf.nn.moments(tf.cast(x, tf.float32), [0, 1, 2])
        moving_mean = moving_mean + (1 - MOMENTUM) * (mean - moving_mean)
        moving_variance = moving_variance + (1 - MOMENTUM) * (variance - moving_variance)
    result = tf.nn.batch_normalization(tf.cast(x, tf.float32), mean, variance, beta, gamma, EPSILON)
    return tf.cast(result, x.dtype), moving_mean, moving_variance


def _in_numpy(x: Any, gamma: Any, beta: Any, moving_mean: Any, moving_variance: Any, training: bool) -> Any:
    import tensorflow as tf

    wide = tf.cast(x, tf.float64).numpy()
    mean, variance = moving_mean.numpy(), moving_variance.numpy()
    kept = mean, variance
    if training:
        flat = wide.reshape(-1, wide.shape[-1])
        mean, variance = flat.mean(0), flat.var(0)
        kept = 0.9 * kept[0] + 0.1 * mean, 0.9 * kept[1] + 0.1 * variance
    result = gamma.numpy() * (wide - mean) / np.sqrt(variance + EPSILON) + beta.numpy()
    return tf.cast(result, x.dtype), *[tf.constant(value, tf.float32) for value in kept]


batch_norm = Exercise(
    id="resnet.batch_norm",
    inputs=_inputs,
    observer=normalised,
    right=_norm(),
    points={"training": 2, "training, large activations": 2, "inference": 2},
    also_right=(_with_moments, _in_numpy, _norm("float64"), _norm(by_squares=True)),
    mistakes=(
        Mistake(
            _norm(None),
            "You compute in the dtype of x. In float16 the squares and the sum inside the mean overflow where "
            "activations are large: cast x to float32 first, and the result back.",
        ),
        Mistake(
            _norm("bfloat16"),
            "bfloat16 has the range, but 8 bits of significand: a mean and a variance come out with an error of some "
            "tenths of a percent. Compute in float32.",
        ),
        Mistake(
            _one_for_all,
            "You take one mean and one variance of all channels together. Each channel has its own: axes 0, 1 and 2.",
        ),
        Mistake(
            _norm(out="float32"),
            "The values are right, but the result is float32. The next layer expects the dtype of x.",
        ),
        Mistake(
            _norm(kept_in="float16"),
            "The moving statistics come back as float16. They change by small steps, and float16 forgets those: keep "
            "them in float32.",
        ),
        Mistake(
            _norm(momentum=1 - MOMENTUM),
            "The wrong way round: 0.9 of the old moving statistic stays, and 0.1 of the batch's comes in.",
        ),
        Mistake(
            _norm(batch_when=lambda training: True),
            "At inference you still normalise with the batch's own statistics. Take the moving ones there.",
        ),
        Mistake(
            _norm(batch_when=lambda training: False),
            "While training you normalise with the moving statistics. Take those of the batch.",
        ),
        Mistake(
            _norm(move_when=lambda training: True),
            "At inference the moving statistics move. They are learned while training only.",
        ),
        Mistake(
            _norm(move_when=lambda training: False),
            "While training your moving statistics stay as they were. They take in a tenth of the batch's.",
        ),
        Mistake(
            _norm(root=False),
            "You divide by the variance. The standard deviation is its square root.",
        ),
        Mistake(_norm(scale=False), "gamma and beta are missing: the result is times gamma, plus beta."),
    ),
    hints=(
        "Everything between the first cast and the last should be float32.",
        "One mean and one variance a channel: over the axes 0, 1 and 2.",
        "While training: the batch's statistics for the result, and 0.9 * old + 0.1 * new for the moving ones. At "
        "inference: the moving ones, returned as they are.",
    ),
    rtol=2e-3,
    atol=4e-3,
    insight="Float16 comes in and float16 goes out; what is summed and squared in between, and what is kept for later, "
    "is float32. Keras's layer does just that, under every mixed policy.",
)
