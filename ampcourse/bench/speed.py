"""All variants of one model, built, checked and timed by turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ampcourse.bench.engine import Device, Engine, Memory, Step, assert_policy, layers_of, reason_of, under, wrapped
from ampcourse.bench.plan import CEILING, KERAS_POLICY, Plan, Variant
from ampcourse.bench.shape import FAILED, NOT_RUN, OK, Ceilings, Measured, Ratio, Row
from ampcourse.bench.turns import Clock, speed_up, take_turns

WARM_STEPS = 3
"""Steps after the first, before anything is timed: autotuning, and a loss scale that must come down first."""
NO_TF32 = "this device has no TF32, a mode of NVIDIA's tensor cores from compute capability 8.0 on"
NO_TIME = "the time was up"
NO_ALLOCATOR = "not measured: a CPU has no allocator that counts"


def build(engine: Engine, workload: Any, variant: Variant, samples: Any, seed: int) -> tuple[Step, Any, dict[str, int]]:
    """A step of a fresh model under a variant, run once; the model; and the dtypes in which its layers compute."""
    import keras

    with under(engine, variant.policy):
        keras.utils.set_random_seed(seed)
        model = workload.build()
        dtypes = assert_policy(model, variant.policy)
        step = engine.step(model, workload.loss, wrapped(workload.optimizer(), variant), samples, variant.xla)
    return step, model, dtypes


def runner(engine: Engine, policy: str, run: Callable[[int], Any]) -> Callable[[int], Any]:
    """The same runner, under its own policy and setting of TF32."""

    def under_policy(steps: int) -> Any:
        with under(engine, policy):
            return run(steps)

    return under_policy


def measure(
    engine: Engine,
    device: Device,
    workload: Any,
    plan: Plan,
    ceilings: Ceilings,
    *,
    batch: int,
    scale: str,
    session: int = 0,
    until: float = math.inf,
    clock: Clock = time.perf_counter,
    say: Callable[[str], None] = lambda _: None,
) -> Measured:
    """Build every variant, then time those that work by turns. What fails is a row with its reason.

    Those with small tensors are built first: on JAX, whose peak is that of the process, each then raises it anew.
    """
    samples = workload.samples(batch, plan.seed)
    rows: dict[Variant, Row] = {}
    steps: dict[Variant, Step] = {}
    parameters = None
    asked = plan.variants(engine.name)
    for variant in sorted(asked, key=lambda v: v.policy in ("float32", "tf32")):
        if reason := _why_not(workload, variant, device, until, clock):
            rows[variant] = Row(*variant, NOT_RUN, reason)
            continue
        say(f"{workload.name}: {variant} is built and compiled")
        try:
            rows[variant], steps[variant], parameters = _first(engine, workload, variant, samples, plan.seed, clock)
        except Exception as error:  # a backend raises anything; the other variants go on
            rows[variant] = Row(*variant, FAILED, reason_of(error, engine, batch))
    say(f"{workload.name}: {len(steps)} variants take turns")
    runners = {variant: runner(engine, variant.policy, step.run) for variant, step in steps.items()}
    timed = take_turns(runners, plan.turns, plan.turn_seconds, clock=clock, until=until)
    for variant, step in steps.items():
        if variant in timed.failed:
            rows[variant] = Row(*variant, FAILED, reason_of(timed.failed[variant], engine, batch))
        else:
            count = timed.steps[variant]
            row = _timed(rows[variant], step, timed.seconds[variant], count, workload.flops, batch, ceilings)
            rows[variant] = replace(row, bytes_moved=_bytes(step) if plan.parts and clock() < until else None)
    ordered = tuple(rows[variant] for variant in asked)
    named = (workload.name, workload.title, scale, workload.unit, batch, parameters, float(workload.flops), session)
    return Measured(*named, ordered, ratios(ordered))


def _why_not(workload: Any, variant: Variant, device: Device, until: float, clock: Clock) -> str:
    if variant.policy == "tf32" and not device.has_tf32:
        return NO_TF32
    return workload.obstacle(KERAS_POLICY[variant.policy]) or (NO_TIME if clock() >= until else "")


def _first(
    engine: Engine, workload: Any, variant: Variant, samples: Any, seed: int, clock: Clock
) -> tuple[Row, Step, int]:
    before, could_reset, begin = engine.memory(), engine.reset_peak(), clock()
    step, model, dtypes = build(engine, workload, variant, samples, seed)
    first = clock() - begin
    runner(engine, variant.policy, step.run)(WARM_STEPS)
    taken, how = memory_of(before, engine.memory(), could_reset, step.planned_bytes())
    row = Row(*variant, OK, tf32=variant.policy != "float32", compute_dtypes=dtypes, first_step_seconds=first)
    return replace(row, memory_bytes=taken, memory_how=how), step, model.count_params()


def memory_of(before: Memory | None, after: Memory | None, reset: bool, planned: int | None) -> tuple[int | None, str]:
    """The memory of one variant, and how it is known, while those built before it still hold theirs.

    The allocator's peak counts only if it is this variant's own: where it cannot be reset, it must have risen.
    """
    if before is None or after is None:
        return (None, NO_ALLOCATOR) if planned is None else (planned, "XLA's plan, not measured")
    if reset or after.peak > before.peak:
        return after.peak - before.now, "allocator's peak, less what was in use before"
    if planned is not None:
        return planned, "XLA's plan: the allocator's peak is that of something before"
    return None, "not known: the allocator's peak is that of something before"


def _timed(
    row: Row, step: Step, seconds: list[float], steps_per_turn: int, flops: float, batch: int, ceilings: Ceilings
) -> Row:
    facts, middle = step.facts(), speed_up(seconds, [1.0] * len(seconds))[0]
    done, ceiling = flops * batch / middle, ceilings.of(CEILING[row.policy])
    loss = facts["loss"]
    return replace(
        row,
        steps_per_turn=steps_per_turn,
        seconds=tuple(seconds),
        median_seconds=middle,
        throughput=batch / middle,
        flops_per_second=done,
        share_of_ceiling=done / ceiling if ceiling else None,
        loss=loss if math.isfinite(loss) else None,
        steps=1 + WARM_STEPS + 1 + steps_per_turn * len(seconds),
        updates=facts["updates"],
    )


def _bytes(step: Step) -> float | None:
    """Bytes that one step moves; a program that cannot be read must not cost the row."""
    try:
        return step.bytes_moved()
    except Exception:
        return None


def ratios(rows: tuple[Row, ...]) -> tuple[Ratio, ...]:
    """Every variant against float32 and against TF32 with the same XLA, and XLA against none with the same policy."""
    ran = {row.variant: list(row.seconds) for row in rows if row.status == OK and row.seconds}
    found = []
    for variant, seconds in ran.items():
        baselines = [Variant("float32", variant.xla), Variant("tf32", variant.xla), Variant(variant.policy, False)]
        for baseline in dict.fromkeys(baselines):
            if baseline in ran and baseline != variant:
                numbers = speed_up(ran[baseline], seconds)
                found.append(Ratio(*variant, *baseline, *numbers, turns=len(seconds)))
    return tuple(found)


def without_normalisation(model: Any) -> int:
    """Let every normalisation layer hand on what it gets; returns how many there are. To be done before tracing."""
    import keras

    kinds = ("BatchNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization")
    classes = tuple(getattr(keras.layers, kind) for kind in kinds if hasattr(keras.layers, kind))
    layers = [layer for layer in layers_of(model) if isinstance(layer, classes)]
    for layer in layers:
        layer.trainable = False  # else the optimizer would ask for gradients that are not there
        layer.call = lambda inputs, *_, **__: inputs
    return len(layers)
