"""Programs in which nothing becomes NaN, and programs with which nothing is wrong at all.

Names say what a program is for; what is wrong with it, if anything, is for the reader to find.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from ampcourse.clinic.program import Program, cross_entropy, squared_error

STEPS = 40
Rng = np.random.Generator


def _small(rng: Rng, outputs: int = 1, size: float = 1.0, steps: int = STEPS) -> tuple[keras.Model, list]:
    """A model with one hidden layer, and batches of a linear rule for it."""
    features, units = int(rng.integers(6, 17)), int(rng.integers(12, 33))
    x = keras.Input((features,))
    hidden = layers.Dense(units, "tanh", name="hidden")(x)
    model = keras.Model(x, layers.Dense(outputs, dtype="float32", name="outputs")(hidden))
    rule = rng.normal(size=(features, outputs)) * size * 2 / features**0.5
    xs = rng.normal(size=(steps, 64, features)).astype("float32")
    return model, [(x, (x @ rule).astype("float32")) for x in xs]


def climber(rng: Rng) -> Program:
    """An ordinary regression; the loss scale begins as high as the documentation advises."""
    model, batches = _small(rng)
    optimizer = keras.optimizers.SGD(float(rng.uniform(0.03, 0.1)))
    if keras.config.dtype_policy().name == "mixed_float16":
        start, growth = 2.0 ** int(rng.integers(22, 30)), int(rng.integers(8, 16))
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=start, dynamic_growth_steps=growth)
    return Program(model, optimizer, batches)


def baker(rng: Rng) -> Program:
    """An ordinary regression with everything left at its defaults."""
    model, batches = _small(rng)
    return Program(model, keras.optimizers.Adam(float(rng.uniform(3e-3, 2e-2))), batches)


def plain_loss_step(model, optimizer, x, y, loss):
    """One step of a loop that was once written for float32."""
    with tf.GradientTape() as tape:
        value = loss(model, x, y)
    optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)
    return value


def gardener(rng: Rng) -> Program:
    """A regression with a loop of its own."""
    model, batches = _small(rng)
    return Program(model, keras.optimizers.SGD(float(rng.uniform(0.03, 0.1))), batches, step=plain_loss_step)


def trimming_step(limit):
    """A step that keeps the gradients from being longer than `limit`."""

    def step(model, optimizer, x, y, loss):
        with tf.GradientTape() as tape:
            value = loss(model, x, y)
            scaled = optimizer.scale_loss(value)
        gradients = tape.gradient(scaled, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, limit)
        optimizer.apply(gradients, model.trainable_variables)
        return value

    return step


def barber(rng: Rng, trim: Any = trimming_step) -> Program:
    """A regression whose gradients are clipped."""
    model, batches = _small(rng)
    limit = float(rng.uniform(1, 8))
    return Program(model, keras.optimizers.SGD(float(rng.uniform(0.03, 0.1))), batches, step=trim(limit))


def doorman(rng: Rng) -> Program:
    """A regression by two libraries, each of which takes care of mixed precision."""
    model, batches = _small(rng)
    optimizer = keras.optimizers.SGD(float(rng.uniform(0.03, 0.1)))
    if keras.config.dtype_policy().name == "mixed_float16":
        for _ in range(2):
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    return Program(model, optimizer, batches)


def commuter(rng: Rng) -> Program:
    """Shares of a whole, trained yesterday, saved, and loaded today to go on."""
    policy = keras.config.dtype_policy()
    model, batches = _small(rng, int(rng.integers(300, 500)), float(rng.uniform(1, 3) * 1e-4))
    model.layers[-1].kernel.assign(model.layers[-1].kernel * 1e-3)
    model.compile(keras.optimizers.Adam(2e-3), keras.losses.MeanSquaredError())
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "yesterday.keras")
        keras.config.set_dtype_policy("float32")  # today's process has not set a policy
        model = keras.models.load_model(Path(folder) / "yesterday.keras")
    keras.config.set_dtype_policy(policy)
    return Program(model, model.optimizer, batches, wrap=False)


class Number(layers.Layer):
    """Takes the item's number out of a row of features."""

    def call(self, row):
        """row (batch, features) -> (batch,) int32."""
        return tf.cast(row[:, 0], tf.int32)


def bookseller(rng: Rng) -> Program:
    """How well does a book sell? Its number stands in the first column, next to its price."""
    books = int(rng.integers(4_000, 9_000))
    row = keras.Input((2,))
    known = layers.Embedding(books, 4, name="books")(Number(name="number")(row))
    model = keras.Model(row, layers.Dense(1, dtype="float32", name="sales")(known))
    batches, sales = [], rng.normal(size=books).astype("float32")
    pick = rng.integers(2_048, books, 400)  # the shop has 400 of them
    for _ in range(STEPS):
        number = rng.choice(pick, 256)
        x = np.stack([number, rng.uniform(5, 50, 256)], 1).astype("float32")
        batches.append((x, sales[number][:, None]))
    return Program(model, keras.optimizers.Adam(0.1), batches)


def sculptor(rng: Rng) -> Program:
    """A regression whose weights are to stay small: a penalty joins the loss."""
    strength = float(rng.uniform(0.5, 1.5))

    def step(model, optimizer, x, y, loss):
        with tf.GradientTape() as tape:
            value = loss(model, x, y)
            penalty = sum(tf.reduce_sum(w**2) for w in model.trainable_variables)
            total = optimizer.scale_loss(value) + strength * penalty
        optimizer.apply(tape.gradient(total, model.trainable_variables), model.trainable_variables)
        return value + strength * penalty

    model, batches = _small(rng)
    return Program(model, keras.optimizers.SGD(0.03), batches, squared_error, step)


def sleeper(rng: Rng) -> Program:
    """A regression; memory is short, so weights take 16 bits too."""
    features = int(rng.integers(6, 17))
    x = keras.Input((features,))
    hidden = layers.Dense(24, "tanh", name="hidden")(x)
    model = keras.Model(x, layers.Dense(1, name="outputs")(hidden))
    rule = rng.normal(size=(features, 1)) * 2 / features**0.5
    xs = rng.normal(size=(STEPS, 64, features)).astype("float32")
    return Program(
        model, keras.optimizers.Adam(float(rng.uniform(3e-3, 1e-2))), [(x, (x @ rule).astype("float32")) for x in xs]
    )


class Brighten(layers.Layer):
    """Brings every feature up or down by a fixed factor."""

    def call(self, x):
        """x (batch, features) -> the same shape."""
        return keras.ops.multiply(x, keras.ops.convert_to_tensor(np.float32(1.25), "float32"))


def photographer(rng: Rng) -> Program:
    """Which of some scenes is on a picture?"""
    features, scenes = int(rng.integers(16, 33)), int(rng.integers(3, 7))
    x = keras.Input((features,))
    hidden = layers.Dense(32, "relu", name="hidden")(x)
    hidden = layers.ReLU(name="relu")(Brighten(name="brighten")(hidden))
    model = keras.Model(x, layers.Dense(scenes, dtype="float32", name="scenes")(hidden))
    rule = rng.normal(size=(features, scenes))
    xs = rng.normal(size=(STEPS, 64, features)).astype("float32")
    return Program(model, keras.optimizers.Adam(1e-2), [(x, (x @ rule).argmax(1)) for x in xs], cross_entropy)
