"""Exercise 3: how many bytes a ring all-reduce sends, by dtype policy."""

from __future__ import annotations

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}


def _inputs(rng: np.random.Generator) -> Inputs:
    def rows(policies: list[str], replicas: list[int]) -> tuple[list[tuple[int, str, int]]]:
        """Numbers of parameters that can be cut into equal pieces."""
        return ([(840 * int(rng.integers(100, 90_000)), p, n) for p in policies for n in replicas],)

    many = [2, int(rng.choice([3, 4, 5])), 8]
    return {
        "float32": rows(["float32"], many),
        "mixed policies": rows(["mixed_float16", "mixed_bfloat16"], many),
        "pure 16-bit policies, and one device alone": rows(["float16", "bfloat16", "mixed_float16"], [1, *many[:2]]),
    }


def _stored(policy: str) -> int:
    return 4 if policy.startswith("mixed") else _SIZES[policy]


def _right(parameters: int, policy: str, replicas: int) -> float:
    return 2 * (replicas - 1) / replicas * parameters * _stored(policy)


def _by_pieces(parameters: int, policy: str, replicas: int) -> int:
    piece, sent = parameters // replicas, 0
    for _phase in ("reduce-scatter", "all-gather"):
        for _step in range(replicas - 1):
            sent += piece * (2 if policy in ("float16", "bfloat16") else 4)
    return sent


def _by_keras(parameters: int, policy: str, replicas: int) -> float:
    import keras

    size = {"float32": 4}.get(keras.dtype_policies.get(policy).variable_dtype, 2)
    return np.float64(parameters) * size * 2 * (1 - 1 / replicas)


ring_bytes = Exercise(
    id="distributed.ring_bytes",
    inputs=_inputs,
    observer=each,
    right=_right,
    points={"float32": 1, "mixed policies": 1, "pure 16-bit policies, and one device alone": 1},
    also_right=(_by_pieces, _by_keras),
    mistakes=(
        Mistake(
            lambda p, policy, n: 2 * (n - 1) / n * p * (4 if policy == "float32" else 2),
            "You send 2 bytes under a mixed policy, as popular articles do. The variables are float32 there, and a "
            "gradient has the dtype of its variable: 4 bytes, as under float32.",
        ),
        Mistake(
            lambda p, policy, n: 2 * (n - 1) / n * p * 4,
            "You send 4 bytes under every policy. Under the pure policies float16 and bfloat16 the variables, and so "
            "their gradients, have 16 bits.",
        ),
        Mistake(
            lambda p, policy, n: (n - 1) / n * p * _stored(policy),
            "That is one of two phases. First each device gathers the finished sum of its own piece, then the finished "
            "pieces go round once more.",
        ),
        Mistake(
            lambda p, policy, n: 2 * (n - 1) * p * _stored(policy),
            "You send the whole gradient at every step, or count all devices together. In a ring a device sends one "
            "piece, an n-th of it, at a time; asked is what one device sends.",
        ),
        Mistake(
            lambda p, policy, n: 2 * p * _stored(policy),
            "Nearly: 2 (n - 1) / n, not 2. A device does not send a piece to itself, and one device alone sends "
            "nothing.",
        ),
        Mistake(
            lambda p, policy, n: p * _stored(policy),
            "That is the size of the gradient. In a ring each device sends 2 (n - 1) / n times that.",
        ),
        Mistake(
            lambda p, policy, n: 2 * (n - 1) / n * p * _stored(policy) * 8,
            "You count bits. A byte has 8 of them.",
        ),
        Mistake(
            lambda p, policy, n: 2 * (n - 1) / n * p,
            "You count numbers. Multiply by the bytes that each one has.",
        ),
        Mistake(
            lambda p, policy, n: p / n * _stored(policy),
            "That is one piece, sent once. A device sends one piece at every step, and a ring of n devices takes "
            "n - 1 steps in each of its two phases.",
        ),
        Mistake(
            lambda p, policy, n: 2 * p / n * _stored(policy),
            "That is one piece for each phase. A phase has n - 1 steps, and a device sends a piece at each of them.",
        ),
        Mistake(
            lambda p, policy, n: (n - 1) * p * _stored(policy),
            "That is everybody's gradient, sent whole to each of the others. In a ring the gradient travels in n "
            "pieces, and what is passed on has been added up already.",
        ),
        Mistake(
            lambda p, policy, n: 2 * p * _stored(policy) * (n - 1) / n if n > 1 else p * _stored(policy),
            "Right for several devices; one alone has nobody to send to, so it sends 0 bytes.",
        ),
    ),
    hints=(
        "Two questions: how many numbers does one device send, and how many bytes has each?",
        "Under a policy called mixed_..., in which dtype are variables, and so their gradients?",
        "2 * (replicas - 1) / replicas * parameters * (4 if variables are float32 else 2)",
    ),
    rtol=1e-9,
    insight="The compute dtype does not appear in the answer. What is sent has the variables' dtype, so a mixed policy "
    "sends exactly as many bytes as float32 does.",
)
