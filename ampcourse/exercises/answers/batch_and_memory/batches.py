"""Exercise 3: from two measurements to the largest batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (batch_a, bytes_a, batch_b, bytes_b, memory, multiple)."""

    def row(fixed: int, room: int, multiple: int) -> tuple[int, ...]:
        """`room`: what a batch may take, beside the fixed part."""
        sample = int(rng.integers(5_000_000, 20_000_000))
        a, b = (int(n) for n in rng.choice(np.arange(2, 30), 2, replace=False))
        return a, fixed + a * sample, b, fixed + b * sample, fixed + room, multiple

    def rows(fixed: tuple[int, int], multiples: tuple[int, ...]) -> tuple[list[tuple]]:
        drawn = (int(rng.integers(*fixed)) for _ in range(4))
        return ([row(f, int(rng.integers(10**9, 10**10)), int(rng.choice(multiples))) for f in drawn],)

    def tight() -> tuple[list[tuple]]:
        """Beside batches that fit, a memory that the fixed part alone overfills."""
        few = [row(int(rng.integers(10**9, 4 * 10**9)), int(rng.integers(10**8, 10**9)), 8) for _ in range(3)]
        a, bytes_a, b, bytes_b, memory, multiple = few[0]
        place = int(rng.integers(4))
        return ([*few[:place], (a, bytes_a, b, bytes_b, memory // 4, multiple), *few[place:]],)

    return {
        "a small model": rows((1_000_000, 50_000_000), (1,)),
        "a large fixed part": rows((3 * 10**9, 10**10), (1,)),
        "multiples of 8 or 64": rows((10**8, 10**9), (8, 64)),
        "hardly any memory": tight(),
    }


def _largest(
    fixed_part: bool = True,
    rounds: Callable[[float], float] = np.floor,
    multiples: bool = True,
    not_negative: bool = True,
) -> Callable[..., int]:
    """The right answer, with each of its parts open to a mistake."""

    def largest_batch(batch_a: int, bytes_a: int, batch_b: int, bytes_b: int, memory: int, multiple: int) -> int:
        sample = (bytes_b - bytes_a) / (batch_b - batch_a) if fixed_part else bytes_b / batch_b
        fixed = bytes_b - batch_b * sample if fixed_part else 0
        multiple = multiple if multiples else 1
        batch = int(rounds((memory - fixed) / sample / multiple)) * multiple
        return max(batch, 0) if not_negative else batch

    return largest_batch


def _in_whole_numbers(batch_a: int, bytes_a: int, batch_b: int, bytes_b: int, memory: int, multiple: int) -> int:
    sample = (bytes_a - bytes_b) // (batch_a - batch_b)
    left = memory - (bytes_a - batch_a * sample)
    return 0 if left < 0 else left // sample // multiple * multiple


def _by_a_line(batch_a: int, bytes_a: int, batch_b: int, bytes_b: int, memory: int, multiple: int) -> float:
    sample, fixed = np.polyfit([batch_a, batch_b], [bytes_a, bytes_b], 1)
    batch = np.floor((memory - fixed) / sample)
    return float(max(0.0, batch - batch % multiple))


def _from_the_first(batch_a: int, bytes_a: int, batch_b: int, bytes_b: int, memory: int, multiple: int) -> int:
    """In proportion to the other measurement."""
    return _largest(fixed_part=False)(batch_b, bytes_b, batch_a, bytes_a, memory, multiple)


largest_batch = Exercise(
    id="batch_and_memory.largest_batch",
    inputs=_inputs,
    observer=each,
    right=_largest(),
    points={"a small model": 1, "a large fixed part": 1, "multiples of 8 or 64": 1, "hardly any memory": 1},
    also_right=(_in_whole_numbers, _by_a_line),
    mistakes=(
        Mistake(
            _largest(fixed_part=False),
            "You scale in proportion, as if an empty batch took no memory. Take the difference of the two "
            "measurements first: it is what the additional samples cost.",
        ),
        Mistake(
            _from_the_first,
            "You scale the first measurement in proportion, as if an empty batch took no memory. That is why there are "
            "two measurements: their difference is what the additional samples cost.",
        ),
        Mistake(
            _largest(multiples=False),
            "You return the largest batch of all; asked for is the largest *multiple* of `multiple` that fits.",
        ),
        Mistake(
            _largest(rounds=np.rint),
            "You round to the nearest. Half of these batches do not fit: round down.",
        ),
        Mistake(
            _largest(rounds=np.ceil),
            "You round up, to a batch that does not fit.",
        ),
        Mistake(
            _largest(not_negative=False),
            "Where the fixed part alone is too large, you return a negative batch. No batch fits: 0.",
        ),
    ),
    hints=(
        "Two points define a line: bytes = fixed + batch * bytes for each sample.",
        "sample = (bytes_b - bytes_a) / (batch_b - batch_a), and fixed = bytes_a - batch_a * sample.",
        "(memory - fixed) // (sample * multiple) * multiple, and never below 0.",
    ),
    asks_for=(
        "ampcourse.amp.kept_for_backward",
        "ampcourse.amp.memory.Kept.largest_batch",
        "ampcourse.training.memory.largest",
        "ampcourse.bench.largest",
    ),
    insight="Two short runs tell what a third one would need. A run that ends out of memory tells nothing that these "
    "two did not.",
)
