"""Exercise 4: an interval for the difference of two policies, from runs in pairs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

Three = tuple[float, float, float]
QUANTILES = {3: 4.303, 4: 3.182, 5: 2.776, 8: 2.365, 10: 2.262}
"""Student's t for 95 %, by the number of pairs."""


def _inputs(rng: np.random.Generator) -> Inputs:
    """`first`, `second` and the quantile; seeds vary more than pairs differ."""

    def runs(seeds: int, difference: float, apart: float = 0.004) -> tuple[np.ndarray, np.ndarray, float]:
        first = rng.uniform(0.7, 0.9) + rng.normal(size=seeds) * 0.012
        second = first + difference + rng.normal(size=seeds) * apart
        return first.round(4), second.round(4), QUANTILES[seeds]

    return {
        "three seeds": runs(3, 0.0),
        "ten seeds": runs(10, float(rng.uniform(-0.002, 0.002))),
        "a real difference": runs(int(rng.choice([5, 8])), float(rng.choice([-1, 1]) * rng.uniform(0.02, 0.03))),
    }


def _interval(
    ddof: int = 1,
    root: Callable[[int], float] = math.sqrt,
    quantile: Callable[[float], float] = lambda t: t,
    sign: int = 1,
    pairs: bool = True,
    middle: Callable[[Any], float] = np.mean,
) -> Callable[..., Three]:
    """The right answer, with each of its parts open to a mistake."""

    def paired_interval(first: np.ndarray, second: np.ndarray, t: float) -> Three:
        differences = sign * (np.asarray(second) - np.asarray(first))
        spread = np.std(differences, ddof=ddof)
        if not pairs:
            spread = math.sqrt(np.var(first, ddof=1) + np.var(second, ddof=1))
        half = quantile(t) * spread / root(len(differences))
        mean = float(middle(differences))
        return mean, float(mean - half), float(mean + half)

    return paired_interval


def _in_python(first: np.ndarray, second: np.ndarray, t: float) -> list[float]:
    differences = [float(b) - float(a) for a, b in zip(first, second, strict=True)]
    mean = statistics.fmean(differences)
    half = t * statistics.stdev(differences) / len(differences) ** 0.5
    return [mean, mean - half, mean + half]


def _by_sums(first: np.ndarray, second: np.ndarray, t: float) -> np.ndarray:
    d = second - first
    mean, n = d.sum() / d.size, d.size
    return mean + np.array([0, -1, 1]) * t * np.sqrt(((d - mean) ** 2).sum() / (n * (n - 1)))


def _least_and_most(first: np.ndarray, second: np.ndarray, t: float) -> Three:
    d = np.asarray(second) - np.asarray(first)
    return float(d.mean()), float(d.min()), float(d.max())


paired_interval = Exercise(
    id="resnet.paired_interval",
    inputs=_inputs,
    right=_interval(),
    points={"three seeds": 1, "ten seeds": 1, "a real difference": 2},
    also_right=(_in_python, _by_sums),
    mistakes=(
        Mistake(
            _interval(pairs=False),
            "You take the spread of each policy's runs. Most of it is the seed, which both runs of a pair share: take "
            "the differences first, then their spread.",
        ),
        Mistake(
            _interval(ddof=0),
            "Your standard deviation divides by the number of seeds. NumPy does so unless told ddof=1; from a sample, "
            "and from three above all, that is too small.",
        ),
        Mistake(
            _interval(root=lambda n: 1.0),
            "That is where single differences lie. The *mean* is more exact: divide by the root of their number.",
        ),
        Mistake(
            _interval(root=lambda n: float(n)),
            "You divide by the number of pairs. The standard error of a mean shrinks with its square root only.",
        ),
        Mistake(
            _interval(quantile=lambda t: 1.96),
            "1.96 is for many pairs. With few, the spread itself is uncertain, and the quantile `t` accounts for that.",
        ),
        Mistake(_interval(quantile=lambda t: 1.0), "The quantile `t` is missing: one standard error is too narrow."),
        Mistake(
            _interval(sign=-1),
            "The sign: second minus first, so that a positive difference means that the second policy is better.",
        ),
        Mistake(_least_and_most, "You return the least and the largest difference. More seeds would make that wider."),
        Mistake(
            lambda first, second, t: _interval()(first, second, t)[1:] + _interval()(first, second, t)[:1],
            "The right three numbers in another order: the mean first, then the lower and the upper end.",
        ),
    ),
    hints=(
        "Three steps: differences, their standard deviation (ddof=1), the standard error of their mean.",
        "half = t * standard deviation / sqrt(number of pairs).",
        "d = second - first; then d.mean(), d.std(ddof=1) and math.sqrt(len(d)).",
    ),
    rtol=1e-6,
    atol=1e-9,
    asks_for=("ampcourse.amp.parity", "ampcourse.amp.paired_interval.studentized_interval"),
    insight="A pair shares its initial weights and its batches. What they make of an accuracy cancels in the "
    "difference, and the interval shows only what is left.",
)
