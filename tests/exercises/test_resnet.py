"""Lesson 07: what its exercises call right is what Keras, tf.data and the model's own shapes do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ampcourse import quietly
from ampcourse.amp.paired_interval import studentized_interval
from ampcourse.exercises.answers.resnet import batch_norm, noise, padded_work, paired_interval, pipeline, speed_up
from ampcourse.exercises.observers.resnet import three_epochs


@pytest.mark.parametrize("training", [True, False])
def test_the_normalisation_agrees_with_keras(training: bool) -> None:
    import keras
    import tensorflow as tf

    _, x, parameters, _ = batch_norm.inputs(np.random.default_rng(3))["training"]
    layer = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-3, dtype="mixed_float16")
    with quietly():
        layer.build(x.shape)
        layer.set_weights(parameters)
        expected = layer(tf.cast(x, "float16"), training=training)
        given = [tf.constant(p) for p in parameters]
        result, mean, variance = batch_norm.right(tf.cast(x, "float16"), *given, training)
    assert result.dtype == expected.dtype
    # Both round to float16 once; where the last bits before differ, the neighbour may come out.
    np.testing.assert_allclose(np.float32(result), np.float32(expected), rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(mean, layer.moving_mean, rtol=1e-5)
    np.testing.assert_allclose(variance, layer.moving_variance, rtol=1e-5)


def test_the_work_of_a_convolution_is_the_number_of_products_that_it_does() -> None:
    import keras

    model = keras.Sequential([keras.Input((6, 5, 3)), keras.layers.Conv2D(4, 3, padding="same", use_bias=False)])
    (layer,) = model.layers
    ones = [np.ones(w.shape, np.float32) for w in layer.weights]
    layer.set_weights(ones)
    height, width = layer.output.shape[1:3]
    # With "same" padding the products with padding count as work, so count them by the weights and places.
    assert padded_work.right(3, 4, 3, height, width)[0] == layer.count_params() * height * width
    assert padded_work.right(3, 4, 3, height, width)[1] == 9 * 8 * 8 * height * width


def test_chance_exceeds_the_smallest_difference_in_one_case_of_twenty() -> None:
    _, smallest, _ = noise.right(0.86, 2000, 0.01)
    rng = np.random.default_rng(0)
    first, second = rng.binomial(2000, 0.86, (2, 40_000)) / 2000
    assert np.mean(np.abs(first - second) > smallest) == pytest.approx(0.05, abs=0.01)
    _, again, _ = noise.right(0.86, noise.right(0.86, 2000, 0.01)[2], 0.01)
    assert again == pytest.approx(0.01, rel=1e-3)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        first = rng.normal(0.86, 0.01, 3)
        _, low, high = paired_interval.right(first, first + rng.normal(0.002, 0.004, 3), 4.303)
        held += low <= 0.002 <= high
    assert held / 2000 == pytest.approx(0.95, abs=0.02)


def test_with_ten_pairs_the_interval_is_about_that_of_the_tool() -> None:
    rng = np.random.default_rng(1)
    first = rng.normal(0.86, 0.01, 10)
    second = first + rng.normal(0, 0.004, 10)
    _, low, high = paired_interval.right(first, second, 2.262)
    assert studentized_interval(second - first) == pytest.approx((low, high), abs=0.3 * (high - low))


def test_a_large_gain_comes_near_the_limit() -> None:
    seconds = {"a": 3.0, "b": 1.0, "c": 0.5}
    faster, limit = speed_up.right(seconds, {"a": 1e9, "b": 1e9})
    assert faster == pytest.approx(limit, rel=1e-6)
    assert limit == 9.0
    assert speed_up.right(seconds, {"a": 0.5})[0] < 1


def observed(answer: Any, about: str, pictures: int = 45, batch: int = 6) -> dict[str, Any]:
    with quietly():
        return three_epochs(answer, pictures, batch, about)


def test_a_pipeline_is_observed_by_what_it_does() -> None:
    work = observed(pipeline.right, "work")
    assert work == {
        "files decoded in three epochs": 45,
        "pictures augmented in three epochs": 135,
        "no augmentation comes twice": True,
    }
    batches = observed(pipeline.right, "batches")
    assert batches["batches an epoch"] == math.floor(45 / 6)
    assert batches["the last step"] == "prefetch"


def test_a_pipeline_without_an_end_is_noticed_and_not_waited_for() -> None:
    assert observed(lambda *args: pipeline.right(*args).repeat(), "work") == {"an epoch": "has no end"}
    assert observed(lambda *args: pipeline.right(*args).take(0), "work") == {"an epoch": "is empty"}


@pytest.mark.parametrize("returned", [None, [1, 2], "text"])
def test_what_is_no_dataset_is_named(returned: Any) -> None:
    with pytest.raises(TypeError, match=r"a tf\.data\.Dataset has to be returned"):
        observed(lambda *args: returned, "work")
