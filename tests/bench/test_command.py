"""`ampcourse bench` as people meet it, and the script for a GPU machine."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ampcourse
from ampcourse.bench import Plan, load, shape
from ampcourse.cli import main
from ampcourse.models.zoo import names

ROOT = Path(ampcourse.__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu_session.py"
PAGE = (ROOT / "docs" / "benchmark.md").read_text("utf-8")
TINY = ["--models", "ncf", "--scale", "small", "--batch", "4", "--turns", "3", "--turn-seconds", "0.001", "--no-parts"]
TINY += ["--policies", "float32,mixed_bfloat16", "--xla", "off", "--device", "cpu"]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", *arguments])


MISTYPED = {
    "--models resnt50": "did you mean 'resnet50'?",
    "--models resnet20,,xyzzy": "There is no model 'xyzzy'; choose from: resnet8",
    "--models ,": "No model was named",
    "--policies mixed_float": "did you mean 'mixed_float16'?",
    "--xla maybe": "choose from: on, off",
    "--device tpu": "'auto', 'cpu', 'gpu'",
    "--batch 0": "--batch",
    "--turns 2": "--turns",
    "--turn-seconds 0": "--turn-seconds",
    "--turn-seconds nan": "number above 0",
    "--minutes inf": "--minutes",
    "--out=": "DIR is empty",
    "resnet50": "resnet50",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_a_mistyped_line_gets_a_sentence_and_exit_code_2(line: str) -> None:
    said = call(*shlex.split(line))
    assert (said.exit_code, said.stdout) == (2, "")
    assert MISTYPED[line] in said.stderr.splitlines()[0]
    assert len(said.stderr.splitlines()) == 2


def completed(words: str) -> list[str]:
    option = next(one for one in main.commands["bench"].params if one.name == "models")
    return [item.value for item in option.type.shell_complete(None, option, words)]


def test_names_are_completed_also_after_a_comma() -> None:
    assert completed("resnet") == [name for name in names() if name.startswith("resnet")]
    assert completed("resnet8,vit_t") == ["resnet8,vit_tiny"]
    assert "resnet8,resnet8" not in completed("resnet8,")
    assert completed("xyz") == []


def test_the_options_become_the_plan(monkeypatch, saved: Path) -> None:
    seen: list[Plan] = []

    def measure(plan: Plan) -> Any:
        seen.append(plan)
        return load(saved)

    monkeypatch.setattr("ampcourse.commands.bench._measure", measure)
    line = "--models resnet8,ncf --policies tf32,float32 --xla on --batch 7 --turns 5 --no-parts --largest --minutes 2"
    assert call(*line.split(), "--seed", "3", "--fresh", "--out", str(saved)).exit_code == 0
    expected = {"models": ("resnet8", "ncf"), "policies": ("tf32", "float32"), "xla": (True,), "batch": 7, "turns": 5}
    expected |= {"parts": False, "largest": True, "minutes": 2, "seed": 3, "fresh": True, "out": saved}
    assert seen == [Plan(**expected)]
    call("--out", str(saved))
    assert seen[1] == Plan(out=saved)


def test_show_measures_nothing_and_draws_anew(saved: Path) -> None:
    said = call("--show", "--out", str(saved))
    assert (said.exit_code, said.stderr) == (0, "")
    for words in ("a made-up processor", "Toy toy", "the baseline", "not run: this device has no TF32", "report.md"):
        assert words in said.stdout
    assert {"report.md", "pictures.md", "speed-against-float32.png"} <= {one.name for one in saved.iterdir()}
    assert "Published" not in said.stdout
    beside = call("--show", "--compare", "--models", "resnet50", "--out", str(saved)).stdout
    assert "Lambda: lambdal/deeplearning-benchmark" in beside
    assert "bert_base" not in beside


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "x"}'])
def test_a_damaged_or_foreign_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    said = call("--show", "--out", str(tmp_path))
    assert (said.exit_code, said.stdout) == (1, "")
    assert re.fullmatch(r"Error: '[^\n]+results\.json' [^\n]+\.\n", said.stderr)


def test_nothing_to_show_is_one_sentence(tmp_path: Path) -> None:
    said = call("--show", "--out", str(tmp_path / "none"))
    assert said.exit_code == 1
    assert said.stderr.count("\n") == 1


def test_a_run_that_was_stopped_ends_with_1(saved: Path, monkeypatch) -> None:
    import dataclasses

    stopped = dataclasses.replace(load(saved), finished=False)
    monkeypatch.setattr("ampcourse.commands.bench._measure", lambda plan: stopped)
    said = call("--out", str(saved))
    assert said.exit_code == 1
    assert "Not finished: " in said.stdout


# --- the page -----------------------------------------------------------------------------------------

COMMANDS = re.findall(r"^(ampcourse bench.*|python benchmarks/gpu_session\.py.*)$", PAGE, re.MULTILINE)


def test_the_pages_commands_run_with_tiny_settings(tmp_path: Path) -> None:
    ours = [shlex.split(line)[2:] for line in COMMANDS if line.startswith("ampcourse")]
    assert len(ours) >= 4
    out = ["--out", str(tmp_path / "out")]
    for words in sorted(ours, key=lambda words: "--show" in words):  # what is shown has to be measured first
        gpu = "gpu" in words
        made = main.commands["bench"].make_context("bench", list(words))
        assert made.params["device"] in ("auto", "gpu")
        said = call(*words, *(out if gpu else [*TINY, *out]), *(["--device", "cpu"] if not gpu else []))
        assert said.exit_code == (1 if gpu else 0), said.output
        assert ("finds no GPU here" in said.stderr) == gpu
    report = load(tmp_path / "out")
    assert {model.name for model in report.models} == {"ncf"}
    assert all(row.status == "ok" for row in report.models[0].rows)


def test_the_page_describes_every_field_of_the_file() -> None:
    cells = re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE)
    named_again = {"policy", "xla", "median", "turns"}
    described = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    kinds = [getattr(shape, name) for name in ("Report", "Session", "Ceilings", "Rate", "Measured", "Row", "Ratio")]
    kinds += [shape.Parts, shape.Share, shape.Largest]
    assert named_again <= described
    assert described == {one.name for kind in kinds for one in fields(kind)}


# --- the script for a GPU machine ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_session", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(out: Path, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--scale", "small", "--turns", "3", "--out", str(out)]
    return subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, check=False)


def test_what_matters_most_comes_first(script: ModuleType) -> None:
    stages = script.plans(script.parse(["--child-until", "9e9"]))
    assert [plan.models for plan in stages[:2]] == [("resnet50", "vit_b16")] * 2
    assert [plan.parts for plan in stages] == [False, True, False, True]
    assert [plan.largest for plan in stages] == [False, False, False, True]
    assert all(set(plan.models) <= set(names()) for plan in stages)
    assert all(plan.device == "gpu" and plan.scale == "full" for plan in stages)


def test_make_bench_does_not_run_it() -> None:
    assert not SCRIPT.name.startswith("bench_")


def test_a_session_ends_when_the_time_is_up_whatever_it_is_doing(tmp_path: Path) -> None:
    done = start(tmp_path / "out", "--minutes", "0.01")
    assert done.returncode == 1
    assert "The time is up" in done.stderr
    assert "Nothing was measured" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_stages_are_run_in_one_and_then_drawn(script: ModuleType, saved: Path, monkeypatch) -> None:
    seen: list[Plan] = []
    monkeypatch.setattr("ampcourse.bench.run", lambda *plans, say: seen.extend(plans), raising=False)
    options = script.parse(["--out", str(saved), "--child-until", "9e9", "--device", "cpu", "--then", ""])
    assert script.measure(options) == 0
    assert [(plan.device, plan.parts) for plan in seen] == [("cpu", False), ("cpu", True)]
    assert (saved / "speed-against-float32.png").is_file()


@pytest.mark.full
def test_a_session_on_a_cpu_measures_saves_and_draws(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = start(out, "--minutes", "4", "--first", "ncf", "--then", "", "--turn-seconds", "0.001")
    assert done.returncode == 0, done.stderr
    report = load(out)
    assert report.finished
    assert report.models[0].parts
    assert (out / "speed-against-float32.png").is_file()
    assert "# Benchmark of mixed precision" in done.stdout


def test_a_session_without_the_gpu_that_it_is_for_is_one_sentence(tmp_path: Path) -> None:
    done = start(tmp_path / "out", "--minutes", "2", "--device", "gpu")
    assert done.returncode == 1
    assert "Error: TensorFlow finds no GPU here" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_time_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    for minutes in ("0", "-1", "nan", "inf"):
        assert start(tmp_path, "--minutes", minutes).returncode == 2
