"""What `parity()` returns: metrics, comparisons and verdicts, as text, table and picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.amp.tables import html_list, html_table, text_table

Metrics = dict[tuple[str, int], float]


@dataclass(frozen=True, eq=False)
class Comparison:
    """One policy against the first one, seed by seed.

    Attributes:
        policy, baseline: what was compared.
        differences: metric under `policy` minus metric under `baseline`, shape (seeds,), float64.
        interval: the bootstrap interval of the mean difference.
        verdict: "equal within tolerance", "different", "not decided" or "not finite".
        reason: what the verdict rests on.
    """

    policy: str
    baseline: str
    differences: np.ndarray
    interval: tuple[float, float]
    verdict: str
    reason: str

    @property
    def mean(self) -> float:
        """The mean difference; NaN where a metric is not finite."""
        with np.errstate(invalid="ignore"):
            return float(np.mean(self.differences))


@dataclass(frozen=True, eq=False)
class Parity:
    """What paired runs have shown; printing it shows the table and the verdict.

    With two policies, `differences`, `mean`, `interval`, `verdict` and `reason` are those of the one comparison; with
    more, take them from `parity[policy]`.

    Attributes:
        policies: their names, the first being what the others are compared with.
        seeds: one a pair.
        metrics: (policy, seed) to the metric of that run; hand them to `parity(known=...)` to go on with more seeds.
        comparisons: one for each policy after the first.
        tolerance: the largest difference that is taken as none, in the metric's own units.
        confidence: of the intervals.
    """

    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    metrics: Metrics
    comparisons: tuple[Comparison, ...]
    tolerance: float
    confidence: float

    def __getitem__(self, policy: str) -> Comparison:
        for one in self.comparisons:
            if one.policy == policy:
                return one
        raise KeyError(f"{policy!r} was not compared: choose from {', '.join(c.policy for c in self.comparisons)}.")

    @property
    def _only(self) -> Comparison:
        if len(self.comparisons) > 1:
            raise ValueError(
                f"There are {len(self.comparisons)} comparisons: ask one, such as parity[{self.policies[1]!r}].verdict."
            )
        return self.comparisons[0]

    @property
    def differences(self) -> np.ndarray:
        """Second policy minus first, shape (seeds,)."""
        return self._only.differences

    @property
    def mean(self) -> float:
        """The mean difference."""
        return self._only.mean

    @property
    def interval(self) -> tuple[float, float]:
        """The bootstrap interval of the mean difference."""
        return self._only.interval

    @property
    def verdict(self) -> str:
        """One of `paired_interval.VERDICTS`."""
        return self._only.verdict

    @property
    def reason(self) -> str:
        """What the verdict rests on."""
        return self._only.reason

    def of(self, policy: str) -> np.ndarray:
        """The metrics under one policy, in the order of the seeds, shape (seeds,)."""
        return np.array([self.metrics[policy, seed] for seed in self.seeds])

    @property
    def sentences(self) -> tuple[str, ...]:
        """Each comparison in words."""
        return tuple(self._sentence(one) for one in self.comparisons)

    def _sentence(self, one: Comparison) -> str:
        low, high = one.interval
        numbers = f"mean {one.mean:+.4g}, {100 * self.confidence:g} % interval {low:+.4g} to {high:+.4g}"
        if not math.isfinite(high - low):
            numbers = f"mean {one.mean:+.4g}"
        return f"{one.policy} minus {one.baseline}: {numbers}. Verdict: {one.verdict}; {one.reason}."

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        return [(str(seed), *(f"{self.metrics[p, seed]:.6g}" for p in self.policies)) for seed in self.seeds]

    def __str__(self) -> str:
        return "\n".join([text_table(("seed", *self.policies), self._rows), *self.sentences])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = html_table("Final metric of each run", ("seed", *self.policies), self._rows)
        return table + html_list(self.sentences)

    def picture(self) -> Any:
        """The pairs and the intervals as a `plots.Picture`."""
        from ampcourse.plots import paired_runs

        metrics = {policy: self.of(policy) for policy in self.policies}
        return paired_runs(metrics, self.tolerance, {c.policy: c.interval for c in self.comparisons}, self.confidence)
