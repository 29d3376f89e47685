"""Exercise 1: what each replica contributes to the loss of the global batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

Losses = list[np.ndarray]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Losses of single examples, an array a replica; multiples of 1/64, so that every sum is exact."""

    def losses(*sizes: int) -> tuple[Losses]:
        return ([(rng.integers(1, 640, size) / 64).astype(np.float32) for size in sizes],)

    few, many = (int(n) for n in rng.permutation([3, 5, 7, 9])[:2])
    return {
        "replicas of equal size": losses(*[few] * int(rng.integers(3, 6))),
        "replicas of different size": losses(many, few, many + 1),
        "a replica without an example": losses(few, 0, many),
    }


def _total(losses: Losses) -> int:
    return sum(len(part) for part in losses)


def _right(losses: Losses) -> list[float]:
    return [float(part.sum()) / _total(losses) for part in losses]


def _in_a_loop(losses: Losses) -> np.ndarray:
    shares, examples = [], 0
    for part in losses:
        share = 0.0
        for value in part:
            share += value
        examples += len(part)
        shares.append(share)
    return np.array(shares) / examples


def _weighted(losses: Losses) -> list[float]:
    return [part.mean() * len(part) / _total(losses) if len(part) else 0.0 for part in losses]


def _in_tensorflow(losses: Losses) -> list[Any]:
    import tensorflow as tf

    total = sum(part.size for part in losses)
    return [tf.nn.compute_average_loss(tf.constant(part), global_batch_size=total) for part in losses]


def _mean_size(losses: Losses) -> float:
    return _total(losses) / len(losses)


def _mean(part: np.ndarray) -> float:
    return float(part.mean()) if len(part) else 0.0


loss_shares = Exercise(
    id="distributed.loss_shares",
    inputs=_inputs,
    right=_right,
    points={"replicas of equal size": 1, "replicas of different size": 1, "a replica without an example": 1},
    also_right=(_in_a_loop, _weighted, _in_tensorflow),
    mistakes=(
        Mistake(
            lambda losses: [_mean(part) for part in losses],
            "You take the mean on each replica. The all-reduce adds the shares up, so the loss, and every gradient, "
            "comes out about as many times too large as there are replicas.",
        ),
        Mistake(
            lambda losses: [_mean(part) / len(losses) for part in losses],
            "A mean of means: right only while all replicas have equally many examples. The last batch of an epoch "
            "usually is uneven. Divide each sum by the number of examples of all replicas.",
        ),
        Mistake(
            lambda losses: [float(part.sum()) for part in losses],
            "You add up but do not divide: the loss grows with the batch.",
        ),
        Mistake(
            lambda losses: [float(part.sum()) / (len(losses[0]) * len(losses)) for part in losses],
            "You take the global batch to be as many times the first replica's as there are replicas. Add up the "
            "sizes.",
        ),
        Mistake(
            lambda losses: [float(np.concatenate(losses).mean())] * len(losses),
            "You give every replica the mean of all. Added up, that is too large by the number of replicas; and a "
            "replica does not know the others' losses.",
        ),
        Mistake(
            lambda losses: [float(np.concatenate(losses).mean()) / len(losses)] * len(losses),
            "The sum is right, but each replica has to give what *its own* examples contribute: it does not know the "
            "others' losses.",
        ),
        Mistake(
            lambda losses: [float(part.sum()) / max(map(len, losses)) / len(losses) for part in losses],
            "You divide as if every replica were as full as the fullest. Add up the sizes.",
        ),
        Mistake(
            lambda losses: [float(part.sum()) / _mean_size(losses) for part in losses],
            "You divide by the mean size of the replicas. The shares are added up, not averaged, so that is too large "
            "by the number of replicas: divide by the sum of the sizes.",
        ),
        Mistake(
            lambda losses: [float(part.sum()) / len(losses) for part in losses],
            "You divide by the number of replicas. The mean is over examples: divide by the number of all of them.",
        ),
        Mistake(
            lambda losses: float(np.concatenate(losses).mean()),
            "That is what the shares must add up to. Asked is what each replica contributes to it: one number a "
            "replica.",
        ),
        Mistake(
            lambda losses: [float(part.sum()) / _total(losses) for part in losses if len(part)],
            "You leave out the replica that has no example. It takes part in the all-reduce, too, with a share of 0: "
            "one number for each replica.",
        ),
        Mistake(
            lambda losses: [part.mean() * len(part) / _total(losses) for part in losses],
            "Nearly: a replica without an example has no mean (0 / 0 is NaN), and NaN times 0 is NaN again. Its sum is "
            "0: start from the sums.",
        ),
        Mistake(
            lambda losses: [part.mean() for part in losses],
            "You take the mean on each replica. Added up, the means are as many times too large as there are replicas; "
            "and where a replica has no example its mean is 0 / 0, a NaN that the all-reduce gives to all.",
        ),
        Mistake(
            lambda losses: [sum(part) / len(part) for part in losses],
            "You divide each sum by the replica's own size. Added up, these means are as many times too large as there "
            "are replicas; and a replica may have no example to divide by.",
        ),
        Mistake(
            lambda losses: [part.mean() / len(losses) for part in losses],
            "A mean of means: right only while all replicas have equally many examples, and NaN as soon as one has "
            "none. Divide each sum by the number of examples of all replicas.",
        ),
    ),
    hints=(
        "The shares are going to be added up. What must they add up to?",
        "The mean over all examples is (sum on replica 0 + sum on replica 1 + ...) / (number of all examples).",
        "[part.sum() / total for part in losses], with total = sum(len(part) for part in losses)",
    ),
    rtol=1e-5,
    insight="Divide by the global batch on every replica, add up in the all-reduce: then it does not matter how the "
    "batch was cut. tf.nn.compute_average_loss(losses, global_batch_size=...) is this division.",
)
