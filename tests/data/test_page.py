"""The page on data says what the code knows, and its examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ampcourse import data

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text("utf-8")
ROWS = {row.split("|")[1].strip(" `"): row for row in re.findall(r"^\| `\w+`.*$", PAGE, re.MULTILINE)}


def test_the_table_is_that_of_the_code() -> None:
    assert list(ROWS) == list(data.sources())
    for name, source in data.sources().items():
        row = ROWS[name]
        parts = [f"{source.train:,} + {source.test:,}", source.licence]
        parts.append(f"{source.megabytes} MB" if source.megabytes else "none")
        parts.append("shorter side 320" if name == "imagenette" else " × ".join(map(str, source.shape)))
        for part in parts:
            assert part in row, f"{name}: {part}"


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, scope)
    out = capsys.readouterr().out
    assert "(64, 28, 28, 1) float32 (64,) int64" in out
    assert re.search(r"The step waits \d+% of the time for its input", out)


def test_the_commands_are_understood(tmp_path: Path) -> None:
    from ampcourse.cli import main

    commands = [shlex.split(line) for line in re.findall(r"^    (.*)$", PAGE.split("```")[0], re.MULTILINE)]
    (python,) = [words for words in commands if words[0] == "python"]
    with pytest.raises(data.DataError, match="cannot be downloaded"):
        _offline(python[2], tmp_path)
    (train,) = [words for words in commands if words[:2] == ["ampcourse", "train"]]
    typed = main.commands["train"].make_context("train", train[2:]).params
    assert typed["download"]


def _offline(code: str, home: Path) -> None:
    from keras.src.utils import file_utils

    def refuse(*args: object) -> None:
        raise OSError("no network in tests")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_utils, "urlretrieve", refuse)
        patch.setattr(file_utils.config, "keras_home", lambda: str(home))
        exec(code, {})
