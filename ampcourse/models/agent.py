"""A policy gradient as small as can be: a cart that learns to keep a pole upright.

The method is REINFORCE with a baseline (Williams, 1992; Sutton and Barto, "Reinforcement learning", 2018, section
13.4); the cart and its constants are those of Barto, Sutton and Anderson (1983). Many carts are driven at once.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers, ops

from ampcourse.models.gan import wrapped

CARTS, HORIZON, DISCOUNT = 32, 100, 0.97
TICK = 0.02  # seconds
FALLEN = np.float32([2.4, np.inf, 12 * np.pi / 180, np.inf])  # metres from the middle, radians from upright


def actor() -> keras.Model:
    """From the state of a cart, 4 numbers, to logits for left and right; the hidden layers follow the global policy."""
    hidden = [layers.Dense(32, "tanh") for _ in range(2)]
    return keras.Sequential([keras.Input((4,)), *hidden, layers.Dense(2, dtype="float32")])


def push(state: Any, right: Any) -> Any:
    """The states 0.02 s later, shape (carts, 4): place, speed, angle and its speed, after a push of 10 N.

    Args:
        state: float32, shape (carts, 4).
        right: bool, shape (carts,): the direction of the push.
    """
    speed, angle, turn = ops.unstack(state, axis=1)[1:]
    sine, cosine = ops.sin(angle), ops.cos(angle)
    thrust = (ops.where(right, 10.0, -10.0) + 0.05 * turn**2 * sine) / 1.1
    bend = (9.8 * sine - cosine * thrust) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    rate = ops.stack([speed, thrust - 0.05 * bend * cosine / 1.1, turn, bend], axis=1)
    return state + TICK * rate


def train(updates: int = 60, seed: int = 0) -> np.ndarray:
    """Train an actor under the global policy; how many of 100 ticks the poles stood, on average, before each update.

    Returns:
        float64 of shape (updates,), from 0 to 100.
    """
    import tensorflow as tf

    model, rng = actor(), np.random.default_rng(seed)
    optimizer = wrapped(keras.optimizers.Adam(1e-2))
    optimizer.build(model.trainable_variables)

    @tf.function
    def drive(state: Any, dice: Any) -> tuple[Any, Any, Any]:
        """States, directions, and whether the pole still stood: each (horizon, carts, ...)."""
        states, rights, standing = [tf.TensorArray(t, HORIZON) for t in (tf.float32, tf.bool, tf.bool)]
        up = tf.ones(CARTS, tf.bool)
        for tick in tf.range(HORIZON):
            right = dice[tick] < ops.softmax(model(state))[:, 1]
            states, rights = states.write(tick, state), rights.write(tick, right)
            standing = standing.write(tick, up)
            state = tf.where(up[:, None], push(state, right), state)
            up = up & tf.reduce_all(tf.abs(state) < FALLEN, axis=1)
        return states.stack(), rights.stack(), standing.stack()

    @tf.function
    def learn(states: Any, rights: Any, advantage: Any) -> None:
        with tf.GradientTape() as tape:
            logits = ops.log_softmax(model(states))
            chosen = tf.where(rights, logits[:, 1], logits[:, 0])
            scaled = optimizer.scale_loss(-ops.mean(chosen * advantage))
        optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)

    stood = []
    for _ in range(updates):
        state = tf.constant(rng.uniform(-0.05, 0.05, (CARTS, 4)).astype("float32"))
        states, rights, up = drive(state, tf.constant(rng.random((HORIZON, CARTS)).astype("float32")))
        stood.append(float(np.mean(np.sum(up, axis=0))))
        learn(tf.reshape(states, (-1, 4)), tf.reshape(rights, (-1,)), tf.constant(advantages(np.asarray(up)).ravel()))
    return np.array(stood)


def advantages(standing: np.ndarray) -> np.ndarray:
    """How much longer than the others a pole went on standing: discounted returns minus their mean at each tick.

    Args:
        standing: bool, shape (horizon, carts).

    Returns:
        float32 of the same shape, divided by the standard deviation, and 0 where the pole has fallen.
    """
    returns, after = np.zeros(standing.shape, np.float32), np.zeros(standing.shape[1], np.float32)
    for tick in reversed(range(len(standing))):
        after = standing[tick] * (1 + DISCOUNT * after)
        returns[tick] = after
    above = np.where(standing, returns - returns.mean(axis=1, keepdims=True), 0)
    return (above / (above.std() + 1e-6)).astype(np.float32)
