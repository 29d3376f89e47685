"""Programs that end in NaN, in infinity, or with a loss scale that falls and falls.

Each draws its own sizes and numbers, so that no two patients of one kind have the same chart. Names say what a program
is for; what is wrong with it is for the reader to find.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from ampcourse.clinic.program import Program, cross_entropy

STEPS = 24
Rng = np.random.Generator


def _classes(rng: Rng, features: int, classes: int, size: int = 64, steps: int = STEPS) -> list:
    """Batches of points whose class is the largest of some linear functions of them."""
    rule = rng.normal(size=(features, classes))
    xs = rng.normal(size=(steps, size, features)).astype("float32")
    return [(x, (x @ rule).argmax(1)) for x in xs]


class Attend(layers.Layer):
    """Weights the tokens by a score; a mask of 0 says that there is no token."""

    def build(self, shape):
        """One weight for each feature."""
        self.query = self.add_weight(name="query", shape=(shape[0][-1], 1), initializer="glorot_uniform")

    def call(self, inputs):
        """tokens (batch, length, features), mask (batch, length) -> (batch, features)."""
        tokens, mask = inputs
        scores = tf.matmul(tokens, self.query)[..., 0] + (1 - mask) * -1e9
        return tf.matmul(tf.nn.softmax(scores)[:, tf.newaxis], tokens)[:, 0]


def reader(rng: Rng, attend: Any = Attend) -> Program:
    """Which of some topics is a text about? Texts have different lengths."""
    length, features, topics = int(rng.integers(5, 9)), int(rng.integers(8, 17)), int(rng.integers(3, 6))
    tokens, mask = keras.Input((length, features)), keras.Input((length,))
    pooled = attend(name="attend")([layers.Dense(16, name="embed")(tokens), mask])
    model = keras.Model([tokens, mask], layers.Dense(topics, dtype="float32", name="topics")(pooled))
    batches, rule = [], rng.normal(size=(features, topics))
    for _ in range(STEPS):
        there = (np.arange(length) < rng.integers(2, length + 1, (64, 1))).astype("float32")
        x = (rng.normal(size=(64, length, features)) * there[..., None]).astype("float32")
        batches.append(((x, there), (x.sum(1) @ rule).argmax(1)))
    return Program(model, keras.optimizers.Adam(1e-2), batches, cross_entropy)


class Shares(layers.Layer):
    """Counts to shares of the whole row."""

    def call(self, counts):
        """counts (batch, words) -> shares (batch, words); a row of zeros stays one."""
        return counts / (tf.reduce_sum(counts, axis=1, keepdims=True) + 1e-8)


def postman(rng: Rng, shares: Any = Shares) -> Program:
    """Which department is a letter for? Some letters have no known word."""
    words, departments = int(rng.integers(20, 41)), int(rng.integers(3, 7))
    counts = keras.Input((words,))
    hidden = layers.Dense(32, "relu", name="hidden")(shares(name="shares")(counts))
    model = keras.Model(counts, layers.Dense(departments, dtype="float32", name="departments")(hidden))
    batches, rule = [], rng.normal(size=(words, departments))
    for _ in range(STEPS):
        x = rng.poisson(0.5, (64, words)).astype("float32")
        x[rng.random(64) < rng.uniform(0.02, 0.15)] = 0
        batches.append((x, (x @ rule).argmax(1)))
    return Program(model, keras.optimizers.Adam(1e-2), batches, cross_entropy)


class Loudness(layers.Layer):
    """Mean power in bands of a long recording."""

    def call(self, sound):
        """sound (batch, bands, samples) -> (batch, bands)."""
        return tf.reduce_mean(tf.square(sound), axis=-1) / 16


def listener(rng: Rng, loudness: Any = Loudness) -> Program:
    """Which machine is running, by the power of its sound in some bands?"""
    bands, machines, samples = int(rng.integers(4, 8)), int(rng.integers(3, 6)), int(rng.integers(2_000, 4_000))
    sound = keras.Input((bands, samples))
    hidden = layers.Dense(16, "relu", name="hidden")(loudness(name="loudness")(sound))
    model = keras.Model(sound, layers.Dense(machines, dtype="float32", name="machines")(hidden))
    batches, profile = [], rng.uniform(2, 9, (machines, bands, 1))
    for _ in range(STEPS):
        y = rng.integers(0, machines, 16)
        batches.append(((profile[y] * rng.normal(size=(16, bands, samples))).astype("float32"), y))
    return Program(model, keras.optimizers.Adam(1e-2), batches, cross_entropy)


def surveyor(rng: Rng) -> Program:
    """What is a house worth, by its area in square feet, its plot, the town's inhabitants and incomes?"""
    features = int(rng.integers(4, 9))
    facts = keras.Input((features,))
    x = layers.BatchNormalization(name="normalise")(facts)
    x = layers.Dense(16, "relu", name="hidden")(x)
    model = keras.Model(facts, layers.Dense(1, dtype="float32", name="worth")(x))
    sizes, rule = 10 ** rng.uniform(1, 4, features), rng.normal(size=(features, 1))
    sizes[rng.integers(features)] = 10 ** rng.uniform(5.2, 6.5)
    plain = np.abs(rng.normal(1, 0.5, (STEPS, 64, features)))
    batches = [((u * sizes).astype("float32"), (u @ rule).astype("float32")) for u in plain]
    return Program(model, keras.optimizers.Adam(1e-2), batches)


def probability_of_class(model, x, y):
    """The cross-entropy of the model's probabilities with the class numbers in `y`."""
    return keras.losses.SparseCategoricalCrossentropy()(y, model(x, training=True))


def veteran(rng: Rng) -> Program:
    """Ten old classes are to be relearned under new numbers: the last layer begins with a strong opinion."""
    features, classes = int(rng.integers(16, 33)), int(rng.integers(4, 11))
    x = keras.Input((features,))
    hidden = layers.Dense(32, "relu", name="hidden")(x)
    strong = keras.initializers.RandomNormal(stddev=float(rng.uniform(2.5, 4)), seed=int(rng.integers(1000)))
    head = layers.Dense(classes, "softmax", kernel_initializer=strong, name="classes")
    batches = _classes(rng, features, classes)
    return Program(keras.Model(x, head(hidden)), keras.optimizers.SGD(0.02), batches, probability_of_class)


def saver(rng: Rng) -> Program:
    """To save memory everything is kept in 16 bits, weights and all."""
    features = int(rng.integers(8, 25))
    x = keras.Input((features,))
    hidden = layers.Dense(32, "tanh", name="hidden")(x)
    model = keras.Model(x, layers.Dense(4, name="outputs")(hidden))
    rule = rng.normal(size=(features, 4)) * float(rng.uniform(2e-3, 5e-3))
    xs = rng.normal(size=(STEPS, 64, features)).astype("float32")
    batches = [(x, (x @ rule).astype("float32")) for x in xs]
    return Program(model, keras.optimizers.Adam(1e-2), batches)


def sprinter(rng: Rng) -> Program:
    """Sums of many readings, and no time to lose."""
    features = int(rng.integers(24, 49))
    x = keras.Input((features,))
    hidden = layers.Dense(32, "relu", name="hidden")(x)
    model = keras.Model(x, layers.Dense(1, dtype="float32", name="total")(hidden))
    rule = rng.normal(size=(features, 1))
    xs = rng.normal(size=(3 * STEPS, 64, features)).astype("float32")
    return Program(
        model, keras.optimizers.SGD(float(rng.uniform(0.5, 2))), [(x, (x @ rule).astype("float32")) for x in xs]
    )


def forecaster(rng: Rng) -> Program:
    """Tomorrow's weather from today's readings, each standardised within its batch. One station is old."""
    features = int(rng.integers(5, 10))
    x = keras.Input((features,))
    hidden = layers.Dense(8, "tanh", name="hidden")(x)
    model = keras.Model(x, layers.Dense(1, dtype="float32", name="tomorrow")(hidden))
    batches, rule, old = [], rng.normal(size=(features, 1)), int(rng.integers(features))
    first, last = int(rng.integers(5, 12)), int(rng.integers(150, 165))
    for day in range(last + 4):
        readings = rng.normal(size=(16, features))
        tomorrow = readings @ rule
        if first <= day < last:
            readings[:, old] = 0  # the instrument is silent
        with np.errstate(invalid="ignore"):
            standard = (readings - readings.mean(0)) / readings.std(0)
        batches.append((standard.astype("float32"), tomorrow.astype("float32")))
    return Program(model, keras.optimizers.SGD(0.05), batches)
