"""The largest batch that fits into the device's memory, found by doubling and then halving the gap."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ampcourse.bench.engine import Engine, forget, reason_of
from ampcourse.bench.plan import Plan, Variant
from ampcourse.bench.shape import Largest
from ampcourse.bench.speed import build, runner
from ampcourse.bench.turns import Clock, median_interval, take_turns

MOST = 2**20
FINE = 1 / 8
"""The search ends when the gap between what fits and what does not is at most this part of what fits."""


class TimeIsUp(Exception):
    """The search had to stop; `.fits` is the largest batch that was seen to fit, or None."""

    def __init__(self, fits: int | None) -> None:
        super().__init__("the time was up")
        self.fits = fits


def search(fits: Callable[[int], bool], start: int, go_on: Callable[[], bool] = lambda: True) -> int | None:
    """The largest batch for which `fits` holds, to within an eighth; None if not even one sample fits.

    Args:
        fits: tries a batch.
        start: where to begin; doubled while it fits, halved while it does not.
        go_on: asked before each try.

    Raises:
        TimeIsUp: if `go_on` said no.
    """
    low, high, batch = 0, MOST + 1, min(max(1, start), MOST)
    while high - low > max(1, int(low * FINE)):
        if not go_on():
            raise TimeIsUp(low or None)
        if fits(batch):
            low = batch
        else:
            high = batch
        if high > MOST:
            batch = min(2 * low, MOST)
            if low == MOST:
                break
        else:
            batch = (low + high) // 2 if low else high // 2
        if batch < 1:
            return None
    return low or None


def measure(
    engine: Engine,
    workload: Any,
    plan: Plan,
    variant: Variant,
    start: int,
    *,
    until: float,
    clock: Clock = time.perf_counter,
) -> Largest:
    """Search, trying three steps at each batch, and time the largest; what fails otherwise is a reason."""
    speeds: dict[int, float] = {}

    def fits(batch: int) -> bool:
        forget()
        try:
            step = build(engine, workload, variant, workload.samples(batch, plan.seed), plan.seed)[0]
            run = runner(engine, variant.policy, step.run)
            run(2)
            timed = take_turns({variant: run}, 3, plan.turn_seconds, clock=clock)
            if variant in timed.failed:
                raise timed.failed[variant]
        except Exception as error:
            if engine.ran_out(error):
                return False
            raise
        speeds[batch] = batch / median_interval(timed.seconds[variant])[0]
        return True

    try:
        batch = search(fits, start, lambda: clock() < until)
    except TimeIsUp as stopped:
        reason = "the time was up: a larger one may fit"
        return Largest(*variant, stopped.fits, speeds.get(stopped.fits or 0), reason)
    except Exception as error:
        return Largest(*variant, None, None, reason_of(error, engine))
    if batch is None:
        return Largest(*variant, None, None, "not even one sample fits")
    return Largest(*variant, batch, speeds[batch])
