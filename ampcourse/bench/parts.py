"""Where the time of one step goes, and what `fit` costs beyond a custom loop: measured by leaving things out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ampcourse.bench.engine import Engine, assert_policy, reason_of, under, wrapped
from ampcourse.bench.plan import CEILING, Plan, Variant
from ampcourse.bench.shape import OK, Ceilings, Measured, Parts, Share
from ampcourse.bench.speed import build, runner, without_normalisation
from ampcourse.bench.turns import Clock, Timed, median_interval, speed_up, take_turns

STEP, HOST, BARE, OPTIMIZER, FIT = "step", "from the host", "without normalisation", "optimizer", "fit"
HANDING, NORMALISATION, UPDATE = "handing over the batch", "normalisation", "optimizer"
LEFT = "what is left: element-wise work, attention's softmax, matrices below the ceiling's speed"
OVERLAP = (
    "nothing is left: the parts were measured apart, and on a device that does several things at once they overlap"
)
MATRICES, REST = "matrix work at the ceiling's speed", "everything else"


def chosen(model: Measured) -> list[Variant]:
    """The variants that are taken apart: the fastest mixed one, and its baseline with the same XLA."""
    ran = [row for row in model.rows if row.status == OK and row.median_seconds]
    mixed = [row for row in ran if row.policy.startswith("mixed")]
    best = min(mixed or ran, key=lambda row: row.median_seconds or math.inf, default=None)
    if best is None:
        return []
    there = {row.variant for row in ran}
    baselines = [Variant(policy, best.xla) for policy in ("tf32", "float32")]
    baseline = next((one for one in baselines if one in there and one != best.variant), None)
    return [*([baseline] if baseline else []), best.variant]


def measure(
    engine: Engine,
    workload: Any,
    plan: Plan,
    ceilings: Ceilings,
    variant: Variant,
    *,
    batch: int,
    session: int = 0,
    until: float = math.inf,
    clock: Clock = time.perf_counter,
) -> Parts:
    """Time, by turns: the step; the step with its batch handed over from the host; the step of the same model whose
    normalisation layers do nothing; the optimizer alone; and `fit`, which also gets its batches from the host.
    """
    samples = workload.samples(batch, plan.seed)
    made: dict[str, Callable[[int], Any]] = {}
    reasons: list[str] = []
    for names, make in (
        ((STEP, HOST), lambda: _whole(engine, workload, variant, samples, plan.seed)),
        ((BARE,), lambda: _bare(engine, workload, variant, samples, plan.seed)),
        ((OPTIMIZER,), lambda: _optimizer(engine, workload, variant, plan.seed)),
        ((FIT,), lambda: _fit(engine, workload, variant, samples, plan.seed, clock)),
    ):
        if clock() >= until:
            reasons.append(f"{names[0]}: the time was up")
            continue
        try:
            made |= zip(names, make(), strict=True)
        except Exception as error:  # what cannot be left out is a reason in the report
            reasons.append(f"{names[0]}: {reason_of(error, engine, batch)}")
    timed = take_turns(made, plan.turns, plan.turn_seconds, clock=clock, until=until)
    reasons += [f"{name}: {reason_of(error, engine, batch)}" for name, error in timed.failed.items()]
    return replace(summary(variant, timed, reasons, workload.flops * batch, ceilings), session=session)


def summary(variant: Variant, timed: Timed[str], reasons: list[str], flops: float, ceilings: Ceilings) -> Parts:
    """The shares of a step that begins with the batch on the host, and `fit`'s time over the custom loop's."""
    seconds = {name: values for name, values in timed.seconds.items() if values}
    if HOST not in seconds or STEP not in seconds:
        return Parts(*variant, reasons=tuple(reasons))
    whole = median_interval(seconds[HOST])[0]
    shares = _shares(seconds, flops, ceilings.of(CEILING[variant.policy]), whole)
    fit: tuple[float, ...] = ()
    if FIT in seconds:  # speed_up takes what is waited for first
        fit = (median_interval(seconds[FIT])[0], *speed_up(seconds[FIT], seconds[HOST]))
    fits = dict(zip(("fit_seconds", "fit_over_custom", "fit_low", "fit_high"), fit, strict=False))
    return Parts(*variant, step_seconds=whole, shares=tuple(shares), reasons=tuple(reasons), **fits)


def _shares(seconds: Mapping[str, list[float]], flops: float, ceiling: float | None, whole: float) -> list[Share]:
    def share(name: str, part: list[float], how: str) -> Share:
        return Share(name, *median_interval([p / w for p, w in zip(part, seconds[HOST], strict=True)]), how)

    def less(one: str, other: str) -> list[float]:
        return [a - b for a, b in zip(seconds[one], seconds[other], strict=True)]

    found = [share(HANDING, less(HOST, STEP), "step from the host, less step with the batch on the device")]
    if BARE in seconds:
        found.append(share(NORMALISATION, less(STEP, BARE), "step, less step whose normalisation layers do nothing"))
    if OPTIMIZER in seconds:
        found.append(share(UPDATE, seconds[OPTIMIZER], "the optimizer alone, with gradients given"))
    if ceiling:
        how = "computed: the model's matrix products and convolutions at the measured ceiling"
        found.append(Share(MATRICES, flops / ceiling / whole, None, None, how))
    rest = 1 - sum(one.share for one in found)
    return [*found, Share(REST, rest, None, None, OVERLAP if rest < 0 else LEFT)]


def _whole(engine: Engine, workload: Any, variant: Variant, samples: Any, seed: int) -> list[Callable]:
    step = build(engine, workload, variant, samples, seed)[0]
    made = [runner(engine, variant.policy, run) for run in (step.run, step.run_from_host)]
    for run in made:
        run(2)
    return made


def _bare(engine: Engine, workload: Any, variant: Variant, samples: Any, seed: int) -> list[Callable]:
    import keras

    with under(engine, variant.policy):
        keras.utils.set_random_seed(seed)
        model = workload.build()
        if not without_normalisation(model):
            raise RuntimeError("the model has no normalisation layers")
        step = engine.step(model, workload.loss, wrapped(workload.optimizer(), variant), samples, variant.xla)
    run = runner(engine, variant.policy, step.run)
    run(2)
    return [run]


def _optimizer(engine: Engine, workload: Any, variant: Variant, seed: int) -> list[Callable]:
    import keras

    with under(engine, variant.policy):
        keras.utils.set_random_seed(seed)
        run = engine.optimizer_alone(workload.build(), wrapped(workload.optimizer(), variant), variant.xla)
    return [runner(engine, variant.policy, run)]


def _fit(engine: Engine, workload: Any, variant: Variant, samples: Any, seed: int, clock: Clock) -> list[Callable]:
    import keras

    class Stopwatch(keras.callbacks.Callback):
        """Times the steps of an epoch; it has no hook for single steps, since those would make `fit` wait for each."""

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            """Start."""
            self.begin = clock()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            """Stop, when the device has done everything."""
            engine.wait()
            self.seconds = clock() - self.begin

    watch = Stopwatch()
    with under(engine, variant.policy):
        keras.utils.set_random_seed(seed)
        model = workload.build()
        assert_policy(model, variant.policy)
        model.compile(wrapped(workload.optimizer(), variant), workload.loss, jit_compile=variant.xla)
    feed = engine.feed(samples)

    def fit(steps: int) -> float:
        model.fit(feed, steps_per_epoch=steps, epochs=1, verbose=0, shuffle=False, callbacks=[watch])
        return watch.seconds

    run = runner(engine, variant.policy, fit)
    run(2)
    return [run]


def amdahl(share: float, gain: float) -> float:
    """How many times as fast the whole is if this share of its time becomes `gain` times as fast (Amdahl, 1967)."""
    return 1 / ((1 - share) + share / gain)
