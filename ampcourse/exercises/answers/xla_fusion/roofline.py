"""Exercise 2: the arithmetic intensity of a matrix product, and the least time that it can take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Pair = tuple[float, float]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (m, k, n, itemsize, flops_per_second, bytes_per_second)."""

    def row(m: int, k: int, n: int) -> tuple[int, int, int, int, float, float]:
        itemsize = int(rng.choice([2, 4]))
        peak = rng.uniform(0.5, 1.5) * (200e12 if itemsize == 2 else 100e12)
        return m, k, n, itemsize, float(peak), float(rng.uniform(1e12, 3e12))

    def sizes(low: int, high: int, count: int) -> list[int]:
        return [int(size) for size in rng.integers(low, high, count)]

    return {
        "large matrices": ([row(*sizes(3000, 9000, 3)) for _ in range(5)],),
        "a matrix and a few rows": ([row(*sizes(1, 8, 1), *sizes(1000, 9000, 2)) for _ in range(5)],),
        "a long and narrow one": ([row(*sizes(9000, 90000, 1), *sizes(4, 40, 2)) for _ in range(5)],),
    }


def _least(
    per_multiply_add: float = 2,
    read: bool = True,
    written: bool = True,
    itemsize_of: Callable[[int], float] = lambda itemsize: itemsize,
    together: Callable[[float, float], float] = max,
    invert: bool = False,
) -> Callable[..., Pair]:
    """The right answer, with each of its parts open to a mistake."""

    def least_time(m: int, k: int, n: int, itemsize: int, flops_per_second: float, bytes_per_second: float) -> Pair:
        flops = per_multiply_add * m * k * n
        moved = itemsize_of(itemsize) * ((m * k + k * n) * read + m * n * written)
        intensity = moved / flops if invert else flops / moved
        return intensity, together(flops / flops_per_second, moved / bytes_per_second)

    return least_time


def _by_ridge(m: int, k: int, n: int, itemsize: int, flops_per_second: float, bytes_per_second: float) -> list[float]:
    moved = m * k * itemsize + k * n * itemsize + m * n * itemsize
    intensity = 2 * m * n * k / moved
    if intensity > flops_per_second / bytes_per_second:
        return [intensity, 2 * m * n * k / flops_per_second]
    return [intensity, moved / bytes_per_second]


def _by_roof(m: int, k: int, n: int, itemsize: int, flops_per_second: float, bytes_per_second: float) -> np.ndarray:
    flops = 2.0 * m * n * k
    intensity = flops / (itemsize * (m * k + k * n + m * n))
    return np.array([intensity, flops / np.minimum(flops_per_second, intensity * bytes_per_second)])


least_time = Exercise(
    id="xla_fusion.least_time",
    inputs=_inputs,
    observer=each,
    right=_least(),
    points={"large matrices": 1, "a matrix and a few rows": 1, "a long and narrow one": 2},
    also_right=(_by_ridge, _by_roof),
    mistakes=(
        Mistake(
            _least(per_multiply_add=1),
            "You count a multiply-add as one operation. By custom, and in every data sheet, it is two.",
        ),
        Mistake(_least(written=False), "The product has to be written too: m * n elements more."),
        Mistake(_least(read=False), "Both matrices have to be read: m * k and k * n elements more."),
        Mistake(
            _least(itemsize_of=lambda itemsize: 4),
            "You take 4 bytes for every number. An element has `itemsize` bytes: 2 in float16 and bfloat16.",
        ),
        Mistake(
            _least(itemsize_of=lambda itemsize: 1),
            "You count elements where bytes are asked for: multiply by `itemsize`.",
        ),
        Mistake(
            _least(together=min),
            "You take the shorter of the two times. Both have to pass, so the longer one decides.",
        ),
        Mistake(
            _least(together=lambda a, b: a + b),
            "You add the two times. Memory and arithmetic units work at the same time, so at best the longer one "
            "hides the other.",
        ),
        Mistake(
            _least(together=lambda a, b: a),
            "You look at the arithmetic alone. A product of few rows waits for memory.",
        ),
        Mistake(
            _least(together=lambda a, b: b),
            "You look at the memory alone. A product of large matrices waits for the arithmetic units.",
        ),
        Mistake(
            lambda *row: _least()(*row)[::-1],
            "The right two numbers, the wrong way round: first the intensity, then the seconds.",
        ),
        Mistake(
            lambda *row: (_least()(*row)[0], 1e3 * _least()(*row)[1]),
            "Your time is in milliseconds. Return seconds.",
        ),
        Mistake(
            _least(invert=True),
            "Upside down: arithmetic intensity is operations for each byte, not bytes for each operation.",
        ),
    ),
    hints=(
        "A product of (m, k) and (k, n) takes m * k * n multiply-adds, each counted as two operations.",
        "It reads m * k and k * n elements and writes m * n, each of `itemsize` bytes.",
        "Intensity is operations over bytes. The least time is max(operations / flops_per_second, "
        "bytes / bytes_per_second).",
    ),
    rtol=1e-6,
    asks_for=("ampcourse.amp.xla_module.Instruction", "ampcourse.models.zoo.flops.dense"),
    insight="Half the item size doubles the intensity. But a device with Tensor Cores multiplies its peak by far more "
    "than that, so the same product may be bound by arithmetic in float32 and by memory in float16.",
)
