"""Exercise 4: the learning rate for a larger batch, with a gradual warm-up."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (step, samples, batch, base_batch, base_rate, warmup_epochs)."""

    def row(where: str, smaller: bool = False) -> tuple:
        base_batch = int(rng.choice([32, 64, 256]))
        factor = float(rng.choice([0.25, 0.5])) if smaller else float(rng.choice([2, 4, 8, 32]))
        batch, warmup = int(base_batch * factor), 0 if where == "none" else int(rng.integers(1, 6))
        samples = int(rng.integers(30, 60)) * batch + int(rng.integers(1, batch))
        steps = warmup * (samples // batch)
        step = {
            "during": lambda: int(rng.integers(1, max(steps, 2))),
            "after": lambda: steps + int(rng.integers(1, 500)),
            "none": lambda: int(rng.integers(0, 500)),
        }[where]()
        return step, samples, batch, base_batch, float(rng.uniform(0.01, 0.2)), warmup

    return {
        "after the warm-up": ([row("after") for _ in range(4)],),
        "during the warm-up": ([row("during") for _ in range(5)],),
        "without a warm-up": ([row("none") for _ in range(4)],),
        "a smaller batch": ([row("during", smaller=True), *(row("after", smaller=True) for _ in range(3))],),
    }


def _rate(
    scaling: Callable[[float], float] = lambda k: k,
    start: Callable[[float], float] = lambda base: base,
    steps_an_epoch: Callable[[int, int, int], float] = lambda samples, batch, base_batch: samples // batch,
    stops: bool = True,
    steep: float = 1,
    first: int = 0,
) -> Callable[..., float]:
    """The right answer, with each of its parts open to a mistake."""

    def warmed_rate(
        step: int, samples: int, batch: int, base_batch: int, base_rate: float, warmup_epochs: int
    ) -> float:
        target = base_rate * scaling(batch / base_batch)
        steps = warmup_epochs * steps_an_epoch(samples, batch, base_batch)
        if steps == 0 or (stops and step >= steps):
            return target
        low = start(base_rate)
        return low + (target - low) * ((step + first) / steps) ** steep

    return warmed_rate


def _clipped(step: int, samples: int, batch: int, base_batch: int, base_rate: float, warmup_epochs: int) -> float:
    steps = max(warmup_epochs * math.floor(samples / batch), 1e-9)
    return base_rate + base_rate * (batch / base_batch - 1) * min(1.0, (step + (warmup_epochs == 0)) / steps)


def _interpolated(step: int, samples: int, batch: int, base_batch: int, base_rate: float, warmup_epochs: int) -> float:
    scaled = base_rate / base_batch * batch
    if not warmup_epochs:
        return scaled
    return float(np.interp(step, [0, (samples // batch) * warmup_epochs], [base_rate, scaled]))


warmed_rate = Exercise(
    id="batch_and_memory.warmed_rate",
    inputs=_inputs,
    observer=each,
    right=_rate(),
    points={"after the warm-up": 1, "during the warm-up": 1, "without a warm-up": 1, "a smaller batch": 1},
    also_right=(_clipped, _interpolated),
    mistakes=(
        Mistake(
            _rate(scaling=lambda k: math.sqrt(k)),
            "You scale by the square root of k. That rule exists as well (for the noise of the gradient, or Adam), but "
            "asked for is the linear one.",
        ),
        Mistake(
            _rate(scaling=lambda k: 1),
            "Your rate does not depend on the batch. Linear scaling multiplies it by batch / base_batch.",
        ),
        Mistake(
            _rate(scaling=lambda k: 1 / k),
            "You divide by k. A larger batch takes fewer steps in an epoch, so each has to be longer.",
        ),
        Mistake(
            _rate(start=lambda base: 0.0),
            "Your warm-up starts at 0. Many schedules do; this one starts at base_rate, which is known to work.",
        ),
        Mistake(
            _rate(steps_an_epoch=lambda samples, batch, base_batch: samples // base_batch),
            "You count an epoch's steps with base_batch. The run takes batches of size `batch`, so its epochs have "
            "other numbers of steps.",
        ),
        Mistake(
            _rate(steps_an_epoch=lambda samples, batch, base_batch: math.ceil(samples / batch)),
            "You count the last, incomplete batch as a step. Here it is dropped.",
        ),
        Mistake(
            _rate(steps_an_epoch=lambda samples, batch, base_batch: 1),
            "You take epochs for steps: an epoch has samples // batch of them.",
        ),
        Mistake(
            _rate(stops=False),
            "Your rate goes on rising after the warm-up. From then on it stays at its full value.",
        ),
        Mistake(
            _rate(first=1),
            "You are one step ahead: step 0 is the first, and it is taken at base_rate.",
        ),
        Mistake(
            _rate(steep=math.inf),
            "Before the end of the warm-up you stay at base_rate, and then jump. Rise by the same amount at each step.",
        ),
    ),
    hints=(
        "k = batch / base_batch, and the full rate is k * base_rate.",
        "The warm-up takes warmup_epochs * (samples // batch) steps. Is the step before its end?",
        "base_rate + (full - base_rate) * step / steps before the end, else full. Mind warmup_epochs = 0.",
    ),
    rtol=1e-6,
    asks_for=("ampcourse.training.parts.build_schedule",),
    insight="The warm-up is there for the first steps, in which the weights change quickly and a sum of k small steps "
    "is not one step k times as long.",
)
