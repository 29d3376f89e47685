"""Runs with nothing wrong, however odd they look: no verdict but healthy or settling, and no question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from ampcourse.amp import GradientMonitor

L = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 8)).astype("float32")
Y = X[:, :1] * 2 + 0.1
WORDS = RNG.integers(0, 12, (240, 3))  # of 500 rows of an embedding


@pytest.fixture(autouse=True)
def _policy() -> Any:
    before = keras.mixed_precision.global_policy()
    yield
    keras.mixed_precision.set_global_policy(before)


def dense(*layers: Any, shape: tuple[int, ...] = (8,), kind: str = "float32") -> keras.Model:
    return keras.Sequential([keras.Input(shape, dtype=kind), *layers, L.Dense(1, dtype="float32")])


def relu(bias: float = 0.0) -> Any:
    return L.Dense(32, activation="relu", bias_initializer=keras.initializers.Constant(bias))


def two_outputs() -> keras.Model:
    inputs = keras.Input((8,))
    x = L.Dense(8, activation="gelu")(inputs)
    return keras.Model(inputs, [L.Dense(1, dtype="float32")(x), L.Dense(1, dtype="float32")(x)])


def frozen() -> keras.Model:
    first = L.Dense(16, activation="relu")
    first.trainable = False
    return dense(first, L.Dense(8, activation="relu"))


def zero_last() -> keras.Model:
    last = L.Dense(1, kernel_initializer="zeros", dtype="float32")
    return keras.Sequential([keras.Input((8,)), relu(), last])


def sgd(rate: float = 1e-2, **more: Any) -> Any:
    return lambda: keras.optimizers.SGD(rate, **more)


def adam(rate: float = 1e-3, **more: Any) -> Any:
    return lambda: keras.optimizers.Adam(rate, **more)


def scaled(initial: float) -> Any:
    return lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1e-2), initial_scale=initial)


# name: model, optimizer, inputs, settings (of compile; "y" other targets, "policy" another policy)
Make = Callable[[], Any]
RUNS: dict[str, tuple[Make, Make, np.ndarray, dict[str, Any]]] = {
    "all at once": (
        lambda: dense(relu(-1.5), L.BatchNormalization(), L.Dropout(0.5), relu(), L.LayerNormalization()),
        adam(1e-5, clipnorm=1.0, weight_decay=0.01, gradient_accumulation_steps=2),
        X,
        {"steps_per_execution": 5},
    ),
    "rare words": (
        lambda: dense(L.Embedding(500, 8), L.Flatten(), relu(), shape=(3,), kind="int32"),
        adam(),
        WORDS,
        {},
    ),
    "no loss at all": (zero_last, sgd(), X, {"y": np.zeros_like(Y)}),
    "the last layer begins at zero": (zero_last, sgd(), X, {}),
    "a warm-up": (lambda: dense(relu()), sgd(1e-9), X, {}),
    "nine of ten units inactive": (lambda: dense(relu(-1.5)), sgd(), X, {}),
    "several outputs": (two_outputs, sgd(), X, {"y": [Y, -Y]}),
    "a frozen layer": (frozen, adam(), X, {}),
    "dropout and norms": (lambda: dense(relu(), L.BatchNormalization(), L.Dropout(0.5)), sgd(1e-3), X, {}),
    "clipped": (lambda: dense(relu()), sgd(clipnorm=0.01), X, {}),
    "decay": (lambda: dense(relu()), adam(weight_decay=0.1), X, {}),
    "accumulated": (lambda: dense(relu()), adam(gradient_accumulation_steps=4), X, {}),
    "compiled": (lambda: dense(relu()), sgd(), X, {"jit_compile": True}),
    "a low scale": (lambda: dense(relu()), scaled(2.0**8), X, {}),
    "a scale too high": (lambda: dense(relu()), scaled(2.0**22), X, {}),
    "bfloat16": (lambda: dense(relu()), sgd(), X, {"policy": "mixed_bfloat16"}),
    "float32": (lambda: dense(relu()), keras.optimizers.RMSprop, X, {"policy": "float32"}),
    "inputs of many zeros": (lambda: dense(relu()), sgd(), X * (RNG.random(X.shape) < 0.1), {}),
}
DAILY = ("all at once", "rare words", "no loss at all", "nine of ten units inactive", "a scale too high")
NAMES = [name if name in DAILY else pytest.param(name, marks=pytest.mark.full) for name in RUNS]


@pytest.mark.parametrize("name", NAMES)
def test_no_false_alarm(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    make, optimizer, x, settings = RUNS[name]
    settings = {"jit_compile": False} | settings
    keras.mixed_precision.set_global_policy(settings.pop("policy", "mixed_float16"))
    keras.utils.set_random_seed(2)
    model, monitor, y = make(), GradientMonitor(stop=True), settings.pop("y", Y)
    model.compile(optimizer(), "mse", **settings)
    model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[monitor])
    assert monitor.summary()["verdict"] in ("healthy", "settling"), monitor.says
    assert monitor.summary()["steps"] == 120 and not any("?" in sentence for sentence in monitor.says)
    assert capfd.readouterr() == ("", "")
