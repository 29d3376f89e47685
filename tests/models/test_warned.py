"""The two kinds of training that the articles warn of: they learn, and a policy and a seed decide what they give."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from ampcourse.models import agent, gan


@pytest.fixture(autouse=True)
def policy():
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize("name", ["float32", "mixed_float16"])
def test_the_generator_comes_near_the_ring(policy, name):
    policy(name)
    keras.utils.set_random_seed(0)
    untrained = gan.distance(gan.perceptron(gan.NOISE, 2))
    trained = gan.train(600)
    assert gan.distance(trained) < untrained / 4
    assert trained.layers[0].compute_dtype == name.removeprefix("mixed_")


def test_the_distance_is_nothing_between_the_ring_and_itself():
    class Ring:
        def __call__(self, noise):
            return gan.ring(len(noise), np.random.default_rng(5))

    assert abs(gan.distance(Ring())) < 0.02


def test_the_spots_lie_on_the_circle():
    points = gan.ring(4000, np.random.default_rng(0))
    assert points.dtype == np.float32
    assert np.linalg.norm(points, axis=1).mean() == pytest.approx(1, abs=0.01)
    spot = np.round(np.arctan2(*points.T) / (2 * np.pi / gan.SPOTS)).astype(int) % gan.SPOTS
    assert (np.bincount(spot) > 400).all()


@pytest.mark.parametrize("name", ["float32", "mixed_float16"])
def test_the_actor_learns_to_keep_the_pole_up(policy, name):
    policy(name)
    keras.utils.set_random_seed(0)
    stood = agent.train(30)
    assert stood[0] < 40
    assert stood[-3:].mean() > 2 * stood[0]


def test_a_pushed_cart_moves_as_the_equations_say():
    upright = np.zeros((2, 4), np.float32)
    after = np.asarray(agent.push(upright, np.array([True, False])))
    assert after[0, 1] == pytest.approx(0.02 * 9.756, rel=1e-3)  # 10 N on cart and pole, as in the 1983 paper
    assert after[0, 3] == pytest.approx(-0.02 * 14.634, rel=1e-3)
    np.testing.assert_allclose(after[0], -after[1])


def test_advantages_are_0_where_a_pole_has_fallen_and_favour_those_that_stand():
    standing = np.array([[True, True], [True, False], [True, False]])
    found = agent.advantages(standing)
    assert (found[~standing] == 0).all()
    assert found[0, 0] > 0 > found[0, 1]


def test_only_mixed_float16_is_given_a_loss_scale(policy):
    for name, scaled in {"float32": False, "mixed_bfloat16": False, "mixed_float16": True}.items():
        policy(name)
        assert isinstance(gan.wrapped(keras.optimizers.SGD()), keras.optimizers.LossScaleOptimizer) is scaled
