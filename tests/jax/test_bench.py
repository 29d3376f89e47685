"""The benchmark on JAX, without TensorFlow: the same models, policies and parts, labelled as JAX."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from conftest import quick, toy
from real import bare_model, losses_like_fit

from ampcourse.bench import BenchError, load, markdown, pictures, run
from ampcourse.bench.engine import choose, reason_of, under
from ampcourse.bench.parts import MATRICES, REST
from ampcourse.bench.plan import Variant
from ampcourse.models.zoo import workload


@pytest.fixture(scope="module")
def real():
    engine = choose()
    engine.device("cpu")
    return engine


def find(name: str, scale: str):
    return toy(name) if name == "toy" else workload(name, scale)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    found = run(quick(models=("toy", "vit_tiny"), batch=4, out=out, parts=False), find=find, sizes=(64, 4096))
    assert load(out) == found
    return run(quick(models=("toy",), batch=4, out=out), find=find, sizes=(64, 4096))


def test_every_variant_compiles_and_trains(report) -> None:
    toys = report.models[0]
    assert [row.xla for row in toys.rows] == [True] * 4
    for row in toys.rows:
        if row.policy == "tf32":
            assert row.status == "not run"
            continue
        assert row.status == "ok", row.reason
        assert row.steps == row.updates > 0
        dtype = row.policy.removeprefix("mixed_")
        assert row.compute_dtypes == ({"float32": 3} if dtype == "float32" else {dtype: 2, "float32": 1})
        assert row.memory_bytes > 1000
        assert "plan" in row.memory_how


def test_attention_in_float16_is_a_row_with_its_reason_on_a_cpu(report) -> None:
    rows = {row.policy: row for row in report.models[1].rows}
    assert rows["mixed_float16"].status == "not run"
    assert "has no float16 attention" in rows["mixed_float16"].reason
    assert rows["float32"].status == rows["mixed_bfloat16"].status == "ok"


def test_parts_and_fit_are_measured(report) -> None:
    assert len(report.models[0].parts) == 2
    for one in report.models[0].parts:
        assert not one.reasons
        assert [share.name for share in one.shares][-2:] == [MATRICES, REST]
        assert one.fit_over_custom > 0


def test_the_report_says_jax_and_what_becomes_of_the_switch(report) -> None:
    page = markdown(report)
    assert "with JAX" in page
    assert "Measured with JAX." in page
    assert "the switch is TensorFlow's" in page
    assert "TensorFlow, " not in page
    assert all("JAX" in picture.alt for picture in pictures(report).values())
    assert "tensorflow" not in sys.modules


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_our_step_does_what_keras_own_does(real, policy: str) -> None:
    ours, theirs = losses_like_fit(real, toy(), Variant(policy, True))
    assert ours == pytest.approx(theirs, rel=1e-5 if policy == "float32" else 2e-3)
    assert ours[-1] < ours[0]


def test_a_model_without_its_normalisation_is_the_rest_of_it(real) -> None:
    assert bare_model(real, toy(), "mixed_bfloat16") == (1, 4, True)


def test_precision_is_always_said(real) -> None:
    seen = {}
    for policy in ("float32", "tf32", "mixed_bfloat16"):
        with under(real, policy):
            seen[policy] = jax.config.jax_default_matmul_precision
    assert seen == {"float32": "float32", "tf32": "tensorfloat32", "mixed_bfloat16": "tensorfloat32"}


def test_out_of_memory_and_a_missing_gpu_are_told(real) -> None:
    full = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.")
    assert reason_of(full, real, 32) == "out of memory at batch 32"
    assert not real.ran_out(ValueError("RESOURCE_EXHAUSTED"))
    with pytest.raises(BenchError, match=r"^JAX finds no GPU here[^\n]+\.$"):
        choose().device("gpu")
