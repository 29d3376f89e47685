"""Exercise 6: the cheapest format that keeps a promise about range and precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each
from ampcourse.numerics import FORMATS, Format

ORDER = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32")

Need = tuple[float, float, float]  # low, high, tolerance


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (low, high, tolerance), none near the point where the answer changes: 25 % off at least."""

    def ranges() -> list[Need]:
        lows = ((-5.5, -1.0), (-13.5, -11.0), (-20.9, -18.0), (-100.0, -30.0))  # log2; one more format gives up at each
        highs = ((3.0, 8.6), (9.2, 15.5), (16.5, 100.0))
        return [(_power(rng, low), _power(rng, high), rng.uniform(0.17, 0.24)) for low in lows for high in highs]

    def precisions() -> list[Need]:
        highs = ((3.0, 8.6), (9.2, 15.5), (16.5, 100.0))
        return [(_power(rng, (-5.5, -1.0)), _power(rng, high), _near_roundoff(rng, n)) for n in ORDER for high in highs]

    def subnormals() -> list[Need]:
        loose = [_subnormal_need(rng, lambda error: error * rng.uniform(1.3, 1.9)) for _ in range(8)]
        tight = [_subnormal_need(rng, lambda error: error / rng.uniform(1.3, 1.9)) for _ in range(8)]
        return loose + tight

    def shuffled(needs: list[Need]) -> list[Need]:
        return [needs[i] for i in rng.permutation(len(needs))]

    return {
        "when the range decides": (shuffled(ranges()),),
        "when the precision decides": (shuffled(precisions()),),
        "when subnormals are good enough, or not": (shuffled(subnormals()),),
    }


def _power(rng: np.random.Generator, exponents: tuple[float, float]) -> float:
    return float(2.0 ** rng.uniform(*exponents))


def _near_roundoff(rng: np.random.Generator, name: str) -> float:
    """A tolerance somewhat above the format's unit roundoff, or somewhat below where another format is left."""
    slack = rng.uniform(1.3, 1.7)
    above = name == "float32" or rng.random() < 0.7
    return float(FORMATS[name].unit_roundoff * (slack if above else 1 / slack))


def _subnormal_need(rng: np.random.Generator, tolerate: Callable[[float], float]) -> Need:
    while True:
        low = _power(rng, (-20.5, -15.5))
        tolerance = tolerate(FORMATS["float16"].least_subnormal / 2 / low)
        if not 1 / 1.3 < tolerance / FORMATS["bfloat16"].unit_roundoff < 1.3:  # else bfloat16 is a close call
            return low, _power(rng, (9.2, 15.5)), float(tolerance)


def _largest_error(fmt: Format, low: float) -> float:
    return max(fmt.unit_roundoff, fmt.least_subnormal / 2 / low)


def _first(
    promise: Callable[[Format, float, float, float], bool], order: tuple[str, ...] = ORDER
) -> Callable[..., str]:
    def choose(low: float, high: float, tolerance: float) -> str:
        return next((name for name in order if promise(FORMATS[name], low, high, tolerance)), "float32")

    return choose


_right = _first(lambda f, low, high, tol: high <= f.largest and _largest_error(f, low) <= tol)


def _by_trying(low: float, high: float, tolerance: float) -> str:
    """Round many numbers and look; finds the largest error to within a few per cent, which is enough here."""
    everywhere, first_binade = np.geomspace(low, high, 500), np.geomspace(low, 2 * low, 2000)
    first_gaps = low * np.linspace(1, 1.3, 2000)
    x = np.r_[everywhere, first_binade, first_gaps]
    for name in ORDER[:-1]:
        with np.errstate(invalid="ignore"):
            error = np.abs(FORMATS[name].round(x) - x) / x
        if np.all(error <= tolerance):
            return name
    return "float32"


def _by_cases(low: float, high: float, tolerance: float) -> str:
    limits = {
        "float8_e4m3fn": (448.0, 2.0**-6, 2.0**-10, 2.0**-4),
        "float8_e5m2": (57344.0, 2.0**-14, 2.0**-17, 2.0**-3),
        "float16": (65504.0, 2.0**-14, 2.0**-25, 2.0**-11),
        "bfloat16": (2.0**127, 2.0**-126, 2.0**-134, 2.0**-8),
    }
    for name, (largest, least_normal, half_least, roundoff) in limits.items():
        error = roundoff if low >= least_normal else half_least / low
        if largest >= high and tolerance >= error:
            return name
    return "float32"


choose_format = Exercise(
    id="fp16_range.choose_format",
    inputs=_inputs,
    observer=each,
    right=_right,
    points={
        "when the range decides": 1,
        "when the precision decides": 1,
        "when subnormals are good enough, or not": 2,
    },
    also_right=(_by_cases, _by_trying, lambda *need: np.str_(_right(*need))),
    mistakes=(
        Mistake(
            _first(lambda f, low, high, tol: f.unit_roundoff <= tol),
            "You look at the precision only. The format must also reach up to `high` and down to `low`.",
        ),
        Mistake(
            _first(lambda f, low, high, tol: high <= f.largest and f.unit_roundoff <= tol),
            "You look at the upper end of the range only. Values near `low` may become subnormal, or zero.",
        ),
        Mistake(
            _first(lambda f, low, high, tol: high <= f.largest and low >= f.least_subnormal and f.unit_roundoff <= tol),
            "Not becoming zero is not enough: a subnormal has lost significant bits. Near `low` its relative error can "
            "be half the least subnormal over `low`; compare that with the tolerance.",
        ),
        Mistake(
            _first(
                lambda f, low, high, tol: high <= f.largest and max(f.unit_roundoff, f.least_subnormal / low) <= tol
            ),
            "Too strict among subnormals: the gap there is the least subnormal, and the error of rounding is at most "
            "half of it.",
        ),
        Mistake(
            _first(lambda f, low, high, tol: high <= f.largest and low >= f.least_normal and f.unit_roundoff <= tol),
            "You allow no subnormals at all. They are less precise, not lost: with a tolerance that is wide enough "
            "they will do.",
        ),
        Mistake(
            _first(lambda f, low, high, tol: high <= f.largest and _largest_error(f, low) * 2 <= tol),
            "Twice too strict: you use the gap where half the gap is the largest error. "
            "Compare the unit roundoff with the tolerance, not epsilon.",
        ),
        Mistake(
            lambda low, high, tol: "float32",
            "You return the last format that keeps the promise. The question is the first: leave the loop with "
            "`return` as soon as one does.",
        ),
        Mistake(
            _first(lambda f, low, high, tol: high <= f.largest and low >= f.least_normal),
            "You look at the range only. The largest relative error must not exceed the tolerance.",
        ),
        Mistake(
            _first(
                lambda f, low, high, tol: high <= f.largest and _largest_error(f, low) <= tol,
                ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32"),
            ),
            "Where both will do, you take bfloat16. The order asked for has float16 first: "
            "both cost 16 bits, and float16 has 3 bits more precision.",
        ),
        Mistake(
            _first(
                lambda f, low, high, tol: high <= f.largest and _largest_error(f, low) <= tol,
                ("float16", "bfloat16", "float32"),
            ),
            "You never choose a float8. Where 8 bits keep the promise, they are the cheapest.",
        ),
    ),
    hints=(
        "For each format in order, ask two questions: does it reach `high`, and is its largest relative error on the "
        "way from `low` to `high` within the tolerance?",
        "Among normal numbers the largest relative error is the unit roundoff. Below the least normal number the gap "
        "stays put, so the error of a value x can be half the least subnormal over x: worst at `low`.",
        "One expression covers both: max(roundoff, least_subnormal / 2 / low). Return the first format with "
        "high <= largest and that error <= tolerance.",
    ),
    asks_for=("ampcourse.numerics.fate", "ampcourse.numerics.relative_error", "ampcourse.numerics.Format.round"),
    insight="The largest relative error from `low` upwards is max(roundoff, least subnormal / (2 * low)): subnormals "
    "trade precision for range. No 16-bit format wins on both: float16 keeps 3 bits more, bfloat16 reaches 2**112 "
    "times further up.",
)
