"""Training on JAX, without TensorFlow: the same configuration, both loops, loss scaling, resume."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from ampcourse.training import Config, TrainingError, catalogue, checkpoint, feed, on_jax, train

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "float16": {"policy": "mixed_float16"},
    "bfloat16": {"policy": "mixed_bfloat16"},
    "all": {
        "accumulate": 2,
        "batch": 4,
        "clip": 0.1,
        "ema": 0.9,
        "label_smoothing": 0.1,
        "policy": "mixed_float16",
        "loss_scale": 2.0**8,
    },
    "adamw": {"optimizer": "adamw", "clip": 0.1, "ema": 0.9},
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The small model and the few pictures of the tests on TensorFlow."""
    path = Path(__file__).parents[1] / "training" / "small.py"
    spec = importlib.util.spec_from_file_location("training_small", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(catalogue.MODELS, "small", catalogue.Entry("a small model", module.build))
    monkeypatch.setattr(feed.data, "pictures", module.pictures)
    return module


def weights(small: Any, **options: Any) -> list[np.ndarray]:
    return train(Config(**small.SMALL | {"steps": 5} | options), progress=False).model.get_weights()


def apart(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("option", OPTIONS)
def test_both_loops_end_with_the_same_weights(small: Any, option: str) -> None:
    fit, custom = (weights(small, loop=loop, **OPTIONS[option]) for loop in ("fit", "custom"))
    assert apart(fit, custom) < 2e-5
    assert apart(custom, weights(small, loop="custom", **OPTIONS[option] | {"learning_rate": 1e-9})) > 1e-4


@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_updates_that_overflow_are_skipped_and_counted(small: Any, loop: str) -> None:
    options = {"policy": "mixed_float16", "loss_scale": 2.0**40, "loop": loop, "steps": 6}
    result = train(Config(**small.SMALL | options), progress=False)
    assert (result.skipped, result.history[-1]["loss_scale"], result.backend) == (6, 2.0**34, "jax")


@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_resumed_ends_with_the_same_bits(
    small: Any, loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ampcourse.training.show import Show

    class Killed(BaseException):
        pass

    def die(self: Show, done: int) -> None:
        if done == 5:
            raise Killed

    options = {"policy": "mixed_float16", "loss_scale": 2.0**20, "ema": 0.9, "checkpoint_every": 3, "loop": loop}
    config = Config(**small.SMALL | options)
    train(config.replace(out=str(tmp_path / "whole")), progress=False)
    cut = config.replace(out=str(tmp_path / "cut"))
    with monkeypatch.context() as patch:
        patch.setattr(Show, "update", die)
        with pytest.raises(Killed):
            train(cut, progress=False)
    result = train(cut, resume=True, progress=False)
    one, other = (checkpoint.read(tmp_path / name).arrays for name in ("whole", "cut"))
    assert set(one) == set(other)
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert (tmp_path / "cut" / "model.keras").exists()
    assert any("TensorBoard" in sentence for sentence in result.says)
    assert not (tmp_path / "cut" / "tensorboard").exists()


@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_a_run_that_diverges_is_ended(small: Any, loop: str) -> None:
    options = {"learning_rate": 1e6, "warmup": 0.0, "epochs": 20, "monitor": True, "loop": loop}
    result = train(Config(**small.SMALL | options), progress=False)
    assert result.verdict == "diverged"
    assert result.steps < 160


def test_out_of_memory_ends_with_the_batch_that_fits(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = on_jax.Step.__call__

    def call(self: Any, batches: Any) -> None:
        if batches[0][0].shape[0] > 11:
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes.")
        step(self, batches)

    monkeypatch.setattr(on_jax.Step, "__call__", call)
    with pytest.raises(TrainingError, match=r"the largest that fits is 11: try --batch 11\."):
        train(Config(**small.SMALL | {"batch": 32, "loop": "custom"}), progress=False)


def test_several_devices_are_refused(small: Any) -> None:
    with pytest.raises(TrainingError, match="only on the TensorFlow backend"):
        train(Config(**small.SMALL | {"devices": 2}))


def test_all_of_it_without_tensorflow(small: Any) -> None:
    train(Config(**small.SMALL | {"steps": 1}), progress=False)
    assert keras.backend.backend() == "jax"
    assert "tensorflow" not in sys.modules
