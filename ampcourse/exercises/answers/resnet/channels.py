"""Exercise 1: the work of a convolution, and what it becomes when channels are filled up to multiples of 8."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Pair = tuple[int, int]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (inputs, outputs, kernel, height, width)."""

    def row(inputs: int, outputs: int, kernel: int | None = None) -> tuple[int, ...]:
        height, width = (int(size) for size in rng.choice([7, 10, 14, 20, 28, 56], 2, replace=False))
        return inputs, outputs, int(rng.choice([3, 5, 7])) if kernel is None else kernel, height, width

    def odd(count: int) -> list[int]:
        return [int(8 * rng.integers(2, 40) + rng.integers(1, 8)) for _ in range(count)]

    def even(count: int) -> list[int]:
        return [int(8 * size) for size in rng.integers(2, 40, count)]

    return {
        "inside the network": ([row(*even(2)), row(*even(2), 1), row(*even(2))],),
        "the first convolution": ([row(3, *even(1)), row(1, *even(1)), row(4, *even(1))],),
        "other numbers of channels": ([row(*odd(2)), row(*odd(2), 1), row(*even(1), *odd(1)), row(*odd(1), *even(1))],),
    }


def _up(channels: int) -> int:
    return -(-channels // 8) * 8


def _down(channels: int) -> int:
    return max(channels // 8, 1) * 8


def _work(
    up_in: Callable[[int], int] = _up,
    up_out: Callable[[int], int] = _up,
    side: Callable[[int], int] = lambda kernel: kernel**2,
    places: Callable[[int, int], int] = lambda height, width: height * width,
    each_counts: int = 1,
) -> Callable[..., Pair]:
    """The right answer, with each of its parts open to a mistake."""

    def padded_work(inputs: int, outputs: int, kernel: int, height: int, width: int) -> Pair:
        rest = each_counts * side(kernel) * places(height, width)
        return inputs * outputs * rest, up_in(inputs) * up_out(outputs) * rest

    return padded_work


def _in_steps(inputs: int, outputs: int, kernel: int, height: int, width: int) -> list[int]:
    weights = kernel * kernel * inputs * outputs
    while inputs % 8:
        inputs += 1
    while outputs % 8:
        outputs += 1
    return [weights * height * width, kernel * kernel * inputs * outputs * height * width]


def _in_numpy(inputs: int, outputs: int, kernel: int, height: int, width: int) -> np.ndarray:
    full = 8 * np.ceil(np.array([inputs, outputs]) / 8)
    return np.array([inputs * outputs, full.prod()]) * kernel**2 * height * width


padded_work = Exercise(
    id="resnet.padded_work",
    inputs=_inputs,
    observer=each,
    right=_work(),
    points={"inside the network": 1, "the first convolution": 1, "other numbers of channels": 1},
    also_right=(_in_steps, _in_numpy, lambda i, o, k, h, w: (math.prod((i, o, k, k, h, w)), _work()(i, o, k, h, w)[1])),
    mistakes=(
        Mistake(
            _work(side=lambda kernel: kernel),
            "You count a row of the kernel. It is a square: kernel * kernel numbers for each pair of channels.",
        ),
        Mistake(
            _work(side=lambda kernel: 1),
            "The kernel's size is missing: each output is a sum over kernel * kernel places.",
        ),
        Mistake(
            _work(places=lambda height, width: 1),
            "You count the weights. Each of them is used at every one of the height * width places.",
        ),
        Mistake(
            _work(places=lambda height, width: height * height),
            "The picture is height times width here, not a square.",
        ),
        Mistake(
            _work(each_counts=2),
            "You count operations, two for a multiply-add. Multiply-adds are asked for here.",
        ),
        Mistake(_work(up_in=lambda channels: channels), "Only the outputs are filled up. The inputs are, too."),
        Mistake(_work(up_out=lambda channels: channels), "Only the inputs are filled up. The outputs are, too."),
        Mistake(
            _work(_down, _down),
            "You round down to a multiple of 8, so channels get lost. Fill *up*.",
        ),
        Mistake(
            _work(*[lambda channels: (channels // 8 + 1) * 8] * 2),
            "A number that is a multiple of 8 already needs no filling; yours gets 8 channels more.",
        ),
        Mistake(
            _work(*[lambda channels: 2 ** (channels - 1).bit_length()] * 2),
            "You fill up to a power of two. The next multiple of 8 is enough.",
        ),
        Mistake(
            lambda *row: _work()(*row)[::-1],
            "The right two numbers, the wrong way round: first the work as it is, then the filled-up one.",
        ),
    ),
    hints=(
        "For one output number: kernel * kernel places, at each of them all input channels.",
        "There are height * width * outputs output numbers.",
        "-(-channels // 8) * 8 is the next multiple of 8, or channels itself if it is one.",
    ),
    rtol=1e-9,
    asks_for=("ampcourse.models.zoo.flops.conv",),
    insight="The further a number of channels lies below the next multiple of 8, the more of the multiplications are "
    "with zeros. Only the first convolution of a ResNet is hit, and its share of the work is small.",
)
