"""Examining, whatever one brings: what a chart holds, and one sentence for what cannot be examined."""

from __future__ import annotations

import sys
from collections.abc import Callable

import keras
import numpy as np
import pytest

from ampcourse import clinic


def tiny(rng: np.random.Generator) -> clinic.Program:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="float32", name="only")])
    xs = rng.normal(size=(5, 8, 3)).astype("float32")
    return clinic.Program(model, keras.optimizers.SGD(0.1), [(x, x[:, :2]) for x in xs])


def test_a_program_of_ones_own() -> None:
    chart = clinic.examine(tiny, seed=3)
    assert chart.name == "tiny"
    assert chart.run.losses.shape == chart.run.scales.shape == chart.run.skipped.shape == (5,)
    np.testing.assert_allclose(chart.run.losses, chart.twin.losses, rtol=1e-5)
    np.testing.assert_allclose(chart.run.raw, chart.run.scales * chart.twin.raw, rtol=1e-4)
    np.testing.assert_allclose(chart.run.handed, chart.twin.raw, rtol=1e-4)
    assert chart.evidence().keys() == clinic.EVIDENCE.keys()
    assert "tiny: 5 steps under mixed_float16" in str(chart)
    assert "only" in str(chart)


def test_the_same_seed_gives_the_same_chart_and_another_one_another() -> None:
    first, again, other = (clinic.follow(tiny, "mixed_float16", seed).losses for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_the_process_is_left_as_it_was(capfd: pytest.CaptureFixture) -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        clinic.examine(clinic.WARD["reader"].make, steps=1)
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")
    assert capfd.readouterr().err == ""


def test_fewer_steps() -> None:
    assert clinic.examine(tiny, steps=2).run.losses.size == 2
    assert clinic.examine(tiny, steps=99).run.losses.size == 5


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: clinic.examine("gardener"), TypeError, "takes the function"),
        (lambda: clinic.examine(lambda rng: 3), TypeError, "gave int, not a clinic.Program"),
        (lambda: clinic.examine(tiny, steps=0), ValueError, "at least 1"),
        (lambda: clinic.admit("nobody"), ValueError, "no patient 'nobody'"),
        (lambda: clinic.code(["reader"]), ValueError, "it is one of"),
        (lambda: clinic.audited("nobody"), ValueError, "no patient"),
        (lambda: clinic.nothing, AttributeError, "nothing"),
    ],
)
def test_mistakes_get_one_sentence(call: Callable, error: type, words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_keras_on_another_backend_gets_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="KERAS_BACKEND=tensorflow"):
        clinic.examine(tiny)


def test_the_walk_forward() -> None:
    with clinic.under("mixed_float16", 0):
        x = keras.Input((2,))
        model = keras.Model(x, keras.layers.Dense(1, name="b")(keras.layers.Rescaling(1e3, name="a")(x)))
    assert clinic.first_sick(model, np.float32([[1, 2]])) == ""
    assert clinic.first_sick(model, np.float32([[1, np.nan]])) == "data"
    assert clinic.first_sick(model, np.float32([[1, 7e4]])) == "input"
    assert clinic.first_sick(model, np.float32([[1, -100]])) == "a"


@pytest.mark.parametrize("name", ["reader", "barber", "veteran", "gardener"])
def test_code_shows_what_the_program_uses(name: str) -> None:
    text = str(clinic.code(name))
    assert f"def {name}(" in text
    part = {"reader": "-1e9", "barber": "clip_by_global_norm", "veteran": "softmax", "gardener": "tape.gradient"}
    assert part[name] in text
    assert clinic.code(name)._repr_markdown_().startswith("```python\n")


def test_importing_is_cheap() -> None:
    import subprocess

    script = "import sys, ampcourse.clinic; assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
