"""A small model and few pictures, so that a run takes a second; also for scripts that tests start."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ampcourse import data
from ampcourse.training import catalogue, feed

SMALL = {"model": "small", "limit": 64, "batch": 8, "epochs": 2, "size": 12, "learning_rate": 0.01, "monitor": False}
WHOLE = data.pictures


def build(shape: tuple[int, int, int], classes: int) -> keras.Model:
    """One convolution, a normalization, a head in float32."""
    inputs = keras.Input(shape)
    x = keras.layers.Conv2D(4, 3, strides=2, name="conv")(inputs)
    x = keras.layers.BatchNormalization(momentum=0.9, name="norm")(x)
    x = keras.layers.Flatten()(keras.layers.ReLU()(x))
    return keras.Model(inputs, keras.layers.Dense(classes, dtype="float32", name="logits")(x))


def plain(shape: tuple[int, int, int], classes: int) -> keras.Model:
    """Without a normalization, whose statistics are of the pictures that one device sees."""
    inputs = keras.Input(shape)
    x = keras.layers.Conv2D(4, 3, strides=2, activation="relu", name="conv")(inputs)
    return keras.Model(inputs, keras.layers.Dense(classes, dtype="float32", name="logits")(keras.layers.Flatten()(x)))


def pictures(*arguments: Any, **settings: Any) -> Any:
    """The embedded pictures with 40 test pictures: more than one batch, the last of which is not full."""
    whole = WHOLE(*arguments, **settings)
    return data.Pictures(whole.source, whole.train, whole.test.only(np.arange(43)), whole.mean, whole.std)


def install() -> None:
    """For a script: the small models have names, and there are few test pictures."""
    catalogue.MODELS["small"] = catalogue.Entry("a small model", build)
    catalogue.MODELS["plain"] = catalogue.Entry("a smaller model", plain)
    feed.data.pictures = pictures
