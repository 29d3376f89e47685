"""Checkpoints: whole or not there, the last two, and damage noticed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampcourse.training import TrainingError, checkpoint
from ampcourse.training.checkpoint import Where


def some(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"model/00000": rng.normal(size=(30, 7)).astype(np.float32), "optimizer/00000": np.array(seed, np.int64)}


def write(folder: Path, *updates: int) -> None:
    for update in updates:
        checkpoint.write(folder, Where(epoch=1, batch=3, update=update, history=[{"loss": 0.1}]), some(update))


def test_what_was_written_comes_back_bit_for_bit(tmp_path: Path) -> None:
    write(tmp_path, 5)
    found = checkpoint.read(tmp_path)
    assert found.where == Where(1, 3, 5, history=[{"loss": 0.1}])
    assert found.says == ""
    assert {name: a.dtype for name, a in found.arrays.items()} == {name: a.dtype for name, a in some(5).items()}
    assert all(np.array_equal(found.arrays[name], a) for name, a in some(5).items())


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    write(tmp_path, 1, 2, 30, 200)
    assert [path.name for path in checkpoint.files(tmp_path)] == [
        "checkpoint-000000030.ckpt",
        "checkpoint-000000200.ckpt",
    ]


def test_nothing_there_is_no_error(tmp_path: Path) -> None:
    assert checkpoint.read(tmp_path / "none") is None


@pytest.mark.parametrize("place", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_file_is_told_and_the_one_before_is_used(tmp_path: Path, place: float, damage: str) -> None:
    write(tmp_path, 1, 2)
    newest = checkpoint.files(tmp_path)[-1]
    content = bytearray(newest.read_bytes())
    where = int(place * len(content))
    if damage == "cut":
        del content[where:]
    else:
        content[where : where + 64] = bytes(byte ^ 0xFF for byte in content[where : where + 64])
    newest.write_bytes(content)
    found = checkpoint.read(tmp_path)
    assert found.where.update == 1
    assert "checkpoint-000000002.ckpt' is damaged" in found.says
    assert np.array_equal(found.arrays["model/00000"], some(1)["model/00000"])


def test_nothing_but_damaged_files_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)
    for path in checkpoint.files(tmp_path):
        path.write_bytes(b"")
    with pytest.raises(TrainingError, match="2 damaged"):
        checkpoint.read(tmp_path)


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_writer_that_is_killed_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    write(tmp_path, 1)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, fails, killed)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, 2)
    monkeypatch.undo()
    assert checkpoint.read(tmp_path).where.update == 1
    assert checkpoint.read(tmp_path).says == ""


def test_another_models_checkpoint_is_refused() -> None:
    import keras

    variable = keras.Variable(np.zeros((30, 7), np.float32))
    with pytest.raises(TrainingError, match="other variables"):
        checkpoint.put_back({"model": [variable]}, some())
    with pytest.raises(TrainingError, match="other variables"):
        checkpoint.put_back({"model": [variable]}, {"model/00000": np.zeros((7, 30), np.float32)})
