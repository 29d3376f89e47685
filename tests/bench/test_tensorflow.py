"""The benchmark on TensorFlow for real, with a model of two layers."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcourse.bench import markdown, pictures, run
from ampcourse.bench.drawings import save
from ampcourse.bench.engine import assert_policy, choose, reason_of, under
from ampcourse.bench.parts import FIT, HANDING, MATRICES, NORMALISATION, REST, UPDATE
from ampcourse.bench.plan import Variant
from ampcourse.bench.speed import NO_TF32
from ampcourse.plots import Picture

from .conftest import quick, toy
from .real import bare_model, losses_like_fit


@pytest.fixture(scope="module")
def real():
    """The backend that is there."""
    engine = choose()
    engine.device("cpu")
    return engine


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return run(quick(out=tmp_path_factory.mktemp("report")), find=toy, sizes=(64, 4096))


def test_every_variant_ran_trained_and_computed_in_its_dtype(report) -> None:
    (model,) = report.models
    rows = {row.variant: row for row in model.rows}
    for variant, row in rows.items():
        if variant.policy == "tf32":
            assert (row.status, row.reason) == ("not run", NO_TF32)
            continue
        assert row.status == "ok", row.reason
        assert len(row.seconds) == 3
        assert all(seconds > 0 for seconds in row.seconds)
        assert row.steps == row.updates == 5 + 3 * row.steps_per_turn
        assert row.loss > 0
        assert (row.bytes_moved is None) != variant.xla
        assert row.memory_bytes is None
        assert "CPU" in row.memory_how
        dtype = variant.policy.removeprefix("mixed_")
        assert row.compute_dtypes == ({"float32": 3} if dtype == "float32" else {dtype: 2, "float32": 1})
        assert row.tf32 is (variant.policy != "float32")
    assert model.parameters == 8 * 16 + 16 + 2 * 16 + 16 * 4 + 4


def test_every_part_was_measured_and_fit_too(report) -> None:
    for one in report.models[0].parts:
        assert not one.reasons
        assert [share.name for share in one.shares] == [HANDING, NORMALISATION, UPDATE, MATRICES, REST]
        assert sum(share.share for share in one.shares) == pytest.approx(1)
        assert one.fit_over_custom > 0
        assert one.fit_low <= one.fit_over_custom <= one.fit_high
    assert {one.policy.partition("_")[0] for one in report.models[0].parts} == {"float32", "mixed"}


def test_the_report_holds_every_section_and_the_pictures_have_words(report, tmp_path) -> None:
    page = markdown(report)
    for said in ("Measured on ", "with TensorFlow", "`fit` takes", "TF32 off", "Toy toy", "GFLOP/s"):
        assert said in page
    made = pictures(report)
    assert {name.partition("-mixed")[0] for name in made} == {"speed-against-float32", "roofline-float32", "roofline"}
    assert all(isinstance(picture, Picture) for picture in made.values())
    assert len(save(report, tmp_path)) == len(made) == 4
    assert (tmp_path / "pictures.md").read_text().count("![") == 4


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_our_step_does_what_keras_own_does(real, policy: str) -> None:
    ours, theirs = losses_like_fit(real, toy(), Variant(policy, policy == "float32"))
    assert ours == pytest.approx(theirs, rel=1e-5 if policy == "float32" else 2e-3)
    assert ours[-1] < ours[0]


def test_a_model_without_its_normalisation_is_the_rest_of_it(real) -> None:
    assert bare_model(real, toy(), "mixed_bfloat16") == (1, 4, True)


def test_tf32_is_set_for_a_policy_and_afterwards_what_it_was(real) -> None:
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    seen = {}
    for policy in ("float32", "tf32", "mixed_float16"):
        with under(real, policy):
            seen[policy] = tf.config.experimental.tensor_float_32_execution_enabled()
    assert seen == {"float32": False, "tf32": True, "mixed_float16": True}
    assert tf.config.experimental.tensor_float_32_execution_enabled() == before


def test_a_policy_that_did_not_reach_the_model_is_found(real) -> None:
    with under(real, "float32"):
        model = toy().build()
    with pytest.raises(RuntimeError, match="3 in float32"):
        assert_policy(model, "mixed_float16")
    with under(real, "mixed_float16"):
        model = toy().build()
    for policy in ("float32", "mixed_bfloat16"):
        with pytest.raises(RuntimeError, match="did not reach"):
            assert_policy(model, policy)
    half = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="float16")])
    with pytest.raises(RuntimeError, match="weights kept in float16"):
        assert_policy(half, "mixed_float16")


def test_out_of_memory_is_told_apart(real) -> None:
    full = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[9,9]")
    compiled = tf.errors.InternalError(None, None, "RESOURCE_EXHAUSTED: Out of memory while trying to allocate")
    assert reason_of(full, real, 32) == reason_of(compiled, real, 32) == "out of memory at batch 32"
    assert not real.ran_out(tf.errors.InvalidArgumentError(None, None, "shapes differ"))
    assert not real.ran_out(ValueError("RESOURCE_EXHAUSTED"))


def test_a_gpu_that_is_not_there_is_one_sentence(real, monkeypatch) -> None:
    from ampcourse.bench import BenchError

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(BenchError, match=r"^TensorFlow finds no GPU here[^\n]+doctor[^\n]+\.$"):
        real.device("gpu")


def test_work_of_the_ceilings_is_really_done(real) -> None:
    with real.precision(False):
        for runner in (real.product(16, "bfloat16"), real.copy(64)):
            runner(2)
    assert FIT  # the name under which `fit` is timed
    assert np.isfinite(real.step(toy().build(), toy().loss, toy().optimizer(), toy().samples(4), False).facts()["loss"])
