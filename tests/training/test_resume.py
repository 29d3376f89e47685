"""A run that was killed and resumed ends with the weights of one that was not, to the last bit."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampcourse.training import Config, TrainingError, checkpoint, train

# Two updates an epoch are left over by the checkpoints, so that a resumed run repeats some.
STORED = {"checkpoint_every": 3, "epochs": 2, "deterministic": False}
KINDS: dict[str, dict[str, Any]] = {
    "fit": {"loop": "fit"},
    "custom": {"loop": "custom"},
    "fit float16": {"loop": "fit", "policy": "mixed_float16", "ema": 0.9, "loss_scale": 2.0**20},
    "custom accumulate": {"loop": "custom", "policy": "mixed_float16", "accumulate": 2, "batch": 4, "ema": 0.9},
    "fit accumulate": {"loop": "fit", "accumulate": 2, "batch": 4, "clip": 0.5, "optimizer": "adamw"},
}


class Killed(BaseException):
    """Ends a run at a given update without giving it a chance to save anything."""


def kill_at(monkeypatch: pytest.MonkeyPatch, update: int) -> None:
    from ampcourse.training.show import Show

    def die(self: Show, done: int) -> None:
        if done == update:
            raise Killed

    monkeypatch.setattr(Show, "update", die)


def state(folder: Path) -> dict[str, np.ndarray]:
    """All variables at the end of a run: weights, slots, scale, averages."""
    return checkpoint.read(folder).arrays


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return set(one) == set(other) and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_resumed_ends_with_the_same_bits(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    config = Config(**small.SMALL | STORED | KINDS[kind])
    whole, cut = (config.replace(out=str(tmp_path / name)) for name in ("whole", "cut"))
    expected = train(whole, progress=False)
    for update in (5, 13):  # in the first epoch of 8 updates and, resumed, in the second
        with monkeypatch.context() as patch:
            kill_at(patch, update)
            with pytest.raises(Killed):
                train(cut, resume=update > 5, progress=False)
    result = train(cut, resume=True, progress=False)
    assert same(state(tmp_path / "whole"), state(tmp_path / "cut"))
    assert all(map(np.array_equal, result.model.get_weights(), expected.model.get_weights()))
    assert result.accuracy == expected.accuracy
    tested = [[(row["epoch"], row["test_loss"]) for row in found.history] for found in (result, expected)]
    assert tested[0] == tested[1]
    if config.loop == "custom":  # Keras's fit begins to count the training loss anew
        assert [row["loss"] for row in result.history] == [row["loss"] for row in expected.history]
    with (tmp_path / "cut" / "log.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2"]


KILLED = """
from ampcourse.training import Config, train
config = Config(**small.SMALL | {settings}, out=out + "/run")
train(config, resume={resume}, progress=True)
"""
LONG = {"epochs": 12, "checkpoint_every": 7, "deterministic": True, "loop": "custom", "ema": 0.5}


def _wait_for_checkpoint(folder: Path, process: subprocess.Popen, updates: int) -> None:
    for _ in range(600):
        if any(int(path.stem[-9:]) >= updates for path in checkpoint.files(folder)):
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    raise AssertionError("no checkpoint in time")


def test_sigkill_at_any_moment_then_resume(script: Callable[..., subprocess.Popen], tmp_path: Path, small: Any) -> None:
    process = script(KILLED.format(settings=LONG, resume=False))
    _wait_for_checkpoint(tmp_path / "run", process, 20)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    process.communicate()
    assert checkpoint.read(tmp_path / "run").where.update < 96
    process = script(KILLED.format(settings=LONG, resume=True))
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "The run goes on after" in said
    resumed = state(tmp_path / "run")
    os.rename(tmp_path / "run", tmp_path / "resumed")  # noqa: PTH104
    process = script(KILLED.format(settings=LONG, resume=False))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert same(resumed, state(tmp_path / "run"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_and_stops(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, capsys: pytest.CaptureFixture
) -> None:
    from ampcourse.training.show import Show

    def ask(self: Show, done: int) -> None:
        if done == 4:
            os.kill(os.getpid(), number)

    config = Config(**small.SMALL | STORED | {"checkpoint_every": 100}, out=str(tmp_path))
    before = signal.getsignal(number)
    with monkeypatch.context() as patch:
        patch.setattr(Show, "update", ask)
        with pytest.raises(KeyboardInterrupt):
            train(config)
    assert "Stopped after 4 of 16 updates; --resume goes on with it" in capsys.readouterr().out
    assert checkpoint.read(tmp_path).where.update == 4
    assert signal.getsignal(number) is before
    assert train(config, resume=True, progress=False).steps == 16


def test_a_damaged_checkpoint_is_told_and_the_end_is_the_same(small: Any, tmp_path: Path) -> None:
    config = Config(**small.SMALL | STORED, out=str(tmp_path))
    train(config, progress=False)
    expected = state(tmp_path)
    newest = checkpoint.files(tmp_path)[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    result = train(config, resume=True, progress=False)
    assert any("is damaged" in sentence for sentence in result.says)
    assert same(state(tmp_path), expected)


def test_another_configuration_is_refused_and_named(small: Any, tmp_path: Path) -> None:
    config = Config(**small.SMALL | {"steps": 2}, out=str(tmp_path))
    train(config, progress=False)
    with pytest.raises(TrainingError, match=r"another one \(batch 8 there, 4 here; seed 0 there, 1 here\)"):
        train(config.replace(batch=4, seed=1), resume=True, progress=False)


def test_a_run_is_not_overwritten_unless_asked(small: Any, tmp_path: Path) -> None:
    config = Config(**small.SMALL | {"steps": 2}, out=str(tmp_path))
    train(config, progress=False)
    with pytest.raises(TrainingError, match="holds a run already"):
        train(config, progress=False)
    assert train(config, fresh=True, progress=False).steps == 2


def test_nothing_to_go_on_with_is_a_sentence(small: Any, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="holds no run"):
        train(Config(**small.SMALL, out=str(tmp_path)), resume=True)
    with pytest.raises(TrainingError, match="name the folder"):
        train(Config(**small.SMALL), resume=True)


def test_a_failure_before_the_first_update_leaves_no_folder_in_the_way(small: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(TrainingError):
        train(Config(**small.SMALL | {"batch": 65}, out=str(out)))
    assert not out.exists()
