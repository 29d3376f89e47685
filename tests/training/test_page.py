"""docs/training.md: its commands run, with tiny settings, and what it names is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ampcourse.cli import main
from ampcourse.training import Config, catalogue

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
TEXT = PAGE.read_text()
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", TEXT, re.S) for line in block.splitlines()]
TINY = ["--limit", "128", "--epochs", "1", "--steps", "1", "--size", "16", "--no-monitor"]


def test_the_commands_run(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("resnet8", "vit_tiny"):
        monkeypatch.setitem(catalogue.MODELS, name, catalogue.MODELS["small"])
    assert len(COMMANDS) >= 6
    for command in COMMANDS:
        name, *arguments = shlex.split(command)
        assert name == "ampcourse"
        if "--download" in arguments:  # no test uses the network; that the line is right is seen by the parser
            main.commands["train"].make_context("train", arguments[1:])
            continue
        without = [word for word in arguments if word != "--xla"]  # compiling takes longest
        said = CliRunner().invoke(main, without if "--resume" in arguments else without + TINY)
        assert said.exit_code == 0, f"{command}: {said.stderr}"
    left = {re.sub(r"\d+", "*", path.name) for path in (tmp_path / "runs" / "first").iterdir()}
    named = set(re.findall(r"^\| `([^`]+?)/?` \|", TEXT, re.M)) - {"float32", "tf32", "mixed_bfloat16", "mixed_float16"}
    assert left == named


def test_the_python_example_is_right() -> None:
    call = re.search(r"train\((Config\(.*?\))\)", TEXT)
    assert eval(call[1], {"Config": Config}).epochs == 6


def test_the_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((\S+?)\)", TEXT)
    assert links
    assert all((PAGE.parent / link).exists() for link in links)
