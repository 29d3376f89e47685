"""What both loops do, on real pictures: the same, to float tolerance, whatever is asked for."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from ampcourse.training import Config, TrainingError, train
from ampcourse.training.parts import WarmupCosine

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "float16": {"policy": "mixed_float16"},
    "bfloat16": {"policy": "mixed_bfloat16"},
    "xla": {"xla": True},
    "clip": {"clip": 0.1},
    "clip float16": {"clip": 0.1, "policy": "mixed_float16"},
    "accumulate": {"accumulate": 2, "batch": 4},
    "ema": {"ema": 0.9},
    "smoothing": {"label_smoothing": 0.3},
    "decay": {"weight_decay": 10.0},
    "constant": {"schedule": "constant"},
    "adamw": {"optimizer": "adamw", "weight_decay": 1.0},
    "adam": {"optimizer": "adamw", "weight_decay": 0.0},
    "all": {"accumulate": 2, "batch": 4, "clip": 0.1, "ema": 0.9, "label_smoothing": 0.1},
}
# Without overflows: where one of the accumulated batches overflows, fit leaves out that batch, the other loop them all.
OPTIONS["all float16"] = OPTIONS["all"] | {"policy": "mixed_float16", "loss_scale": 2.0**8}


@pytest.fixture
def weights(small: Any) -> Any:
    """The final weights of a run of 5 updates with the options of that name."""

    def run(loop: str, **options: Any) -> list[np.ndarray]:
        config = Config(**small.SMALL | {"steps": 5, "loop": loop} | options)
        return train(config, progress=False).model.get_weights()

    return run


def apart(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    """The largest difference between two lists of weights."""
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("option", OPTIONS)
def test_both_loops_end_with_the_same_weights(weights: Any, option: str) -> None:
    fit, custom = (weights(loop, **OPTIONS[option]) for loop in ("fit", "custom"))
    assert apart(fit, custom) < 2e-5  # they are in the order of 0.1 to 1


def test_each_option_changes_the_weights(weights: Any) -> None:
    plain = weights("custom")
    assert apart(plain, weights("custom", seed=1)) > 1e-2
    for option in ("float16", "clip", "accumulate", "ema", "smoothing", "decay", "constant", "adamw"):
        assert apart(plain, weights("custom", **OPTIONS[option])) > 1e-5, option


def test_accumulated_batches_do_what_a_large_one_does(weights: Any) -> None:
    """Without a normalization, whose statistics are those of each batch."""
    settings = {"model": "plain", "weight_decay": 0.0}
    assert apart(weights("custom", batch=16, **settings), weights("custom", batch=4, accumulate=4, **settings)) < 1e-5


def test_clipping_is_after_unscaling(weights: Any) -> None:
    """A scale of 2**15 on gradients that are clipped to 1e-3 would shorten the step 32,768 times otherwise."""
    settings = {"model": "plain", "clip": 1e-3, "momentum": 0.0, "weight_decay": 0.0, "steps": 1, "warmup": 0.0}
    for loop in ("fit", "custom"):
        start = weights(loop, policy="mixed_float16", learning_rate=1e-30, **settings | {"steps": 1})
        end = weights(loop, policy="mixed_float16", learning_rate=1.0, **settings)
        moved = np.sqrt(sum(float(np.square(a - b).sum()) for a, b in zip(start, end, strict=True)))
        assert moved == pytest.approx(1e-3, rel=1e-2), loop


def test_the_average_is_that_of_the_weights_after_each_update(small: Any) -> None:
    """Recomputed from runs that stop after one, two and three updates of the same schedule."""
    settings = small.SMALL | {"schedule": "constant", "warmup": 0.0, "loop": "custom"}
    path = [train(Config(**settings | {"steps": n}), progress=False).model.trainable_variables for n in (1, 2, 3)]
    start = train(Config(**settings | {"steps": 1, "learning_rate": 1e-30}), progress=False).model.trainable_variables
    average = [np.asarray(v.numpy()) for v in start]
    for n, weights in enumerate(path, 1):
        decay = min(0.9, (1 + n) / (10 + n))
        average = [decay * a + (1 - decay) * w.numpy() for a, w in zip(average, weights, strict=True)]
    found = train(Config(**settings | {"steps": 3, "ema": 0.9}), progress=False).model.trainable_variables
    assert apart(average, [np.asarray(v.numpy()) for v in found]) < 1e-6


@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_updates_that_overflow_are_skipped_and_counted(small: Any, loop: str) -> None:
    result = train(Config(**small.SMALL | {"policy": "mixed_float16", "loss_scale": 2.0**40, "loop": loop, "steps": 6}))
    assert result.skipped == 6  # from 2**40 the scale has fallen to 2**34 only
    assert result.history[-1]["loss_scale"] == 2.0**34
    assert result.steps == 6


@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_the_monitor_ends_a_run_that_diverges(small: Any, loop: str, tmp_path: Any) -> None:
    settings = {"learning_rate": 1e6, "warmup": 0.0, "epochs": 30, "monitor": True, "loop": loop}
    result = train(Config(**small.SMALL | settings, out=str(tmp_path)), progress=False)
    assert result.stopped
    assert result.verdict == "diverged"
    assert result.steps <= 128
    assert any("stopped after" in sentence for sentence in result.says)
    assert train(Config(**small.SMALL | {"loop": loop, "monitor": True}), progress=False).verdict == "healthy"


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_the_model_has_the_policy_and_the_global_one_is_put_back(small: Any, policy: str) -> None:
    before = keras.config.dtype_policy().name
    result = train(Config(**small.SMALL | {"policy": policy, "steps": 1}), progress=False)
    assert result.model.get_layer("conv").dtype_policy.name == policy
    assert result.model.get_layer("logits").compute_dtype == "float32"
    assert keras.config.dtype_policy().name == before


def test_a_model_that_ignores_the_policy_is_not_trained(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ampcourse.training import catalogue

    def wrong(shape: Any, classes: int) -> Any:
        inputs = keras.Input(shape)
        x = keras.layers.Conv2D(4, 3, dtype="float32")(inputs)
        return keras.Model(inputs, keras.layers.Dense(classes, dtype="float32")(keras.layers.Flatten()(x)))

    monkeypatch.setitem(catalogue.MODELS, "small", catalogue.Entry("wrong", wrong))
    with pytest.raises(AssertionError, match="float32, not in bfloat16"):
        train(Config(**small.SMALL | {"policy": "mixed_bfloat16"}), progress=False)


def test_too_few_pictures_for_one_update_is_a_sentence(small: Any) -> None:
    with pytest.raises(TrainingError, match="A batch of 32 times 4 accumulated ones needs more than the 64"):
        train(Config(**small.SMALL | {"batch": 32, "accumulate": 4}), progress=False)


@pytest.mark.parametrize(("every", "warmup", "constant"), [(1, 10, False), (4, 10, False), (1, 0, False), (1, 5, True)])
def test_the_schedule_rises_in_a_line_and_falls_along_a_cosine(every: int, warmup: int, constant: bool) -> None:
    schedule = WarmupCosine(0.5, warmup, 100, every, constant)
    found = np.array([float(schedule(step)) for step in range(0, 100 * every, every)])
    update = np.arange(100)
    falling = np.ones(100) if constant else (1 + np.cos(np.pi * (update - warmup) / (100 - warmup))) / 2
    expected = 0.5 * np.where(update < warmup, (update + 1) / max(1, warmup), falling)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)


def test_weight_decay_is_on_matrices_and_filters_alone() -> None:
    from ampcourse.models.vit import vit
    from ampcourse.training.parts import build_optimizer

    keras.config.set_dtype_policy("float32")
    model = vit("tiny", (28, 28, 1), 10, stem="convolutions")
    optimizer = build_optimizer(Config(), WarmupCosine(0.1, 1, 10), model, keras_does_all=True)
    decayed = {v.path for v in model.trainable_variables if optimizer._use_weight_decay(v)}
    kept = {v.path for v in model.trainable_variables} - decayed
    assert all(path.endswith("kernel") for path in decayed)
    assert all(path.endswith(("bias", "gamma", "beta", "places", "token")) for path in kept)
    assert decayed
    assert kept


def test_the_smoothed_loss_is_that_of_keras_for_one_hot_labels() -> None:
    from ampcourse.training.parts import SmoothedCrossentropy

    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(9, 5)).astype(np.float32), rng.integers(0, 5, 9)
    for smoothing in (0.0, 0.2):
        expected = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing)
        found = SmoothedCrossentropy(smoothing)(labels, logits)
        assert float(found) == pytest.approx(float(expected(np.eye(5)[labels], logits)), rel=1e-6)
