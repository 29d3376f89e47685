"""`ampcourse train` as people meet it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from ampcourse.cli import main
from ampcourse.commands.train import DEFAULTS, train
from ampcourse.training import models

TINY = "--limit 16 --batch 8 --epochs 1 --size 12 --no-monitor"


def call(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line))


def test_help_lists_models_data_and_an_option_for_every_field() -> None:
    said = call("train --help").output
    for name in (*models(), "fashion_mnist_subset", "imagenette", "eurosat", "cifar10"):
        assert f"\n  {name} " in said
    options = {option for parameter in train.params for option in parameter.opts}
    named = {f"--{name.replace('_', '-')}" for name in DEFAULTS} - {"--model", "--monitor"}
    assert named <= options


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("train", "Name a model: resnet8"),
        ("train --resume", "Name a model"),
        ("train resnet21", "did you mean 'resnet20'?"),
        ("train bert", "There is no model 'bert'"),
        ("train resnet8 --data imagenet", "did you mean 'imagenette'?"),
        ("train resnet8 --policy float16", "'mixed_float16'"),
        ("train resnet8 --batch 0", "--batch"),
        ("train resnet8 --clip much", "valid number"),
        ("train resnet8 --out=", "is empty"),
        ("train resnet8 --resume --fresh", "exclude each other"),
    ],
)
def test_a_mistyped_line_gets_a_sentence_and_exit_code_2(line: str, says: str) -> None:
    said = call(line)
    assert said.exit_code == 2
    assert said.stdout == ""
    assert says in said.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("train resnet8 --momentum 1", "momentum is 1.0: it must be from 0 to below 1."),
        ("train resnet8 --data imagenette --out nowhere", "342 MB"),
        ("train --resume --out nowhere", "'nowhere' holds no run"),
        (f"train vit_b16 {TINY} --out nowhere", "vit_b16 cannot be built for pictures of (12, 12, 1)"),
    ],
)
def test_what_cannot_be_done_gets_a_sentence_and_exit_code_1(
    line: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = call(line)
    assert said.exit_code == 1
    assert says in said.stderr
    assert said.stderr.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(("typed", "offered"), [("resnet5", ["resnet56", "resnet50"]), ("vit_t", ["vit_tiny"])])
def test_names_complete(typed: str, offered: list[str]) -> None:
    completer = ShellComplete(main, {}, "ampcourse", "_AMPCOURSE_COMPLETE")
    assert [item.value for item in completer.get_completions(["train"], typed)] == offered


def test_data_and_policies_complete() -> None:
    completer = ShellComplete(main, {}, "ampcourse", "_AMPCOURSE_COMPLETE")
    assert [x.value for x in completer.get_completions(["train", "resnet8", "--data"], "im")] == ["imagenette"]
    assert [x.value for x in completer.get_completions(["train", "resnet8", "--policy"], "mixed_f")] == [
        "mixed_float16"
    ]


def test_a_run_from_the_command_line_and_what_it_leaves(small: Any, tmp_path: Path) -> None:
    said = call(f"train small {TINY} --policy mixed_bfloat16 --out {tmp_path}")
    assert said.exit_code == 0, said.stderr
    assert said.stderr == ""
    lines = said.stdout.splitlines()
    assert lines[0].startswith("epoch 1 of 1: loss ")
    assert lines[1].startswith("small on fashion_mnist_subset, mixed_bfloat16: ")
    assert lines[-1] == f"Everything is in '{tmp_path}'."
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"config.json", "log.csv", "tensorboard", "model.keras", "checkpoint-000000002.ckpt"}
    assert list((tmp_path / "tensorboard").glob("events.out.tfevents.*"))

    again = call(f"train small {TINY} --policy mixed_bfloat16 --out {tmp_path}")
    assert (again.exit_code, again.stdout) == (1, "")
    assert "holds a run already" in again.stderr
    other = call(f"train --resume --out {tmp_path} --batch 4")
    assert other.exit_code == 1
    assert "(batch 8 there, 4 here)" in other.stderr
    assert "goes on after 2 of 2 updates" in call(f"train --resume --out {tmp_path}").stdout


def test_the_saved_model_gives_what_the_run_gave(small: Any, tmp_path: Path) -> None:
    import keras
    import numpy as np

    from ampcourse.training import Config
    from ampcourse.training import train as run

    result = run(Config(**small.SMALL | {"steps": 3, "ema": 0.9}, out=str(tmp_path)), progress=False)
    x = np.random.default_rng(0).normal(size=(4, 12, 12, 1)).astype(np.float32)
    stored = keras.models.load_model(tmp_path / "model.keras", custom_objects={})
    assert not stored.compiled
    assert np.array_equal(result.model.predict(x, verbose=0), stored.predict(x, verbose=0))


def test_a_run_that_diverges_ends_with_exit_code_1(small: Any, tmp_path: Path) -> None:
    options = "--limit 1000 --batch 8 --epochs 1 --size 12 --learning-rate 1e6 --warmup 0"
    said = call(f"train small {options} --out {tmp_path}")
    assert said.exit_code == 1
    assert "it is diverged" in said.stdout


def test_a_run_has_a_progress_bar_on_a_terminal_alone(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    from ampcourse.training.session import Plan
    from ampcourse.training.show import Show

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        show = Show(True)
        show.begin(Plan(4, 8), 2)
        show.update(3)
        show.end()
        assert ("3/8" in stream.getvalue()) is shown
