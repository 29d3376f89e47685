"""Exercise 3: what a measurement with an interval says about a claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Range = tuple[float, float]
INF, NAN = float("inf"), float("nan")


def _inputs(rng: np.random.Generator) -> Inputs:
    def number() -> float:
        return float(np.round(rng.uniform(1, 3), 2))

    def wide(low: float, left: float, right: float) -> Range:
        return float(np.round(low - left, 2)), float(np.round(low + right, 2))

    def clear() -> tuple:
        low = number()
        claimed = (low, float(np.round(low + rng.uniform(0.5, 1), 2)))
        middle = sum(claimed) / 2
        inside = wide(middle, 0.1, 0.1)
        outside = wide(claimed[1] + 0.4, 0.2, 0.2) if rng.random() < 0.5 else wide(low - 0.4, 0.2, 0.2)
        return claimed, inside if rng.random() < 0.5 else outside

    def overlapping() -> tuple:
        low = number()
        claimed = (low, float(np.round(low + 0.3, 2)))
        kind = rng.integers(3)
        if kind == 0:
            return claimed, wide(low + 0.15, 0.5, 0.5)  # the measurement is wider than the claim
        return claimed, wide(claimed[int(kind) - 1], 0.2, 0.1)

    def at_least() -> tuple:
        low = number()
        kind = rng.integers(4)
        measured = [wide(low + 0.5, 0.2, 0.2), wide(low - 0.5, 0.2, 0.2), wide(low, 0.3, 0.3), (low, low + 0.5)]
        return (low, INF), measured[int(kind)]

    def touching() -> tuple:
        low = number()
        high = float(np.round(low + 0.5, 2))
        return (low, high), [(high, high + 0.5), (low - 0.5, low), (low, high), (low, high - 0.25)][rng.integers(4)]

    def missing() -> tuple:
        claimed, measured = clear()
        return claimed, [measured, (NAN, NAN), (NAN, measured[1]), (measured[0], NAN)][rng.integers(4)]

    def several(make: Callable[[], tuple], fixed: list[tuple], count: int = 6) -> tuple:
        rows = [*fixed, *(make() for _ in range(count)), clear(), clear()]
        return ([rows[i] for i in rng.permutation(len(rows))],)

    low = number()
    inside, beyond = (low + 0.1, low + 0.2), (low + 0.8, low + 0.9)
    claimed = (low, low + 0.5)
    return {
        "clear cases": several(clear, [(claimed, inside), (claimed, beyond), (claimed, (low - 0.4, low - 0.3))]),
        "intervals that overlap": several(
            overlapping,
            [(claimed, (low - 1, low + 1)), (claimed, (low - 0.2, low + 0.1)), (claimed, (low + 0.4, low + 0.7))],
        ),
        "claims of the kind 'at least'": several(at_least, [((low, INF), beyond), ((low + 1, INF), inside)]),
        "ends that touch": several(touching, [(claimed, claimed), (claimed, (low + 0.5, low + 1))]),
        "nothing measured": several(
            missing,
            [
                *((claimed, (NAN, NAN)), (claimed, inside)),
                *((claimed, (NAN, low - 0.1)), (claimed, (low + 0.6, NAN)), (claimed, (low + 0.2, NAN))),
            ],
        ),
    }


def _rule(
    missing: str = "not measured",
    supported: Callable[[float, float, float, float], bool] = lambda a, b, low, high: a <= low and high <= b,
    contradicted: Callable[[float, float, float, float], bool] = lambda a, b, low, high: high < a or b < low,
    otherwise: str = "open",
) -> Callable[..., str]:
    """The right answer, with each of its parts open to a mistake."""

    def verdict(claimed: Range, measured: Range) -> str:
        if missing and (np.isnan(measured[0]) or np.isnan(measured[1])):
            return missing
        if supported(*claimed, *measured):
            return "supported"
        return "contradicted" if contradicted(*claimed, *measured) else otherwise

    return verdict


def _missing_if(any_or_all: Callable[[list[bool]], bool]) -> Callable[[Range, Range], str]:
    """The right answer but for when it takes a measurement for missing."""

    def verdict(claimed: Range, measured: Range) -> str:
        gone = any_or_all([bool(np.isnan(end)) for end in measured])
        return "not measured" if gone else _rule(missing="")(claimed, measured)

    return verdict


def _by_overlap(claimed: Range, measured: Range) -> str:
    if any(end != end for end in measured):
        return "not measured"
    low, high = max(claimed[0], measured[0]), min(claimed[1], measured[1])
    if low > high:
        return "contradicted"
    return "supported" if (low, high) == tuple(measured) else "open"


def _by_clipping(claimed: Range, measured: Range) -> Any:
    ends = np.asarray(measured, float)
    if np.isnan(ends).any():
        return np.str_("not measured")
    if (np.clip(ends, *claimed) == ends).all():
        return "supported"
    return "contradicted" if ends[1] < claimed[0] or ends[0] > claimed[1] else "open"


verdict = Exercise(
    id="fact_check.verdict",
    inputs=_inputs,
    observer=each,
    right=_rule(),
    points={
        "clear cases": 1,
        "intervals that overlap": 1,
        "claims of the kind 'at least'": 1,
        "ends that touch": 1,
        "nothing measured": 1,
    },
    also_right=(_by_overlap, _by_clipping),
    mistakes=(
        Mistake(
            _rule(supported=lambda a, b, low, high: a <= (low + high) / 2 <= b),
            "You look at the middle of the measurement only. Its interval says where the true value may be: all of it "
            "must lie in the claimed range.",
        ),
        Mistake(
            _rule(supported=lambda a, b, low, high: low <= b and a <= high),
            "You take any overlap for support. Where part of the interval lies outside the claim, the matter is open.",
        ),
        Mistake(
            _rule(supported=lambda a, b, low, high: low <= a and b <= high),
            "You ask whether the claim lies inside the measurement. That is true of every measurement that is vague "
            "enough; ask the other way round.",
        ),
        Mistake(
            _rule(otherwise="contradicted"),
            "What is not supported you call contradicted. If the intervals overlap, the claim may still be true: open.",
        ),
        Mistake(
            _rule(missing=""),
            "Every comparison with NaN is False, so that your code falls through to 'open', which would claim that "
            "somebody has looked. Ask for NaN first: nothing was measured.",
        ),
        Mistake(
            _rule(missing="contradicted"),
            "What was not measured contradicts nothing.",
        ),
        Mistake(
            _rule(contradicted=lambda a, b, low, high: high <= a or b <= low),
            "You take touching ends for a contradiction. Both intervals contain their ends, so that they share a "
            "point: open.",
        ),
        Mistake(
            _rule(supported=lambda a, b, low, high: a < low and high < b),
            "You leave out the ends of the claimed range. A claim of '2 to 3' contains 2 and 3.",
        ),
        Mistake(
            _rule(contradicted=lambda a, b, low, high: high < a),
            "You contradict a claim from below only. A measurement above the claimed range contradicts it as well.",
        ),
        Mistake(
            _rule(contradicted=lambda a, b, low, high: b < low),
            "You contradict a claim from above only. A measurement below the claimed range contradicts it as well.",
        ),
        Mistake(
            _rule(contradicted=lambda a, b, low, high: False),
            "You never contradict. Where the intervals have no point in common, the claim is not open any more.",
        ),
        Mistake(
            _rule(supported=lambda a, b, low, high: a <= low <= b),
            "You look at the lower end of the measurement only. The upper end must lie in the claimed range, too.",
        ),
        Mistake(
            _rule(supported=lambda a, b, low, high: a <= high <= b),
            "You look at the upper end of the measurement only. The lower end must lie in the claimed range, too.",
        ),
        Mistake(
            _rule(supported=lambda a, b, low, high: a <= low, contradicted=lambda a, b, low, high: high < a),
            "You overlook the upper end of the claimed range. 'At least' is only one kind of claim.",
        ),
        Mistake(
            _missing_if(all),
            "You ask whether both ends are NaN. One is enough: without an end there is no interval.",
        ),
        Mistake(
            _missing_if(lambda ends: ends[0]),
            "You look for NaN at the lower end only. It may stand in either place.",
        ),
        Mistake(
            lambda claimed, measured: "not measured" if np.isinf(claimed[1]) else _rule()(claimed, measured),
            "You take an infinite end of the claim for a missing measurement. 'At least 2' is a claim like any other.",
        ),
        Mistake(
            lambda claimed, measured: _rule()(claimed, measured).capitalize(),
            "You write the verdicts with a capital. They are compared letter by letter.",
        ),
    ),
    hints=(
        "Four answers, to be tried in this order: not measured, supported, contradicted, open.",
        "Supported: both ends of the measurement lie in the claimed range. Contradicted: they have no point in common.",
    ),
    asks_for=("ampcourse.claims.ledger", "ampcourse.claims.counts", "ampcourse.claims.evidence"),
    insight="Most measurements leave most claims open. A claim without a range cannot be judged at all, and one "
    "number without an interval cannot judge.",
)
