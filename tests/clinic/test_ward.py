"""Every patient is ill in the way that its chart says, the healthy are healthy, and every cure heals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcourse import clinic
from ampcourse.clinic import loud, silent
from ampcourse.exercises.answers.nan_clinic.silent import diagnose
from ampcourse.exercises.answers.nan_clinic.triage import triage

SEEDS = [pytest.param(0), pytest.param(1, marks=pytest.mark.full), pytest.param(7, marks=pytest.mark.full)]
each_seed = pytest.mark.parametrize("seed", SEEDS)
KINDS = {
    "healthy": ["baker", "climber", "photographer"],
    "not precision": ["sprinter", "forecaster"],
    "loud": ["reader", "postman", "listener", "surveyor", "veteran"],
    "silent": ["saver", "gardener", "barber", "doorman", "commuter", "bookseller", "sculptor", "sleeper"],
}
SICK_PLACE = {
    "forecaster": "data",
    "reader": "attend",
    "postman": "shares",
    "listener": "loudness",
    "surveyor": "input",
    "veteran": "",
}
ILLNESS = {
    "saver": "16-bit weights",
    "sleeper": "16-bit weights",
    "commuter": "no scaler",
    "bookseller": "numbers rounded",
    "gardener": "not scaled",
    "barber": "clipped too early",
    "doorman": "unscaled twice",
    "sculptor": "term outside",
}


def wrapped(make: Callable, **changes: Any) -> Callable:
    """The same program, with parts of it replaced."""
    return lambda rng: replace(make(rng), **{name: change() for name, change in changes.items()})


def under_float32(make: Callable, kind: type, only: Callable[[dict], bool] = lambda config: True) -> Callable:
    """The same program, with those layers rebuilt under dtype float32."""

    def made(rng: np.random.Generator) -> clinic.Program:
        program = make(rng)
        weights = program.model.get_weights()

        def rebuilt(layer: Any) -> Any:
            config = layer.get_config()
            if isinstance(layer, kind) and only(config):
                config["dtype"] = "float32"
            return type(layer).from_config(config)

        model = keras.models.clone_model(program.model, clone_function=rebuilt)
        model.set_weights(weights)
        return replace(program, model=model)

    return made


def whole_numbers(rng: np.random.Generator) -> clinic.Program:
    """The bookseller, whose layer is told not to cast the numbers."""
    return under_float32(silent.bookseller, silent.Number)(rng)


def clip_at_scale(limit: float) -> Callable:
    def step(model: Any, optimizer: Any, x: Any, y: Any, loss: Callable) -> Any:
        with tf.GradientTape() as tape:
            value = loss(model, x, y)
            scaled = optimizer.scale_loss(value)
        gradients = tape.gradient(scaled, model.trainable_variables)
        factor = optimizer.scale_loss(tf.constant(1.0))
        optimizer.apply(tf.clip_by_global_norm(gradients, limit * factor)[0], model.trainable_variables)
        return value

    return step


def with_penalty_inside(rng: np.random.Generator) -> clinic.Program:
    program = silent.sculptor(rng)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return clinic.squared_error(model, x, y) + sum(tf.reduce_sum(w**2) for w in model.trainable_variables)

    return replace(program, loss=loss, step=clinic.usual_step)


def with_spread(rng: np.random.Generator) -> clinic.Program:
    """The forecaster, for whom a reading without spread is 0 and not NaN."""
    program = loud.forecaster(rng)
    return replace(program, batches=[(np.nan_to_num(x), y) for x, y in program.batches])


def slower(rng: np.random.Generator) -> clinic.Program:
    return replace(loud.sprinter(rng), optimizer=keras.optimizers.SGD(0.01))


CURES: dict[str, tuple[Callable, str]] = {
    "sprinter": (slower, "mixed_float16"),
    "forecaster": (with_spread, "mixed_float16"),
    "reader": (lambda rng: loud.reader(rng, partial(loud.Attend, dtype="float32")), "mixed_float16"),
    "postman": (lambda rng: loud.postman(rng, partial(loud.Shares, dtype="float32")), "mixed_float16"),
    "listener": (lambda rng: loud.listener(rng, partial(loud.Loudness, dtype="float32")), "mixed_float16"),
    "surveyor": (under_float32(loud.surveyor, keras.layers.BatchNormalization), "mixed_float16"),
    "veteran": (
        under_float32(loud.veteran, keras.layers.Dense, lambda c: c["activation"] == "softmax"),
        "mixed_float16",
    ),
    "saver": (loud.saver, "mixed_float16"),
    "sleeper": (silent.sleeper, "mixed_bfloat16"),
    "gardener": (wrapped(silent.gardener, step=lambda: clinic.usual_step), "mixed_float16"),
    "barber": (lambda rng: silent.barber(rng, clip_at_scale), "mixed_float16"),
    "doorman": (wrapped(silent.doorman, optimizer=lambda: keras.optimizers.SGD(0.05)), "mixed_float16"),
    "commuter": (
        wrapped(silent.commuter, optimizer=lambda: keras.optimizers.Adam(2e-3), wrap=lambda: True),
        "mixed_float16",
    ),
    "bookseller": (whole_numbers, "mixed_float16"),
    "sculptor": (with_penalty_inside, "mixed_float16"),
    "photographer": (under_float32(silent.photographer, silent.Brighten), "mixed_float16"),
}


@each_seed
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names])
def test_each_is_of_its_kind(admit: Callable, kind: str, name: str, seed: int) -> None:
    assert triage.right(admit(name, seed).evidence()) == kind


def test_all_patients_are_of_some_kind_and_all_ill_ones_have_a_cure() -> None:
    known = [name for names in KINDS.values() for name in names]
    assert sorted(known) == sorted(clinic.WARD)
    assert set(CURES) == set(clinic.WARD) - {"baker", "climber"}


@each_seed
@pytest.mark.parametrize("name", SICK_PLACE)
def test_the_first_sick_place(admit: Callable, name: str, seed: int) -> None:
    assert admit(name, seed).run.first == SICK_PLACE[name]


@each_seed
@pytest.mark.parametrize("name", ILLNESS)
def test_each_silent_illness(admit: Callable, name: str, seed: int) -> None:
    chart = admit(name, seed)
    assert not any(counts.any() for counts in chart.run.nonfinite.values()) or chart.run.skipped.sum() < 4
    assert diagnose.right(chart.evidence()) == ILLNESS[name]


@each_seed
@pytest.mark.parametrize("name", CURES)
def test_each_cure_heals(name: str, seed: int) -> None:
    make, policy = CURES[name]
    chart = clinic.examine(make, policy, seed)
    assert triage.right(chart.evidence()) == "healthy", str(chart)
    assert np.isfinite(chart.run.losses).all()
    before, run, twin = chart.twin.losses[0], chart.run.losses[-5:].mean(), chart.twin.losses[-5:].mean()
    assert abs(run - twin) < 0.1 * abs(before - twin) + 0.05 * twin


@each_seed
def test_the_controls_are_clean(admit: Callable, seed: int) -> None:
    baker, climber = admit("baker", seed), admit("climber", seed)
    assert not baker.run.skipped.any()
    assert 3 <= climber.run.skipped.sum() < climber.run.skipped.size / 2
    assert climber.run.scales[-1] > 1
    for chart in (baker, climber):
        assert chart.run.first == ""
        np.testing.assert_allclose(list(chart.evidence()["moved"].values()), 1, atol=0.2)


def test_a_scale_of_zero_and_one_clean_batch_destroy_the_weights(admit: Callable) -> None:
    run = admit("forecaster", 0).run
    clean = np.flatnonzero(np.isfinite(run.losses))
    assert run.scales[-1] < 1e-37
    assert (clean > 100).any(), "a clean batch came after the bad ones"
    assert np.isnan(run.losses[-1])
    assert all(share == 1 for share in run.broken.values())


def test_the_layer_that_leaves_the_policy_is_seen_in_its_dtype(admit: Callable) -> None:
    computes = admit("photographer", 0).run.computes
    assert (computes["hidden"], computes["brighten"]) == ("float16", "float32")
