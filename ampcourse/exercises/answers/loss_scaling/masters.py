"""Exercise 5: weights that live in float16, and weights with a float32 master copy."""

from __future__ import annotations

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.numerics import accumulate

Both = tuple[np.ndarray, np.ndarray]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Weights inside a binade and updates that are float16 values, so that every float32 sum is exact."""

    def weights(size: int) -> np.ndarray:
        return (rng.choice([-1, 1], size) * rng.uniform(1.1, 1.9, size)).astype(np.float16)

    def updates(low: float, high: float, size: int) -> np.ndarray:
        sizes = np.exp2(rng.uniform(low, high, (24, size)))
        return (sizes * rng.choice([-1.0, 1.0], size)).astype(np.float16).astype(np.float32)

    mixed = updates(-13, -9, 16)
    mixed *= rng.choice([-1, 1], mixed.shape)
    return {
        "small steps one way": (weights(16), updates(-13, -11.2, 16)),
        "larger steps one way": (weights(16), updates(-10.8, -9, 16)),
        "steps both ways": (weights(16), mixed.astype(np.float32)),
    }


def _plain(w: np.ndarray, updates: np.ndarray) -> np.ndarray:
    for u in updates:
        w = (w.astype(np.float32) + u).astype(np.float16)
    return w


def _master(w: np.ndarray, updates: np.ndarray) -> np.ndarray:
    master = w.astype(np.float32)
    for u in updates:
        master += u
    return master.astype(np.float16)


def _right(w: np.ndarray, updates: np.ndarray) -> Both:
    return _plain(w, updates), _master(w, updates)


def _in_float16(w: np.ndarray, updates: np.ndarray) -> Both:
    half = w.copy()
    for u in updates:
        half += u.astype(np.float16)
    return half, (w + updates.sum(axis=0)).astype(np.float16)


def _in_tensorflow(w: np.ndarray, updates: np.ndarray) -> tuple:
    import tensorflow as tf

    half, master = tf.Variable(w), tf.Variable(w.astype(np.float32))
    for u in updates:
        half.assign_add(tf.cast(u, tf.float16))
        master.assign_add(u)
    return half.value(), tf.cast(master, tf.float16)


def _by_numerics(w: np.ndarray, updates: np.ndarray) -> list:
    columns = [accumulate(updates[:, i], "float16", start=float(w[i]))[-1] for i in range(len(w))]
    return [np.float16(columns), np.float16(w.astype(np.float64) + updates.astype(np.float64).sum(axis=0))]


two_ways = Exercise(
    id="loss_scaling.two_ways",
    inputs=_inputs,
    right=_right,
    points={"small steps one way": 2, "larger steps one way": 1, "steps both ways": 1},
    also_right=(_in_float16, _in_tensorflow, _by_numerics),
    mistakes=(
        Mistake(
            lambda w, us: (_master(w, us), _master(w, us)),
            "Both of yours are added up in float32. Without a master copy the weight is rounded to float16 after "
            "*every* update, because there is nowhere else to keep it.",
        ),
        Mistake(
            lambda w, us: (_plain(w, us), _plain(w, us)),
            "Both of yours are rounded after every update. The master copy stays float32 all the way; only the copy "
            "made from it at the end is float16.",
        ),
        Mistake(
            lambda w, us: _right(w, us)[::-1],
            "The wrong order: the float16 weight comes first, then the one with a master copy.",
        ),
        Mistake(
            lambda w, us: (_plain(w, us), w.astype(np.float32) + us.sum(axis=0)),
            "You return the master copy itself, in float32. Round it to float16: that copy is what the layers compute "
            "with.",
        ),
        Mistake(
            lambda w, us: (_plain(w, -us), _master(w, -us)),
            "You subtract. The updates are ready to be added: the minus sign of gradient descent is already in them.",
        ),
        Mistake(
            lambda w, us: (_plain(w, us[-1:]), _master(w, us[-1:])),
            "Only the last update arrives in yours. Start each sum from the one before, not from the first weights.",
        ),
        Mistake(
            lambda w, us: (_plain(w, us), _master(_plain(w, us), us)),
            "Your master copy starts from a weight that has moved already: `plain += u` also changes w if both are one "
            "array. Let it start from w.copy().",
        ),
        Mistake(
            lambda w, us: (w, _master(w, us)),
            "Your float16 weight never moves. Updates above half a gap do move it: round each sum and go on from it.",
        ),
    ),
    hints=(
        "Keep two arrays through one loop over the updates: one float16, one float32.",
        "Without a master copy: w16 = (w16.astype(np.float32) + u).astype(np.float16).",
        "With one: master += u, and after the loop master.astype(np.float16).",
    ),
    dtype="float16",
    asks_for=("ampcourse.numerics.accumulate", "ampcourse.numerics.sum_in", "ampcourse.numerics.swamped"),
    insight="The float16 copy of a master weight is as coarse as a float16 weight. The difference is memory: the "
    "float32 master adds up what is too small to show, until it does show.",
)
