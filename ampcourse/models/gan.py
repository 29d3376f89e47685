"""A generative adversarial network as small as can be: it learns to throw darts at eight spots on a ring.

Goodfellow et al., "Generative adversarial nets" (2014), with the non-saturating loss of section 3; the ring of
Gaussians is the usual toy problem since Metz et al., "Unrolled generative adversarial networks" (2017), section 3.1.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers, ops

NOISE, SPOTS, SPREAD = 8, 8, 0.05
BATCH, HIDDEN = 128, 64


def ring(count: int, rng: np.random.Generator) -> np.ndarray:
    """Points near eight spots on the unit circle, float32 of shape (count, 2); the spots are Gaussian, 0.05 wide."""
    angle = rng.integers(SPOTS, size=count) * (2 * np.pi / SPOTS)
    spots = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return (spots + rng.normal(0, SPREAD, (count, 2))).astype(np.float32)


def perceptron(inputs: int, outputs: int) -> keras.Model:
    """Two hidden layers of 64 units under the global policy, and a float32 output."""
    hidden = [layers.Dense(HIDDEN, layers.LeakyReLU(0.2)) for _ in range(2)]
    return keras.Sequential([keras.Input((inputs,)), *hidden, layers.Dense(outputs, dtype="float32")])


def wrapped(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """The optimizer, in a LossScaleOptimizer where the global policy is mixed_float16: a loop has to do this itself."""
    mixed = keras.config.dtype_policy().name == "mixed_float16"
    return keras.optimizers.LossScaleOptimizer(optimizer) if mixed else optimizer


def train(steps: int = 1000, seed: int = 0) -> keras.Model:
    """Train a generator against a discriminator under the global policy; returns the generator.

    Each of the two has an optimizer, and so a loss scale, of its own.
    """
    import tensorflow as tf

    generator, judge = perceptron(NOISE, 2), perceptron(2, 1)
    pair = [(model, wrapped(keras.optimizers.Adam(1e-3, beta_1=0.5))) for model in (generator, judge)]
    for model, optimizer in pair:
        optimizer.build(model.trainable_variables)

    def step(noise: Any, real: Any) -> None:
        for number, (model, optimizer) in enumerate(pair):
            with tf.GradientTape() as tape:
                fake = judge(generator(noise))
                loss = ops.mean(ops.softplus(-fake))  # the generator wants to be taken for real
                if number == 1:
                    loss = ops.mean(ops.softplus(fake)) + ops.mean(ops.softplus(-judge(real)))
                scaled = optimizer.scale_loss(loss)
            optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)

    take, rng = tf.function(step), np.random.default_rng(seed)
    for _ in range(steps):
        take(tf.constant(rng.normal(size=(BATCH, NOISE)).astype("float32")), tf.constant(ring(BATCH, rng)))
    return generator


def distance(generator: keras.Model, count: int = 1000, seed: int = 0) -> float:
    """The energy distance between generated and real points: 0 for the same distribution (Szekely and Rizzo, 2013)."""
    rng = np.random.default_rng([seed, 1])
    fake = np.asarray(generator(rng.normal(size=(count, NOISE)).astype("float32")), np.float64)
    real = ring(count, rng).astype(np.float64)
    return float(2 * _apart(fake, real) - _apart(fake, fake) - _apart(real, real))


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """The mean distance between a point of the one and a point of the other."""
    return float(np.mean(np.linalg.norm(a[:, None] - b[None], axis=-1)))
