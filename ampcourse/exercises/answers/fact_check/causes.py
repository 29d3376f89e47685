"""Exercise 2: how much of a speed-up is the precision's, and how much the batch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

Rows = list[tuple[str, int, float]]
NAN = float("nan")


def _inputs(rng: np.random.Generator) -> Inputs:
    def rows(fits: bool = True) -> Rows:
        small = int(2 ** rng.integers(3, 8))
        large = small * int(rng.choice([2, 3, 4]))
        start, gains = rng.uniform(50, 900), {"float32": 1.0, "tf32": rng.uniform(1.3, 2.2)}
        gains["mixed_float16"] = gains["tf32"] * rng.uniform(1.2, 1.9)
        gains["mixed_bfloat16"] = gains["tf32"] * rng.uniform(1.1, 1.8)
        found = []
        for policy, gain in gains.items():
            by_batch = rng.uniform(1.05, 1.5)
            found += [(policy, small, round(start * gain, 1)), (policy, large, round(start * gain * by_batch, 1))]
        if not fits:  # what does not fit has no rate
            found = [(p, b, NAN if b == large and p in ("float32", "tf32") else r) for p, b, r in found]
        return [found[i] for i in rng.permutation(len(found))]

    mixed = [str(name) for name in rng.permutation(["mixed_float16", "mixed_bfloat16"])]
    return {
        "float32 as the baseline": (rows(), "float32", mixed[0]),
        "TF32 as the baseline": (rows(), "tf32", mixed[1]),
        "the baseline does not fit at the large batch": (rows(False), str(rng.choice(["float32", "tf32"])), mixed[0]),
    }


def _rule(
    precision: Callable[[dict, str, str, int, int], float] = lambda at, base, new, small, large: (
        at[new, small] / at[base, small]
    ),
    batch: Callable[[dict, str, str, int, int], float] = lambda at, base, new, small, large: (
        at[new, large] / at[new, small]
    ),
    both: Callable[[dict, str, str, int, int], float] = lambda at, base, new, small, large: (
        at[new, large] / at[base, small]
    ),
    baseline_is: str = "",
    policy_is: str = "",
) -> Callable[..., Any]:
    """The right answer, with each of its parts open to a mistake."""

    def split_speedup(rows: Rows, baseline: str, policy: str) -> dict[str, float]:
        at = {(name, size): rate for name, size, rate in rows}
        small, large = min(size for _, size, _ in rows), max(size for _, size, _ in rows)
        asked = (at, baseline_is or baseline, policy_is or policy, small, large)
        return {"precision": precision(*asked), "batch": batch(*asked), "both": both(*asked)}

    return split_speedup


def _by_sorting(rows: Rows, baseline: str, policy: str) -> dict[str, Any]:
    before = min((size, rate) for name, size, rate in rows if name == baseline)[1]
    same, more = [rate for _, rate in sorted((size, rate) for name, size, rate in rows if name == policy)]
    return {"both": np.float64(more / before), "batch": more / same, "precision": same / before}


def _as_a_product(rows: Rows, baseline: str, policy: str) -> dict[str, Any]:
    rates: dict[str, list] = {}
    for name, size, rate in sorted(rows, key=lambda row: row[1]):
        rates.setdefault(name, []).append((size, rate))
    precision = rates[policy][0][1] / rates[baseline][0][1]
    batch = rates[policy][1][1] / rates[policy][0][1]
    return {"precision": precision, "batch": batch, "both": precision * batch}


def _as_they_stand(rows: Rows, baseline: str, policy: str) -> dict[str, float]:
    """The mistake of taking the first row of a policy for that of its small batch."""
    before = next(rate for name, _, rate in rows if name == baseline)
    same, more = [rate for name, _, rate in rows if name == policy]
    return {"precision": same / before, "batch": more / same, "both": more / before}


def _names_mixed_up(rows: Rows, baseline: str, policy: str) -> dict[str, float]:
    found = _rule()(rows, baseline, policy)
    return found | {"precision": found["batch"], "batch": found["precision"]}


split_speedup = Exercise(
    id="fact_check.split_speedup",
    inputs=_inputs,
    right=_rule(),
    points={
        "float32 as the baseline": 1,
        "TF32 as the baseline": 1,
        "the baseline does not fit at the large batch": 1,
    },
    also_right=(_by_sorting, _as_a_product),
    mistakes=(
        Mistake(
            _rule(precision=lambda at, base, new, small, large: at[new, large] / at[base, large]),
            "You measure the precision's part at the large batch. There the baseline may not fit at all: compare both "
            "at the small batch.",
        ),
        Mistake(
            _rule(batch=lambda at, base, new, small, large: at[base, large] / at[base, small]),
            "You measure the batch's part in the baseline. The larger batch is used with the new policy, so measure "
            "it there.",
        ),
        Mistake(
            _rule(both=lambda at, base, new, small, large: at[new, large] / at[base, large]),
            "Your total compares both at the large batch. The table's total goes from the baseline with the small "
            "batch to the new policy with the large one.",
        ),
        Mistake(
            _rule(precision=lambda at, base, new, small, large: at[new, large] / at[base, small]),
            "What you call the precision's part is the total, with the larger batch in it. This is how such tables "
            "come about.",
        ),
        Mistake(
            _rule(batch=lambda at, base, new, small, large: large / small),
            "You give how much larger the batch is, not how much faster it makes the run.",
        ),
        Mistake(
            _rule(
                precision=lambda at, base, new, small, large: at[base, small] / at[new, small],
                batch=lambda at, base, new, small, large: at[new, small] / at[new, large],
                both=lambda at, base, new, small, large: at[base, small] / at[new, large],
            ),
            "Your ratios are the other way up. These are rates, so the new one goes on top.",
        ),
        Mistake(
            _rule(baseline_is="float32"),
            "You always compare with float32. The baseline is an argument: against TF32 the same run gains less.",
        ),
        Mistake(
            _rule(policy_is="mixed_float16"),
            "You always take the rates of mixed_float16. The policy is an argument.",
        ),
        Mistake(
            _rule(
                precision=lambda at, base, new, small, large: at[new, small] - at[base, small],
                batch=lambda at, base, new, small, large: at[new, large] - at[new, small],
                both=lambda at, base, new, small, large: at[new, large] - at[base, small],
            ),
            "You subtract rates. A speed-up is a quotient.",
        ),
        Mistake(
            _as_they_stand,
            "You take the rows in the order in which they stand. They may come in any order: find each by its policy "
            "and its batch.",
        ),
        Mistake(
            _names_mixed_up,
            "You have put the batch's part under 'precision' and the precision's under 'batch'.",
        ),
        Mistake(
            lambda rows, baseline, policy: _rule()(rows, policy, baseline),
            "You have baseline and policy the wrong way round: the way goes from the baseline to the policy.",
        ),
        Mistake(
            lambda *given: {name: ratio - 1 for name, ratio in _rule()(*given).items()},
            "You give by how much it is faster; asked for is how many times as fast, which is 1 more. Such numbers "
            "multiply.",
        ),
        Mistake(
            lambda *given: {name: 100 * (ratio - 1) for name, ratio in _rule()(*given).items()},
            "You give percentages. Asked for is how many times as fast; such numbers multiply, percentages do not.",
        ),
        Mistake(
            _rule(
                both=lambda at, base, new, small, large: (
                    at[new, small] / at[base, small] + at[new, large] / at[new, small]
                )
            ),
            "You add the two parts. One after the other they multiply: 1.5 times and then 1.2 times as fast is 1.8 "
            "times.",
        ),
        Mistake(
            _rule(batch=lambda at, base, new, small, large: at[new, large] / at[new, small] * small / large),
            "You divide by how much the batch has grown. The rates are items a second already, whatever the batch.",
        ),
        Mistake(
            _rule(batch=lambda at, base, new, small, large: at[new, large] / at[base, small]),
            "What you call the batch's part is the total, with the precision in it. Stay with one policy.",
        ),
        Mistake(
            _rule(
                precision=lambda at, base, new, small, large: at[new, large] / at[base, large],
                batch=lambda at, base, new, small, large: at[base, large] / at[base, small],
            ),
            "You go by the other corner: first to the large batch under the baseline, then to the policy. It is a "
            "split as well, but not the one asked for, and impossible where the baseline does not fit.",
        ),
    ),
    hints=(
        "Make a dictionary first: at[policy, batch] = rate.",
        "Three corners of a rectangle: (baseline, small), (policy, small), (policy, large). The fourth is not needed.",
    ),
    rtol=1e-6,
    trains=True,  # it does not, but a table with rows left out is no table: inputs must not be made smaller
    asks_for=("ampcourse.bench",),
    insight="Both parts multiply to the total. Only the first is mixed precision as such; the second can often be had "
    "in other ways, for instance by accumulation, and changes the training.",
)
