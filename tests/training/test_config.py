"""The configuration: what it accepts, what it says, how it is stored and compared."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from ampcourse.training import Config, TrainingError, models
from ampcourse.training.catalogue import picture_side

WRONG: dict[str, tuple[Any, ...]] = {
    "model": ("resnet21", 3, None),
    "policy": ("float16", "mixed", 16),
    "batch": (0, -1, 2.5, True, "64"),
    "epochs": (0, 10**9, 1.5),
    "steps": (0, 1.0),
    "optimizer": ("adam", 1),
    "learning_rate": (0.0, -1.0, math.inf, math.nan, "0.1"),
    "warmup": (-1.0, 15.0, math.nan),
    "schedule": ("linear",),
    "weight_decay": (-0.1, math.inf),
    "momentum": (1.0, -0.1),
    "label_smoothing": (1.0, -0.1),
    "clip": (0.0, -1.0, math.nan),
    "accumulate": (0, 1.5),
    "ema": (1.0, -0.5),
    "loss_scale": (0.0, math.inf),
    "xla": (1, "yes"),
    "loop": ("while",),
    "seed": (-1, 2**31, 0.5),
    "deterministic": (0,),
    "devices": (-1, 1.0),
    "size": (7, 10**6),
    "limit": (0,),
    "download": (1,),
    "out": (),
    "checkpoint_every": (0,),
    "monitor": (None,),
    "data": (7,),
}


def test_every_field_is_documented_and_has_wrong_values_here() -> None:
    names = {field.name for field in dataclasses.fields(Config)}
    assert set(WRONG) == names
    assert all(f"\n        {name}: " in Config.__doc__ for name in names)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_value_gets_one_sentence_that_names_it(name: str, value: Any) -> None:
    with pytest.raises(TrainingError) as raised:
        Config(**{name: value})
    sentence = str(raised.value)
    assert (str(value) in sentence) if name == "model" and isinstance(value, str) else sentence.startswith(name)
    assert "\n" not in sentence
    assert sentence[-1] in ".?"


def test_a_mistyped_model_gets_a_suggestion() -> None:
    with pytest.raises(TrainingError, match="did you mean 'resnet20'"):
        Config(model="resnet_20")


@pytest.mark.parametrize(
    "fields",
    [{}, {"model": "vit_b16", "clip": 1, "steps": 7, "ema": 0.5, "xla": True, "out": "somewhere"}, {"warmup": 0}],
)
def test_json_keeps_everything(fields: dict[str, Any], tmp_path: Path) -> None:
    config = Config(**fields)
    (tmp_path / "config.json").write_text(config.to_json())
    assert Config.load(tmp_path) == config


def test_differences_name_what_changes_the_weights_and_nothing_else() -> None:
    one = Config(out="a", checkpoint_every=5)
    assert one.differences(Config(out="b", download=True, checkpoint_every=9, monitor=False)) == []
    assert one.differences(Config(batch=32, policy="mixed_float16")) == [
        "policy 'mixed_float16' there, 'float32' here",
        "batch 32 there, 64 here",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "holds no run"), ("{", "cannot be read"), ("[]", "does not hold"), ('{"speed": 1}', "'speed'")],
)
def test_a_folder_without_a_run_is_told(text: str | None, says: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(TrainingError, match=says):
        Config.load(tmp_path)


def test_a_stored_value_is_checked_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"batch": 0}))
    with pytest.raises(TrainingError, match="^batch is 0"):
        Config.load(tmp_path)


@pytest.mark.parametrize("name", models())
def test_pictures_come_at_a_size_that_the_model_can_take(name: str) -> None:
    sides = {side: picture_side(name, side) for side in (28, 32, 64, 320)}
    if name.endswith("16"):
        assert sides == {28: 32, 32: 32, 64: 64, 320: 224}
    else:
        assert sides[32] == 32
        assert sides[320] in (64, 224)
        assert sides[28] == (32 if name == "resnet50" else 28)
