"""What paired differences support: a bootstrap interval of their mean, and a verdict against a tolerance.

Pure NumPy: neither TensorFlow nor Keras is needed.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

EQUAL, DIFFERENT = "equal within tolerance", "different"
NOT_DECIDED, NOT_FINITE = "not decided", "not finite"
VERDICTS = (EQUAL, DIFFERENT, NOT_DECIDED, NOT_FINITE)
FEWEST = 4
"""Seeds below which no interval is given: there are too few ways to draw from three differences."""
_EXACT, _RESAMPLES = 8, 20_000


class Finding(NamedTuple):
    """The verdict, and the sentence that says what it rests on."""

    verdict: str
    sentence: str


def studentized_interval(differences: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """A bootstrap interval of the mean of paired differences, honest also for five seeds.

    The differences are drawn again with replacement; of each draw counts not its mean, as in the percentile interval,
    but how many of *its own* standard errors that mean lies away (Efron and Tibshirani 1993, section 12.5). With five
    normal differences the percentile interval holds the truth in about 84 of 100 cases instead of 95; this one in
    about 94, and it is wider. Up to 8 differences all draws are gone through, else 20,000 random ones, always the same.

    Accuracies often tie. Where so many differences are equal that too many draws have no spread of their own, the
    interval is Student's instead: mean and standard error, with the quantile for one degree of freedom less than seeds.

    Args:
        differences: shape (seeds,), finite.
        confidence: between 0 and 1.

    Returns:
        The ends; infinite where the differences carry no information: fewer than 4 of them, or all alike.
    """
    d = np.asarray(differences, np.float64)
    if d.size < FEWEST or _alike(d):
        return -math.inf, math.inf
    mean, error = float(d.mean()), float(d.std(ddof=1)) / math.sqrt(d.size)
    away, (counts, weights) = (d - mean) / error, _draws(d.size)
    means = counts @ away / d.size
    errors = np.sqrt(np.maximum(counts @ away**2 / d.size - means**2, 0) / (d.size - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(errors > 1e-6, means / errors, np.sign(means) * math.inf)
    cut = (1 - confidence) / 2
    low, high = _quantile(ratios, weights, cut), -_quantile(-ratios, weights, cut)
    if not (math.isfinite(low) and math.isfinite(high)):
        high = _student(d.size - 1, 1 - cut)
        low = -high
    return mean - high * error, mean - low * error


def _student(freedom: int, level: float) -> float:
    """The quantile of Student's t. With t = √freedom · tan u, the density in u goes with cos(u)^(freedom - 1)."""
    u = np.linspace(-math.pi / 2, math.pi / 2, 20_001)[1:-1]
    share = np.cumsum(np.cos(u) ** (freedom - 1))
    return math.sqrt(freedom) * math.tan(float(np.interp(level, share / share[-1], u)))


def _quantile(values: np.ndarray, weights: np.ndarray, cut: float) -> float:
    """The highest value with at most `cut` of the weight at or below it: outwards, to be on the safe side."""
    order = np.argsort(values)
    place = np.searchsorted(np.cumsum(weights[order]), cut, side="right") - 1
    return float(values[order[max(place, 0)]])


def _alike(d: np.ndarray) -> bool:
    """Whether all are the same number; equal metrics may differ in their last bits, which says nothing."""
    return float(np.ptp(d)) <= 64 * np.finfo(np.float64).eps * max(1.0, float(np.abs(d).max()))


@functools.cache
def _draws(size: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each draw takes each difference, shape (draws, size), and the probability of each draw."""
    if size > _EXACT:
        even = np.full(size, 1 / size)
        return np.random.default_rng(0).multinomial(size, even, _RESAMPLES), np.full(_RESAMPLES, 1 / _RESAMPLES)
    taken = itertools.combinations_with_replacement(range(size), size)
    counts = np.array([np.bincount(one, minlength=size) for one in taken])
    ways = [math.factorial(size) / math.prod(map(math.factorial, row)) for row in counts.tolist()]
    return counts, np.array(ways) / size**size


def judged(differences: np.ndarray, interval: tuple[float, float], tolerance: float) -> Finding:
    """Hold the interval of a mean difference against a tolerance, both in the metric's own units.

    Equal is said only where the whole interval lies within the tolerance, different only where all of it lies beyond.
    """
    d, (low, high) = np.asarray(differences, np.float64), interval
    if not np.isfinite(d).all():
        bad = int((~np.isfinite(d)).sum())
        return Finding(
            NOT_FINITE, f"of {d.size} pairs {bad} {'has' if bad == 1 else 'have'} a metric that is not finite"
        )
    band = f"the tolerance of {tolerance:g}"
    if d.size < FEWEST:
        return Finding(NOT_DECIDED, f"{_seeds(d.size)} cannot decide: take {FEWEST} at least, better 10")
    if _alike(d):
        ask = "does the policy reach the model, and is the metric fine enough"
        return Finding(NOT_DECIDED, f"every difference is {d[0]:.4g}, and no spread means no interval ({ask}?)")
    if -tolerance <= low and high <= tolerance:
        side = "" if low <= 0 <= high else ", though it does not hold 0: there is a difference, a small one"
        return Finding(EQUAL, f"the whole interval lies within {band}{side}")
    if high < -tolerance or low > tolerance:
        return Finding(DIFFERENT, f"the whole interval lies beyond {band}")
    return Finding(NOT_DECIDED, f"the interval reaches across {band}{_more(d, interval, tolerance)}")


def _more(d: np.ndarray, interval: tuple[float, float], tolerance: float) -> str:
    """How many seeds would probably decide: an interval shrinks with the root of their number."""
    room, half = abs(tolerance - abs(float(d.mean()))), (interval[1] - interval[0]) / 2
    needed = math.inf if room == 0 else math.ceil(d.size * (half / room) ** 2)
    if needed > 1000:
        return "; the mean lies so near to it that more seeds will hardly decide"
    return f"; if mean and spread stay as they are, about {max(needed, d.size + 1)} seeds would decide"


def _seeds(number: int) -> str:
    return "one seed" if number == 1 else f"{number} seeds"
