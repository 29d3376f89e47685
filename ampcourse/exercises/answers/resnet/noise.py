"""Exercise 3: how exact an accuracy is that was measured on some pictures."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Row = tuple[float, int, float]
Three = tuple[float, float, int]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (accuracy, pictures, difference)."""

    def row(low: float, high: float, pictures: tuple[int, int]) -> Row:
        while True:
            p, difference = (round(float(rng.uniform(*ends)), 4) for ends in ((low, high), (0.002, 0.03)))
            needed = 2 * p * (1 - p) * (1.96 / difference) ** 2
            # Rounding up a whole number would depend on the order in which an answer multiplies.
            if 0.01 < needed % 1 < 0.99:
                return p, int(rng.integers(*pictures)), difference

    return {
        "a few thousand pictures": ([row(0.6, 0.95, (1_000, 5_000)) for _ in range(4)],),
        "large test sets": ([row(0.6, 0.95, (20_000, 90_000)) for _ in range(4)],),
        "nearly everything right": ([row(0.97, 0.995, (1_000, 20_000)) for _ in range(4)],),
    }


def _noise(
    variance: Callable[[float], float] = lambda p: p * (1 - p),
    spread: Callable[[float, int], float] = lambda v, n: math.sqrt(v / n),
    root: float = 2.0,
    times: float = 1.96,
    round_to: Callable[[float], int] = math.ceil,
) -> Callable[..., Three]:
    """The right answer, with each of its parts open to a mistake."""

    def noise(accuracy: float, pictures: int, difference: float) -> Three:
        error = spread(variance(accuracy), pictures)
        needed = root * variance(accuracy) * (times / difference) ** 2
        return error, times * math.sqrt(root) * error, round_to(needed)

    return noise


def _from_the_smallest(accuracy: float, pictures: int, difference: float) -> list[float]:
    error = (accuracy * (1 - accuracy)) ** 0.5 / pictures**0.5
    smallest = 1.96 * (error**2 + error**2) ** 0.5
    return [error, smallest, np.ceil(pictures * (smallest / difference) ** 2)]


def _in_numpy(accuracy: float, pictures: int, difference: float) -> np.ndarray:
    error = np.sqrt(accuracy * (1 - accuracy) / pictures)
    needed = np.ceil(accuracy * (1 - accuracy) * 2 * np.square(1.96) / np.square(difference))
    return np.array([error, np.hypot(error, error) * 1.96, needed])


def _linear(accuracy: float, pictures: int, difference: float) -> Three:
    error, smallest, _ = _noise()(accuracy, pictures, difference)
    return error, smallest, math.ceil(pictures * smallest / difference)


noise = Exercise(
    id="resnet.noise",
    inputs=_inputs,
    observer=each,
    right=_noise(),
    points={"a few thousand pictures": 1, "large test sets": 1, "nearly everything right": 2},
    also_right=(_from_the_smallest, _in_numpy),
    mistakes=(
        Mistake(
            _noise(spread=lambda v, n: v / n),
            "That is the variance of the accuracy. The standard error is its square root.",
        ),
        Mistake(
            _noise(spread=lambda v, n: math.sqrt(v) / n),
            "You divide by the number of pictures. Noise shrinks with its square root only.",
        ),
        Mistake(
            _noise(spread=lambda v, n: math.sqrt(v)),
            "That is the spread of one picture, right or wrong. The mean of many is more exact: divide by the root of "
            "their number.",
        ),
        Mistake(
            _noise(variance=lambda p: 0.25),
            "You take the noise of an accuracy of one half, the largest there is. Use accuracy * (1 - accuracy).",
        ),
        Mistake(
            _noise(variance=lambda p: p),
            "The 1 - accuracy is missing: where everything is right, there is no noise.",
        ),
        Mistake(
            _noise(root=1.0),
            "You compare with a number that is known exactly. Both accuracies are noisy: the difference of two has "
            "the square root of 2 times the standard error.",
        ),
        Mistake(
            _noise(root=4.0),
            "You double the standard error for the second accuracy. Independent errors add in squares: the square root "
            "of 2.",
        ),
        Mistake(_noise(times=1.0), "The 1.96 is missing: chance exceeds one standard error in a third of all cases."),
        Mistake(
            _noise(round_to=math.floor),
            "You round the number of pictures down (or to the nearest). Then it is one too few: round up.",
        ),
        Mistake(
            _linear,
            "For half the difference you take twice the pictures. Noise shrinks with the square root, so it takes four "
            "times as many.",
        ),
        Mistake(
            lambda p, n, d: (_noise()(p, n, d)[0], _noise()(p, n, d)[1], math.ceil(n)),
            "You return the pictures that there are. How many would be *needed* to notice `difference`?",
        ),
        Mistake(
            lambda p, n, d: (100 * _noise()(p, n, d)[0], 100 * _noise()(p, n, d)[1], _noise()(p, n, d)[2]),
            "Your first two are in percentage points. Everything is a fraction of 1 here.",
        ),
    ),
    hints=(
        "Each picture is right or wrong, like a coin that shows heads with the probability `accuracy`.",
        "The standard error is sqrt(accuracy * (1 - accuracy) / pictures); the difference of two has sqrt(2) times it.",
        "For the pictures that are needed, set 1.96 * sqrt(2 * accuracy * (1 - accuracy) / n) equal to `difference`, "
        "and solve for n; math.ceil rounds up.",
    ),
    rtol=1e-6,
    insight="To see a difference of 0.3 points between two runs at an accuracy of 85 % takes more than 100,000 test "
    "pictures. Whoever reports one from fewer needs pairs and several seeds.",
)
