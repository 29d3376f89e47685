"""Exercise 4: a reduction, a square and an epsilon that float16 does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.nan_clinic import train_loudness


def _inputs(rng: np.random.Generator) -> Inputs:
    bands = int(rng.integers(3, 6))

    def run(policy: str, size: float, samples: int, silent: bool = False) -> tuple:
        sounds = (rng.normal(size=(2, 3, bands, samples)) * size * rng.uniform(0.7, 1, (bands, 1))).astype(np.float32)
        if silent:
            sounds[:, int(rng.integers(3)), int(rng.integers(bands))] = 0
        kernel = rng.normal(size=(bands, 2)).astype(np.float32)
        return policy, sounds, rng.normal(size=(2, 3, 2)).astype(np.float32), kernel

    return {
        "a long recording": run("mixed_float16", 9.0, 3000),
        "single samples that are large": run("mixed_float16", 300.0, 64),
        "silence": run("mixed_float16", 1.0, 64, silent=True),
        "a quiet recording": run("mixed_float16", 4e-4, 256),
        "under float32": run("float32", 3.0, 64, silent=True),
    }


def _loudness(
    square: str = "float32",
    mean: str = "float32",
    log: str = "float32",
    back: bool = True,
    epsilon: float = 1e-8,
) -> Callable[[Any], Any]:
    """Each operation in a dtype of its own ("" for that of the sound), open to a mistake."""

    def loudness(sound: Any) -> Any:
        import tensorflow as tf

        own = sound.dtype
        x = tf.square(tf.cast(sound, square or own))
        x = tf.reduce_mean(tf.cast(x, mean or own), axis=-1)
        x = tf.cast(x, log or own)
        x = tf.math.log(x + tf.cast(epsilon, x.dtype))
        return tf.cast(x, own) if back else x

    return loudness


def _by_keras(sound: Any) -> Any:
    import keras

    wide = keras.ops.cast(sound, "float32")
    return keras.ops.cast(keras.ops.log(keras.ops.mean(wide * wide, axis=-1) + 1e-8), sound.dtype)


def _in_float64(sound: Any) -> Any:
    import tensorflow as tf

    power = tf.reduce_sum(tf.cast(sound, tf.float64) ** 2, axis=-1) / sound.shape[-1]
    return tf.cast(tf.math.log(power + 1e-8), sound.dtype)


def _sum(sound: Any) -> Any:
    import tensorflow as tf

    return tf.cast(tf.math.log(tf.reduce_sum(tf.cast(sound, tf.float32) ** 2, axis=-1) + 1e-8), sound.dtype)


def _root(sound: Any) -> Any:
    import tensorflow as tf

    power = tf.reduce_mean(tf.cast(sound, tf.float32) ** 2, axis=-1)
    return tf.cast(tf.math.log(tf.sqrt(power) + 1e-8), sound.dtype)


def _always_float16(sound: Any) -> Any:
    import tensorflow as tf

    return tf.cast(_loudness()(sound), tf.float16)


loudness = Exercise(
    id="nan_clinic.loudness",
    inputs=_inputs,
    observer=train_loudness,
    right=_loudness(),
    points={
        "a long recording": 1,
        "single samples that are large": 1,
        "silence": 1,
        "a quiet recording": 1,
        "under float32": 1,
    },
    also_right=(_by_keras, _in_float64),
    mistakes=(
        Mistake(
            _loudness("", "", ""),
            "All of it runs in float16: squares and their sum overflow, and 1e-8 is 0, so silence gives log(0). "
            "Cast to float32 first.",
        ),
        Mistake(
            _loudness("", "", "", epsilon=1e-4),
            "A larger epsilon mends silence and bends every quiet recording, and the sum still overflows. Keep 1e-8, "
            "and compute in float32.",
        ),
        Mistake(
            _loudness(square=""),
            "You cast after squaring. A sample of 300 has overflowed by then: cast first.",
        ),
        Mistake(
            _loudness(log=""),
            "You cast back too early: in float16 the epsilon is 0 again, and small powers are flushed. Cast the "
            "result, after the logarithm.",
        ),
        Mistake(
            _loudness(back=False),
            "Right values, but you return float32, and so all layers behind this one are promoted. Cast back to "
            "sound.dtype.",
        ),
        Mistake(
            _sum,
            "You take the sum of the squares. The mean is asked for: divide by the number of samples.",
        ),
        Mistake(
            _root,
            "You take the square root first. The logarithm is that of the mean square itself.",
        ),
        Mistake(
            _always_float16,
            "You always return float16. Under float32 the result is to be float32: cast back to sound.dtype.",
        ),
        Mistake(
            _loudness(epsilon=0.0),
            "Without the epsilon, silence gives log(0), minus infinity, in float32 too.",
        ),
    ),
    hints=(
        "Three operations are at risk here: the square, the mean, and the epsilon. What dtype holds all three?",
        "Cast at the beginning, cast back at the end. In float32 the formula may stay as it is.",
        "x = tf.cast(sound, tf.float32) ... return tf.cast(result, sound.dtype)",
    ),
    rtol=4e-3,
    atol=1e-4,
    trains=True,
    insight="Float16 in, float32 inside, float16 out: so Keras's own normalisation layers do it. The tensor that is "
    "kept for the backward pass is small either way, for the mean has made it so.",
)
