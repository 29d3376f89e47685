"""Exercise 6: two classifiers compared on the same pictures."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

Four = tuple[float, float, float, float]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Predictions of two classifiers that are often wrong together, and then not always in the same way."""

    def predictions(pictures: int, accuracy: float, worse: float, better: float) -> tuple[np.ndarray, ...]:
        labels = rng.integers(10, size=pictures)
        first = np.where(rng.random(pictures) < accuracy, labels, _another(rng, labels))
        draw, right = rng.random(pictures), first == labels
        second = np.where(right & (draw < worse), _another(rng, labels), first)
        second = np.where(~right & (draw < better), labels, second)
        also = ~right & (draw > 1 - 0.4)  # wrong again, in another way
        return labels, first, np.where(also & (second != labels), _another(rng, labels), second)

    def whole(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    return {
        "much alike": predictions(whole(1500, 2500), 0.85, 0.04, 0.27),
        "one of them clearly better": predictions(whole(1500, 2500), float(rng.uniform(0.6, 0.7)), 0.06, 0.55),
        "few pictures": predictions(whole(150, 250), 0.8, 0.08, 0.4),
    }


def _another(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    return (labels + rng.integers(1, 10, size=labels.size)) % 10


def _compare(
    sign: int = 1,
    variance: Callable[[int, int, int], float] = lambda b, c, n: (b + c) / n - ((c - b) / n) ** 2,
    quantile: float = 1.96,
    root: Callable[[int], float] = math.sqrt,
    mcnemar: Callable[[int, int], float] = lambda b, c: (c - b) ** 2 / (b + c),
    times: float = 1.0,
) -> Callable[..., Four]:
    """The right answer, with each of its parts open to a mistake."""

    def compare(labels: np.ndarray, first: np.ndarray, second: np.ndarray) -> Four:
        one, other = np.asarray(first) == labels, np.asarray(second) == labels
        b, c, n = int(np.sum(one & ~other)), int(np.sum(other & ~one)), len(labels)
        difference = sign * (c - b) / n
        half = quantile * math.sqrt(variance(b, c, n)) / root(n)
        return times * difference, times * (difference - half), times * (difference + half), mcnemar(b, c)

    return compare


def _by_differences(labels: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    d = (second == labels).astype(float) - (first == labels)
    ends = d.mean() + np.array([0, -1, 1]) * 1.96 * d.std() / math.sqrt(d.size)
    return np.append(ends, d.sum() ** 2 / (d != 0).sum())


def _in_python(labels: np.ndarray, first: np.ndarray, second: np.ndarray) -> list[float]:
    d = [int(s == y) - int(f == y) for y, f, s in zip(labels, first, second, strict=True)]
    n, mean = len(d), sum(d) / len(d)
    half = 1.96 * (sum((x - mean) ** 2 for x in d) / n / n) ** 0.5
    return [mean, mean - half, mean + half, sum(d) ** 2 / sum(x * x for x in d)]


def _unpaired(labels: np.ndarray, first: np.ndarray, second: np.ndarray) -> Four:
    p, q = float(np.mean(first == labels)), float(np.mean(second == labels))
    half = 1.96 * math.sqrt((p * (1 - p) + q * (1 - q)) / len(labels))
    return q - p, q - p - half, q - p + half, _compare()(labels, first, second)[3]


def _any_difference(labels: np.ndarray, first: np.ndarray, second: np.ndarray) -> Four:
    """Pictures on which the two say different things, right or wrong."""
    difference, n = float(np.mean(second == labels) - np.mean(first == labels)), len(labels)
    apart = float(np.mean(first != second))
    half = 1.96 * math.sqrt((apart - difference**2) / n)
    return difference, difference - half, difference + half, n * difference**2 / apart


compare = Exercise(
    id="vit.compare",
    inputs=_inputs,
    right=_compare(),
    points={"much alike": 1, "one of them clearly better": 2, "few pictures": 1},
    also_right=(_by_differences, _in_python),
    mistakes=(
        Mistake(
            _unpaired,
            "You treat the two accuracies as if they came from different pictures. They come from the same ones, and "
            "what makes a picture hard is hard for both: take the difference for each picture first.",
        ),
        Mistake(
            _any_difference,
            "You count pictures on which the two *say* different things. If both are wrong, each in its own way, that "
            "tells nothing about which is better: compare each with the label first.",
        ),
        Mistake(
            _compare(variance=lambda b, c, n: (b + c) / n),
            "Nearly: the variance of the differences is their mean square *less the square of their mean*. The second "
            "part matters once one of the two is clearly better.",
        ),
        Mistake(
            _compare(sign=-1),
            "The sign: second minus first, so that a positive difference means that the second one is better.",
        ),
        Mistake(
            _compare(root=lambda n: 1.0),
            "That is how far single pictures spread. The mean over n of them is more exact: divide by the root of n.",
        ),
        Mistake(_compare(quantile=1.0), "The factor 1.96 is missing: one standard error covers 68 %, not 95 %."),
        Mistake(
            _compare(times=100.0),
            "Your difference is in percentage points. Return a fraction of 1.",
        ),
        Mistake(
            _compare(mcnemar=lambda b, c: (abs(c - b) - 1) ** 2 / (b + c)),
            "The interval is right. McNemar's number is asked for without the correction for continuity: "
            "(c - b)² / (b + c).",
        ),
        Mistake(
            _compare(mcnemar=lambda b, c: abs(c - b) / math.sqrt(b + c)),
            "The interval is right. Your last number is the root of McNemar's.",
        ),
    ),
    hints=(
        "For each picture: +1 if only the second is right, -1 if only the first is, 0 otherwise.",
        "The difference is the mean of these numbers, its standard error their standard deviation over the root of n.",
        "McNemar's number is (c - b)² / (b + c), with b and c the counts of -1 and +1.",
    ),
    rtol=3e-3,
    atol=3e-4,
    insight="Pictures that both get right, or both get wrong, do not enter. With the same accuracies, two models that "
    "err on the same pictures can be told apart with far fewer of them.",
)
