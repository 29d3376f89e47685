"""The plain training loop of lesson 04."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from ampcourse.models import loops

RNG = np.random.default_rng(0)
BATCHES = [(RNG.normal(size=(8, 3)).astype("float32"), RNG.normal(size=(8, 1)).astype("float32")) for _ in range(3)]


def small_model() -> keras.Model:
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, dtype="float32")])


def movement(optimizer: keras.optimizers.Optimizer, batches: list, **how: bool) -> np.ndarray:
    model = small_model()
    loops.train(model, optimizer, keras.losses.MeanSquaredError(), batches, **how)
    return np.concatenate(
        [np.ravel(w - s) for w, s in zip(model.get_weights(), small_model().get_weights(), strict=True)]
    )


def wrapped() -> keras.optimizers.Optimizer:
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))


@pytest.mark.parametrize("times", [1, 7])  # eagerly, and as a graph
def test_it_trains_like_fit(times: int) -> None:
    batches = BATCHES * times
    model = small_model()
    model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    x, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    fitted = np.concatenate(
        [np.ravel(w - s) for w, s in zip(model.get_weights(), small_model().get_weights(), strict=True)]
    )
    for optimizer in (keras.optimizers.SGD(0.1), wrapped()):
        np.testing.assert_allclose(movement(optimizer, batches), fitted, rtol=1e-4, atol=1e-7)


def test_without_scale_loss_the_update_is_too_small_by_the_scale() -> None:
    right, forgotten = (movement(wrapped(), BATCHES[:1], scale_loss=scale) for scale in (True, False))
    lengths = np.linalg.norm(right), np.linalg.norm(forgotten)
    assert lengths[0] / 2**16 < lengths[1] < lengths[0] / 2**14  # the weights' own rounding blurs it


def test_an_optimizer_that_is_built_keeps_its_scale() -> None:
    optimizer, model = wrapped(), small_model()
    optimizer.build(model.trainable_variables)
    optimizer.dynamic_scale.assign(8.0)
    loops.train(model, optimizer, keras.losses.MeanSquaredError(), BATCHES)
    assert float(optimizer.dynamic_scale) == 8.0


def test_no_batch_is_said_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="no batch"):
        loops.train(small_model(), wrapped(), keras.losses.MeanSquaredError(), [])
