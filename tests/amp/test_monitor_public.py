"""The monitor in `fit` of models that were made elsewhere, cut down: it sees every step, and changes nothing."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from ampcourse.amp import GradientMonitor

RNG = np.random.default_rng(0)
STEPS = 3


def _pictures(size: int = 32) -> tuple[np.ndarray, np.ndarray]:
    return RNG.normal(size=(4 * STEPS, size, size, 3)).astype("float32"), RNG.integers(0, 3, 4 * STEPS)


def _classified(features: Any, inputs: Any) -> keras.Model:
    return keras.Model(inputs, keras.layers.Dense(3, dtype="float32")(features))


def _mobilenet() -> tuple[keras.Model, Any, Any]:
    body = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, include_top=False, weights=None, pooling="avg")
    return _classified(body.output, body.input), *_pictures()


def _convnext() -> tuple[keras.Model, Any, Any]:
    from keras.src.applications.convnext import ConvNeXt

    body = ConvNeXt(
        depths=(1, 1, 1, 1),
        projection_dims=(8, 16, 16, 32),
        include_top=False,
        weights=None,
        input_shape=(32, 32, 3),
        pooling="avg",
        include_preprocessing=False,
        name="small_convnext",
    )
    return _classified(body.output, body.input), *_pictures()


def _bert() -> tuple[keras.Model, Any, Any]:
    from keras_hub.models import BertBackbone

    body = BertBackbone(50, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32, max_sequence_length=8)
    tokens = RNG.integers(1, 50, (4 * STEPS, 8))
    x = {"token_ids": tokens, "segment_ids": tokens * 0, "padding_mask": tokens > 9}
    return _classified(body.output["pooled_output"], body.input), x, RNG.integers(0, 3, 4 * STEPS)


MODELS: dict[str, Callable[[], tuple[keras.Model, Any, Any]]] = {
    "MobileNetV2": _mobilenet,
    "ConvNeXt": _convnext,
    "BERT": _bert,
}


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_models_made_elsewhere(name: str) -> None:
    if name == "BERT" and importlib.util.find_spec("keras_hub") is None:
        pytest.skip("keras-hub is not installed")
    before, weights = keras.config.dtype_policy(), []
    keras.config.set_dtype_policy("mixed_float16")
    try:
        for monitor in (GradientMonitor(), None):
            RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state
            keras.utils.set_random_seed(0)
            model, x, y = MODELS[name]()
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(keras.optimizers.SGD(1e-3), loss, jit_compile=False)
            model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[monitor] if monitor else [])
            weights.append(model.get_weights())
            if monitor:
                watched = monitor
                assert len(monitor.table().rows) == len(model.trainable_variables)
    finally:
        keras.config.set_dtype_policy(before)
    summary = watched.summary()
    assert summary["steps"] == STEPS and summary["scaled"]
    assert summary["verdict"] in ("healthy", "settling"), watched.says
    assert summary["scale"] == 2.0 ** (15 - summary["skipped"])
    for with_it, without in zip(*weights, strict=True):
        np.testing.assert_array_equal(with_it, without)
