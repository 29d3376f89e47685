"""The density model: its data add up, its gradients are slopes, and float16 loses them as the lesson says."""

from __future__ import annotations

import numpy as np
import pytest

from ampcourse.models import density
from ampcourse.numerics import fate, relative_error

X, Y = density.density_maps(256)


def test_targets_are_shares_of_the_ink_and_inputs_a_coarse_view():
    assert (X.shape, Y.shape, X.dtype, Y.dtype) == ((256, 196), (256, 784), np.float32, np.float32)
    np.testing.assert_allclose(Y.sum(axis=1), 1, rtol=1e-5)
    assert (Y >= 0).all()
    assert abs(X.mean()) < 0.1


@pytest.mark.parametrize("pictures", [0, -1, 10_001])
def test_there_are_only_so_many_pictures(pictures):
    with pytest.raises(ValueError, match="from 1 to 10000"):
        density.density_maps(pictures)


def test_an_unknown_policy_gets_a_sentence():
    with pytest.raises(ValueError, match="policy must be one of float32, mixed_float16"):
        density.density_model("float16")


@pytest.mark.parametrize("make", [density.density_model, density.classifier_model])
def test_all_policies_start_from_the_same_float32_weights(make):
    exact, half, other = make(), make("mixed_float16"), make(seed=1)
    assert [w.dtype for w in half.weights] == ["float32"] * 8
    for a, b in zip(exact.get_weights(), half.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(exact.get_weights()[0], other.get_weights()[0])
    assert [layer.compute_dtype for layer in half.layers] == ["float16"] * 3 + ["float32"]


def test_gradients_are_the_slopes_of_the_loss():
    import tensorflow as tf

    model = density.density_model()
    found = density.gradients(model, X, Y, loss_scale=2.0**10)
    kernel = model.layers[1].kernel
    at = np.unravel_index(np.abs(found.weights[1]).argmax(), kernel.shape)
    losses, start = [], kernel.numpy()
    for step in (-0.05, 0.05):
        moved = start.copy()
        moved[at] += step
        kernel.assign(moved)
        losses.append(float(density.squared_error(model(tf.constant(X)), tf.constant(Y))))
    assert np.isclose((losses[1] - losses[0]) / 0.1, found.weights[1][at], rtol=0.2)
    assert [g.shape for g in found.activations] == [(256, 64), (256, 64), (256, 8)]


def test_float16_loses_them_and_a_loss_scale_brings_them_back():
    exact = density.joined(density.gradients(density.density_model(), X, Y).weights)
    model = density.density_model("mixed_float16")
    lost = density.joined(density.gradients(model, X, Y).weights)
    saved = density.joined(density.gradients(model, X, Y, 2.0**15).weights)
    assert np.mean(lost[exact != 0] == 0) > 0.95 > fate(exact).flushed
    assert relative_error(exact, saved) < 0.01


def test_a_run_counts_what_was_applied_and_what_was_skipped():
    import keras

    high = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3), initial_scale=2.0**37)
    run = density.train("mixed_float16", high, steps=20)
    assert run.losses.size == 20
    assert run.trace.skipped >= 1
    assert run.iterations == 20 - run.trace.skipped == int(run.trace.applied.sum())
    assert run.trace.scales[0] == 2.0**37
    assert run.trace.final_scale == run.trace.scales[0] / 2**run.trace.skipped
    assert [u.shape for u in run.last_update] == [(196, 64), (64, 64), (64, 8)]


def test_runs_repeat_and_have_no_trace_without_scaling():
    one, two = (density.train("float32", steps=9) for _ in range(2))
    np.testing.assert_allclose(one.losses, two.losses, rtol=1e-5)
    compiled = density.train("float32", steps=density.FEW + 1)
    np.testing.assert_allclose(one.losses, compiled.losses[:9], rtol=1e-4)
    assert one.trace is None
    assert one.iterations == 9


def test_a_run_has_steps():
    with pytest.raises(ValueError, match="at least 1"):
        density.train("float32", steps=0)


def test_explained_is_one_for_perfect_and_zero_for_the_mean():
    assert density.explained(Y, Y) == 1
    assert abs(density.explained(np.broadcast_to(Y.mean(axis=0), Y.shape), Y)) < 1e-6
