"""A batch that does not fit: the largest that does is found and named, and the run's checkpoints are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from ampcourse.training import Config, TrainingError, checkpoint, on_tensorflow, train
from ampcourse.training.memory import largest


@pytest.mark.parametrize(
    ("limit", "multiple", "found"),
    [(0, 1, 0), (1, 1, 1), (13, 1, 13), (100, 1, 96), (500, 1, 248), (100, 3, 96), (9, 2, 8)],
)
def test_bisection_finds_the_largest_that_fits(limit: int, multiple: int, found: int) -> None:
    asked: list[int] = []

    def fits(batch: int) -> bool:
        asked.append(batch)
        return batch <= limit

    assert largest(256, fits, multiple) == found
    assert len(asked) <= 8
    assert all(batch < 256 and batch % multiple == 0 for batch in asked)


def memory_for(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Lets a forward pass with more pictures than that fail as a full device does."""

    def full(x: Any) -> None:
        if x.shape[0] > limit:
            raise tf.errors.ResourceExhaustedError(None, None, f"OOM when allocating tensor with shape{x.shape}")

    from ampcourse.training import loops

    fit, step = loops.FitLoop.epoch, on_tensorflow.Step.__call__

    def epoch(self: Any, batches: Any, *rest: Any) -> Any:
        for x, _ in batches.take(1):
            full(x)
        return fit(self, batches, *rest)

    def call(self: Any, batches: Any) -> None:
        full(batches[0][0])
        step(self, batches)

    monkeypatch.setattr(loops.FitLoop, "epoch", epoch)
    monkeypatch.setattr(on_tensorflow.Step, "__call__", call)


@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_out_of_memory_ends_with_the_batch_that_fits(small: Any, monkeypatch: pytest.MonkeyPatch, loop: str) -> None:
    memory_for(monkeypatch, 11)
    with pytest.raises(TrainingError) as raised:
        train(Config(**small.SMALL | {"batch": 32, "loop": loop}), progress=False)
    said = str(raised.value)
    assert said.startswith("A batch of 32 does not fit into memory (small, float32, pictures of 12 x 12 x 1)")
    assert "the largest that fits is 11: try --batch 11. --accumulate 3" in said
    assert raised.value.__cause__ is None
    train(Config(**small.SMALL | {"batch": 11, "steps": 1, "loop": loop}), progress=False)


def test_the_checkpoint_of_the_run_is_kept(small: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = Config(**small.SMALL | {"batch": 16, "epochs": 2}, out=str(tmp_path))
    train(config.replace(epochs=2), progress=False)
    for path in checkpoint.files(tmp_path)[1:]:
        path.unlink()  # as if it had been killed after the first epoch
    before = {path: path.read_bytes() for path in checkpoint.files(tmp_path)}
    memory_for(monkeypatch, 8)
    with pytest.raises(TrainingError, match=r"checkpoint-000000004.ckpt in '.*' is kept"):
        train(config, resume=True, progress=False)
    assert {path: path.read_bytes() for path in checkpoint.files(tmp_path)} == before


def test_not_even_one_picture_fits(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory_for(monkeypatch, 0)
    with pytest.raises(TrainingError, match="neither does a batch of 1: take a smaller model"):
        train(Config(**small.SMALL | {"batch": 4}), progress=False)


def test_another_error_is_not_taken_for_it(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(on_tensorflow.Step, "__call__", broken)
    with pytest.raises(ZeroDivisionError):
        train(Config(**small.SMALL | {"loop": "custom"}), progress=False)
