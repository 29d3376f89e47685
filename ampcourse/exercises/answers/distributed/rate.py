"""Exercise 5: a learning rate for a new global batch, with a warm-up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Row = tuple[int, float, int, int, int, int]


def _inputs(rng: np.random.Generator) -> Inputs:
    def row(step: int, warmup: int) -> Row:
        """The batch of one replica differs from the one that the old rate was found for."""
        base = int(rng.choice([32, 64, 96]))
        replica = base * int(rng.choice([2, 3, 4])) // 2
        return step, float(rng.integers(1, 40)) / 128, base, replica, int(rng.choice([3, 5, 8])), warmup

    lengths = [int(n) for n in rng.integers(8, 30, 4)]
    return {
        "after the warm-up": ([row(n + int(rng.integers(0, 50)), n) for n in lengths],),
        "during the warm-up": ([row(0, lengths[0]), *(row(int(rng.integers(1, n - 1)), n) for n in lengths)],),
        "no warm-up": ([row(int(rng.integers(0, 50)), 0) for _ in range(3)],),
    }


def _rule(
    factor: Callable[[int, int, int], float] = lambda base, replica, n: replica * n / base,
    start: float = 1.0,
    early: int = 0,
) -> Callable[..., float]:
    def rate(step: int, base_rate: float, base_batch: int, replica_batch: int, replicas: int, warmup: int) -> float:
        target = base_rate * factor(base_batch, replica_batch, replicas)
        if step >= warmup:
            return target
        return start * base_rate + (target - start * base_rate) * (step + early) / warmup

    return rate


def _new_rate(rate: float, base: int, replica: int, n: int) -> float:
    return rate * replica * n / base


def _without_end(step: int, rate: float, base: int, replica: int, n: int, warmup: int) -> float:
    return rate + (_new_rate(rate, base, replica, n) - rate) * (step / warmup if warmup else 1)


def _always_divides(step: int, rate: float, base: int, replica: int, n: int, warmup: int) -> float:
    return rate + (_new_rate(rate, base, replica, n) - rate) * min(1, step / warmup)


def _divides_without_end(step: int, rate: float, base: int, replica: int, n: int, warmup: int) -> float:
    return rate + (_new_rate(rate, base, replica, n) - rate) * step / warmup


def _one_step_short(step: int, rate: float, base: int, replica: int, n: int, warmup: int) -> float:
    done = step / (warmup - 1) if step < warmup else 1
    return rate + (_new_rate(rate, base, replica, n) - rate) * done


def _geometric(step: int, rate: float, base: int, replica: int, n: int, warmup: int) -> float:
    return rate * (replica * n / base) ** (step / warmup if step < warmup else 1)


def _flat(step: int, rate: float, base: int, replica: int, n: int, warmup: int) -> float:
    return _new_rate(rate, base, replica, n) if step >= warmup else rate


def _added_on_top(step: int, rate: float, base: int, replica: int, n: int, warmup: int) -> float:
    new = _new_rate(rate, base, replica, n)
    return new if step >= warmup else rate + new * step / warmup


def _interpolated(step: int, rate: float, base: int, batch: int, n: int, warmup: int) -> np.ndarray:
    return (
        np.interp(step, [0, warmup], [rate, rate * batch * n / base]) if warmup else np.float64(rate * n * batch / base)
    )


def _in_one_expression(step: int, rate: float, base: int, batch: int, n: int, warmup: int) -> float:
    return rate * (1 + (batch * n / base - 1) * min(1.0, step / max(warmup, 1) if warmup else 1.0))


learning_rate = Exercise(
    id="distributed.learning_rate",
    inputs=_inputs,
    observer=each,
    right=_rule(),
    points={"after the warm-up": 1, "during the warm-up": 1, "no warm-up": 1},
    also_right=(_interpolated, _in_one_expression),
    mistakes=(
        Mistake(
            _rule(factor=lambda base, replica, n: n),
            "You multiply by the number of replicas. That is the ratio of the batches only if each replica has the "
            "batch that the old rate was found for: compare the new *global* batch with the old one.",
        ),
        Mistake(
            _rule(factor=lambda base, replica, n: replica / base),
            "You compare one replica's batch with the old one. An update averages over the global batch, which is as "
            "many times larger as there are replicas.",
        ),
        Mistake(
            _rule(factor=lambda base, replica, n: (replica * n / base) ** 0.5),
            "You take the square root. That rule exists, too, but asked is the linear one.",
        ),
        Mistake(
            _rule(factor=lambda base, replica, n: base / (replica * n)),
            "The wrong way round: a larger batch gets a larger rate.",
        ),
        Mistake(
            _rule(start=0.0),
            "Your warm-up starts at 0. It starts at the old rate, which is known to work.",
        ),
        Mistake(
            _rule(early=1),
            "Your warm-up is one step ahead: step 0 still has the old rate.",
        ),
        Mistake(
            lambda step, rate, base, replica, n, warmup: rate * replica * n / base,
            "You leave out the warm-up: in the first `warmup` steps the rate still grows.",
        ),
        Mistake(
            lambda step, rate, base, replica, n, warmup: rate,
            "You return the old rate, whatever the batch.",
        ),
        Mistake(
            _without_end,
            "Your rate goes on rising after the warm-up: from step `warmup_steps` on it stays at the new rate.",
        ),
        Mistake(
            _always_divides,
            "Right as long as there is a warm-up. `warmup_steps` may be 0: then the new rate holds from step 0, and "
            "there is nothing to divide by.",
        ),
        Mistake(
            _divides_without_end,
            "Your straight line never ends, and it divides by `warmup_steps`, which may be 0. From step `warmup_steps` "
            "on, the rate is the new one: ask for that first.",
        ),
        Mistake(
            _one_step_short,
            "You divide by warmup_steps - 1, and so arrive one step early. The new rate is reached at step "
            "`warmup_steps`, which is `warmup_steps` equal steps after step 0.",
        ),
        Mistake(
            _geometric,
            "Your warm-up multiplies by the same factor at each step. It exists, too, but asked is a straight line: "
            "the same amount is added at each step.",
        ),
        Mistake(
            _flat,
            "You keep the old rate during the whole warm-up and then jump. It rises in equal steps from one to the "
            "other.",
        ),
        Mistake(
            _added_on_top,
            "You add a part of the new rate to the old one, and so rise beyond it. Add a part of the *difference*.",
        ),
    ),
    hints=(
        "How many times as large as the old batch is the new global batch?",
        "Two ends: the old rate at step 0, the new rate from step `warmup` on; a straight line in between.",
        "base_rate + (target - base_rate) * step / warmup, if step < warmup",
    ),
    rtol=1e-9,
    asks_for=("ampcourse.training.parts.build_schedule",),
    insight="Linear scaling keeps the sum of updates over an epoch about the same, as long as the gradients do not "
    "change much in between. That is a heuristic with a limit, and the warm-up is there because the limit is lowest at "
    "the start.",
)
