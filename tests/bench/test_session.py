"""A run as a whole, on a made-up engine: what it does first, what it keeps, how it goes on, and what stops it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from ampcourse.bench import BenchError, load, markdown, run
from ampcourse.bench.engine import Device, Memory
from ampcourse.bench.plan import Variant
from ampcourse.bench.speed import NO_TF32, NO_TIME, memory_of
from ampcourse.course import UserError

from .conftest import FakeEngine, quick, toy

GPU = Device("gpu", "a made-up GPU", (9, 0))
FAST, SLOW = Variant("mixed_bfloat16", True), Variant("mixed_float16", False)


def statuses(report: Any, model: int = 0) -> dict[str, str]:
    return {str(row.variant): row.status for row in report.models[model].rows}


def test_ratios_are_those_of_the_seconds_and_name_their_baselines(measure, engine) -> None:
    engine.seconds = {FAST: 0.002, SLOW: 0.1, Variant("float32", True): 0.005}
    (model,) = measure().models
    found = {(str(Variant(r.policy, r.xla)), str(Variant(r.baseline_policy, r.baseline_xla))): r for r in model.ratios}
    assert found["mixed_bfloat16, XLA", "float32, XLA"].median == pytest.approx(2.5)
    assert found["mixed_float16", "float32"].median == pytest.approx(0.1)
    assert found["float32, XLA", "float32"].median == pytest.approx(2.0)
    assert all(r.low <= r.median <= r.high and r.turns == 3 for r in model.ratios)
    assert ("float32", "float32") not in found
    row = model.row(FAST)
    assert row.throughput == pytest.approx(4 / 0.002)
    assert row.flops_per_second == pytest.approx(4 * toy().flops / 0.002)
    assert row.share_of_ceiling == pytest.approx(row.flops_per_second / (2 * 8**3 / 1e-3))


def test_the_ceilings_come_before_any_model_and_float32s_has_tf32_off(clock) -> None:
    engine = FakeEngine(clock, device=GPU)
    seen = []
    engine.step = lambda *_: seen.append(clock.now)  # no step at all: every row fails
    report = run(quick(parts=False, largest=False), find=toy, engine=engine, clock=clock, sizes=(8, 8))
    matrix = report.sessions[0].ceilings.matrix
    assert matrix["tf32"].best == pytest.approx(2 * matrix["float32"].best)
    assert seen
    assert min(seen) > 3 * 4 * 0.1  # seconds of the ceilings' turns
    assert set(statuses(report).values()) == {"failed"}


def test_dtypes_are_asserted_on_the_model_and_tf32_is_recorded(clock) -> None:
    report = run(quick(), find=toy, engine=FakeEngine(clock, device=GPU), clock=clock, sizes=(8, 8))
    rows = {row.variant: row for row in report.models[0].rows}
    assert all(row.status == "ok" for row in rows.values())
    assert {v.policy: row.tf32 for v, row in rows.items()} == {
        "float32": False, "tf32": True, "mixed_float16": True, "mixed_bfloat16": True
    }  # fmt: skip
    assert rows[SLOW].compute_dtypes == {"float16": 2, "float32": 1}
    assert rows[Variant("tf32", True)].compute_dtypes == {"float32": 3}


def test_a_model_that_the_policy_did_not_reach_is_no_measurement(measure) -> None:
    def forgetful(name: str, scale: str) -> Any:
        workload = toy(name)
        build = workload.build

        def cleared() -> Any:
            keras.utils.clear_session()  # which puts the global policy back to float32
            return build()

        workload.build = cleared
        return workload

    (model,) = measure(find=forgetful).models
    reasons = {row.policy: row.reason for row in model.rows}
    assert model.row(Variant("float32", False)).status == "ok"
    assert "did not reach the model" in reasons["mixed_float16"]
    assert "float32" in reasons["mixed_bfloat16"]
    assert not [r for r in model.ratios if r.policy != "float32"]


def test_the_global_policy_is_afterwards_what_it_was(measure, engine) -> None:
    engine.trouble[SLOW] = RuntimeError("x")
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        measure(parts=False)
        assert keras.config.dtype_policy().name in ("mixed_bfloat16", "float32")  # forget() may clear it
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError("9 GB"), "out of memory at batch 4"),
        (ValueError("The precision 'F16_F16_F32'\nis not supported"), "ValueError: The precision 'F16_F16_F32'"),
        (RuntimeError(""), "RuntimeError: no message"),
        (TypeError("x" * 5000), "TypeError: xxx"),
    ],
)
def test_a_variant_that_cannot_run_is_a_row_with_its_reason_and_the_others_go_on(
    measure, engine, error: Exception, reason: str
) -> None:
    engine.trouble[SLOW] = error
    report = measure()
    row = report.models[0].row(SLOW)
    assert row.status == "failed"
    assert row.reason.startswith(reason)
    assert len(row.reason) <= 240
    assert list(statuses(report).values()).count("ok") == 5
    assert row.reason in markdown(report)


def test_a_cpu_has_no_tf32_and_says_so(measure) -> None:
    report = measure()
    assert report.models[0].row(Variant("tf32", True)).reason == NO_TF32
    assert report.sessions[0].ceilings.matrix["tf32"].best is None
    assert NO_TF32 in markdown(report)


def interrupted(second: str) -> Callable:
    """Finds the models, of which this one ends the program while it is built."""

    def find(name: str, scale: str) -> Any:
        workload = toy(name)
        if name == second:
            workload.build = lambda: (_ for _ in ()).throw(KeyboardInterrupt())
        return workload

    return find


def test_an_interrupted_run_keeps_what_it_has_and_goes_on(measure, engine, tmp_path: Path) -> None:
    plan = quick(models=("one", "two", "three"), out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        measure(plan, find=interrupted("two"))
    kept = load(tmp_path)
    assert [model.name for model in kept.models] == ["one"]
    assert not kept.finished
    assert "Not finished" in (tmp_path / "report.md").read_text()
    engine.built.clear()
    report = measure(plan)
    assert {name for name, _ in engine.built} == {"two", "three"}
    assert report.finished
    assert [model.session for model in report.models] == [0, 1, 1]
    assert report.models[0] == kept.models[0]
    assert load(tmp_path) == report
    engine.built.clear()
    measure(plan)
    assert not engine.built


def test_a_run_that_was_killed_before_its_parts_measures_them_alone(measure, engine, tmp_path: Path) -> None:
    measure(quick(out=tmp_path, parts=False))
    engine.built.clear()
    (model,) = measure(quick(out=tmp_path)).models
    assert len(model.parts) == 2
    assert len(engine.built) == 4  # for each of two variants the whole step, and the one without normalisation
    assert model.parts[0].policy == "float32"


def test_more_variants_than_before_are_measured_side_by_side_again(measure, engine, tmp_path: Path) -> None:
    measure(quick(out=tmp_path, policies=("float32",), xla=(True,), parts=False))
    engine.built.clear()
    (model,) = measure(quick(out=tmp_path, policies=("float32", "mixed_bfloat16"), xla=(True,), parts=False)).models
    assert {variant.policy for _, variant in engine.built} == {"float32", "mixed_bfloat16"}
    assert len(model.ratios) == 1


def test_fresh_measures_again(measure, engine, tmp_path: Path) -> None:
    measure(quick(out=tmp_path))
    engine.built.clear()
    report = measure(quick(out=tmp_path, fresh=True))
    assert engine.built
    assert len(report.sessions) == 1


def test_another_batch_of_the_same_model_stands_beside(measure, tmp_path: Path) -> None:
    measure(quick(out=tmp_path, parts=False))
    report = measure(quick(out=tmp_path, parts=False, batch=16))
    assert [model.batch for model in report.models] == [4, 16]


def test_when_the_time_is_up_rows_say_so_and_a_later_run_fills_them(measure, engine, tmp_path: Path) -> None:
    engine.seconds = dict.fromkeys([FAST, SLOW], 20.0)
    report = measure(quick(out=tmp_path, minutes=0.5))
    assert NO_TIME in {row.reason for row in report.models[0].rows}
    assert "ok" in statuses(report).values()
    assert not report.finished
    assert not report.models[0].parts
    report = measure(quick(out=tmp_path))
    assert NO_TIME not in {row.reason for row in report.models[0].rows}
    assert report.finished
    assert len(report.models) == 1


def test_plans_one_after_the_other_share_their_ceilings(measure, engine, tmp_path: Path) -> None:
    stages = [quick(out=tmp_path, parts=False), quick(out=tmp_path), quick(out=tmp_path, models=("two",), parts=False)]
    report = measure(*stages)
    assert len(report.sessions) == 1
    assert [(model.name, len(model.parts)) for model in report.models] == [("toy", 2), ("two", 0)]
    with pytest.raises(BenchError, match="same device"):
        measure(quick(seed=1), quick(seed=2))


def test_results_of_something_else_are_never_overwritten(measure, engine, tmp_path: Path) -> None:
    measure(quick(out=tmp_path))
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(BenchError, match="seed 0: name another folder"):
        measure(quick(out=tmp_path, seed=1))
    engine.on = GPU
    with pytest.raises(BenchError, match="a made-up processor"):
        measure(quick(out=tmp_path))
    assert (tmp_path / "results.json").read_bytes() == before
    (tmp_path / "results.json").write_text('{"lessons": []}')
    for fresh in (False, True):
        with pytest.raises(BenchError, match="holds no results of 'ampcourse bench'"):
            measure(quick(out=tmp_path, fresh=fresh))
    assert (tmp_path / "results.json").read_text() == '{"lessons": []}'


def test_a_folder_that_cannot_be_used_gets_one_sentence(measure, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=r"^[^\n]+not a folder[^\n]+\.$"):
            measure(quick(out=out))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing refuses the superuser")
def test_a_folder_that_refuses_gets_one_sentence(measure, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match=r"^[^\n]+\.$"):
        measure(quick(out=tmp_path / "new"))


def test_the_largest_batch_is_a_matter_of_gpus(measure, clock) -> None:
    with pytest.raises(BenchError, match=r"leave out '--largest'\.$"):
        measure(quick(largest=True))
    engine, rooms = FakeEngine(clock, device=GPU), {"float32": 20, "mixed_bfloat16": 45}

    def step(model: Any, loss: Any, optimizer: Any, samples: Any, xla: bool) -> Any:
        if len(samples[1]) > rooms[keras.config.dtype_policy().name]:
            raise MemoryError
        return FakeEngine.step(engine, model, loss, optimizer, samples, xla)

    engine.step = step
    plan = quick(policies=("float32", "mixed_bfloat16"), xla=(True,), parts=False)
    report = run(plan, find=toy, engine=engine, clock=clock, sizes=(8, 8))
    found = {one.policy: one.batch for one in report.models[0].largest}
    assert 18 <= found["float32"] <= 20
    assert 40 <= found["mixed_bfloat16"] <= 45
    page = markdown(report)
    assert "With the largest batch of each, mixed_bfloat16 at batch" in page


def test_memory_is_the_variants_own_or_not_known() -> None:
    assert memory_of(None, None, False, None)[0] is None
    assert "CPU" in memory_of(None, None, False, None)[1]
    assert memory_of(Memory(100, 500), Memory(150, 180), True, None)[0] == 80
    assert memory_of(Memory(100, 500), Memory(150, 700), False, 1)[0] == 600
    taken, how = memory_of(Memory(100, 500), Memory(150, 500), False, 42)
    assert (taken, how.split(",")[0].split(":")[0]) == (42, "XLA's plan")
    assert memory_of(Memory(100, 500), Memory(150, 500), False, None)[0] is None
    assert memory_of(None, None, False, 42) == (42, "XLA's plan, not measured")


@pytest.mark.usefixtures("_no_garbage_collection")
def test_amdahls_bound_stands_beside_what_was_measured(clock) -> None:
    engine = FakeEngine(clock, {FAST: 0.004}, device=GPU)
    plan = quick(policies=("float32", "mixed_bfloat16"), xla=(True,), largest=False)
    page = markdown(run(plan, find=toy, engine=engine, clock=clock, sizes=(8, 8)))
    assert "Amdahl's law: of the step of float32, 82% is neither" in page  # 11 ms less 1 for the host and 1 to update
    assert "became 2.00 times as fast, as the matrix products do here, the step would become 1.69 times as fast" in page
    assert "measured: 2.50 (2.50 to 2.50)." in page


def test_accuracy_is_never_made_up(measure) -> None:
    report = measure()
    assert all(model.accuracy_difference is None for model in report.models)
    assert "Accuracy parity is not measured by this benchmark" in markdown(report)


def test_steps_that_loss_scaling_skipped_and_losses_that_are_not_finite_are_told(measure, engine, monkeypatch) -> None:
    from .conftest import FakeStep

    monkeypatch.setattr(FakeStep, "facts", lambda self: {"loss": float("nan"), "updates": self.done - 2})
    page = markdown(measure())
    assert "mixed_float16: 2 of " in page
    assert "The loss was not finite under float32, " in page


def test_intervals_too_wide_to_show_anything_are_told(measure, engine, clock) -> None:
    assert "more than a factor of" not in markdown(measure())
    step, turn = FakeEngine.step, iter(range(10**6))

    def restless(*given: Any) -> Any:
        made = step(engine, *given)
        run = made.run

        def disturbed(steps: int) -> None:
            run(steps)
            clock.now += 3.0 * (next(turn) % 5 == 0)

        made.run = disturbed
        return made

    engine.step = restless
    assert "more than a factor of 2: other programs" in markdown(measure(parts=False))


def test_a_share_above_the_ceiling_is_told(measure, engine) -> None:
    engine.seconds = {FAST: 1e-9}
    assert "Faster than its ceiling: mixed_bfloat16, XLA" in markdown(measure())


def test_cpu_numbers_say_what_they_mean(measure, clock) -> None:
    assert "What CPU numbers mean" in markdown(measure())
    engine = FakeEngine(clock, device=GPU)
    plan = quick(parts=False, largest=False)
    assert "What CPU numbers mean" not in markdown(run(plan, find=toy, engine=engine, clock=clock, sizes=(8, 8)))
