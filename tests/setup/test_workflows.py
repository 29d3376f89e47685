"""The workflows: valid by their published schema, with the least permissions, and calling what is there."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from clone import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.y*ml"))
NAMES = [path.name for path in WORKFLOWS]


def workflow(name: str) -> dict:
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


def checked(*files: Path) -> subprocess.CompletedProcess[str]:
    """What the schema that is published at schemastore says; check-jsonschema carries a copy, so nothing is fetched."""
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        *map(str, files),
    ]
    offline = os.environ | dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    return subprocess.run(command, env=offline, capture_output=True, text=True, check=False, timeout=120)


def steps(name: str) -> Iterator[dict]:
    for job in workflow(name)["jobs"].values():
        yield from job["steps"]


def test_every_workflow_is_valid_by_its_published_schema() -> None:
    assert NAMES == ["ci.yml", "drift.yml", "gpu.yml"]
    result = checked(*WORKFLOWS)
    assert result.returncode == 0, result.stdout + result.stderr


def _without_runner(broken: dict) -> None:
    del next(iter(broken["jobs"].values()))["runs-on"]


BREAKING = {
    "a job without a runner": _without_runner,
    "no jobs": lambda broken: broken.pop("jobs"),
    "an unknown event": lambda broken: broken.update({True: {"pushed": None}}),
    "an unknown permission": lambda broken: broken.update(permissions={"contents": "all"}),
    "steps as text": lambda broken: next(iter(broken["jobs"].values())).update(steps="make test"),
    "a misspelt key": lambda broken: next(iter(broken["jobs"].values())).update({"time-out": 3}),
}


@pytest.mark.parametrize("how", BREAKING)
def test_a_broken_workflow_is_found(how: str, tmp_path: Path) -> None:
    broken = copy.deepcopy(workflow("gpu.yml"))
    BREAKING[how](broken)
    broken = {"on" if key is True else key: value for key, value in broken.items()}  # YAML 1.1 reads `on` as true
    (tmp_path / "broken.yml").write_text(json.dumps(broken), "utf-8")  # JSON is YAML
    result = checked(tmp_path / "broken.yml")
    assert result.returncode == 1
    assert "broken.yml" in result.stdout


@pytest.mark.parametrize("name", NAMES)
def test_permissions_are_the_least(name: str) -> None:
    assert workflow(name)["permissions"] == {"contents": "read"}
    for job, content in workflow(name)["jobs"].items():
        expected = {"contents": "read", "issues": "write"} if (name, job) == ("drift.yml", "tell") else None
        assert content.get("permissions") == expected, f"{name}: {job}"
        assert 0 < content["timeout-minutes"] <= 120


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_github_s_own_and_of_a_named_version(name: str) -> None:
    actions = [step["uses"] for step in steps(name) if "uses" in step]
    assert actions and all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in actions)


@pytest.mark.parametrize("name", ["drift.yml", "gpu.yml"])
def test_nothing_that_runs_other_people_s_code_can_write(name: str) -> None:
    for job in workflow(name)["jobs"].values():
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
        installs = any("pip install" in step.get("run", "") or "make " in step.get("run", "") for step in job["steps"])
        assert not (installs and "permissions" in job)
        assert not (installs and "github.token" in json.dumps(job))


@pytest.mark.parametrize("name", NAMES)
def test_scripts_are_valid_bash_and_take_no_text_from_outside(name: str) -> None:
    for step in steps(name):
        if "run" in step:
            result = subprocess.run(["bash", "-n", "-c", step["run"]], capture_output=True, text=True, check=False)
            assert result.returncode == 0, result.stderr
            # What a person typed must come through a variable: in the script itself it would be run.
            assert set(re.findall(r"\$\{\{\s*(.*?)\s*\}\}", step["run"])) <= {"needs.lessons.result"}


@pytest.mark.parametrize("name", ["drift.yml", "gpu.yml"])
def test_they_run_nightly_and_by_hand(name: str) -> None:
    events = workflow(name)[True]
    assert set(events) == {"schedule", "workflow_dispatch"}
    ((minute, hour, *rest),) = (entry["cron"].split() for entry in events["schedule"])
    assert 0 < int(minute) < 60 and 0 <= int(hour) < 6 and rest == ["*", "*", "*"]


def test_the_gpu_job_is_skipped_where_no_runner_is_named() -> None:
    (job,) = workflow("gpu.yml")["jobs"].values()
    assert job["if"] == "vars.GPU_RUNNER != ''"
    assert job["runs-on"] == "${{ vars.GPU_RUNNER }}"


@pytest.mark.parametrize(
    ("name", "profile", "folder"), [("gpu.yml", "gpu", "results-gpu"), ("drift.yml", "cpu", "results-drift")]
)
def test_every_lesson_runs_and_the_report_is_kept_also_of_a_failure(name: str, profile: str, folder: str) -> None:
    from ampcourse.cli import main

    (script,) = [step["run"] for step in steps(name) if "ampcourse run" in step.get("run", "")]
    line = re.search("ampcourse run (.*)", script)[1]
    words = line.replace('"$SEED"', "0").replace("$LESSONS", "").split()
    typed = main.commands["run"].make_context("run", words).params
    assert typed["profile"] == profile and str(typed["out"]) == folder and typed["fresh"]
    assert not typed["lessons"]
    (kept,) = [step for step in steps(name) if "upload-artifact" in step.get("uses", "")]
    assert kept["if"] == "always()"
    assert kept["with"]["path"] == folder


def test_what_the_workflows_call_is_there() -> None:
    for name in NAMES:
        for step in steps(name):
            for tool in re.findall(r"tools/\w+\.py", step.get("run", "")):
                assert (ROOT / tool).is_file(), tool
            for target in re.findall(r"\bmake (\w+)", step.get("run", "")):
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), target


def test_where_there_is_no_gpu_the_gpu_run_stops_with_a_sentence() -> None:
    blind = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, ROOT / "tools" / "need_gpu.py"]
    result = subprocess.run(command, env=blind, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 1
    assert "TensorFlow sees no GPU here" in result.stderr


# The issue about drift, with a `gh` that keeps what it was told.

GH = """import json, sys
from pathlib import Path
log = Path(__file__).with_name("log.jsonl")
text = sys.stdin.read() if "--body-file" in sys.argv else ""
with log.open("a") as file:
    file.write(json.dumps([sys.argv[1:], text]) + "\\n")
if sys.argv[1:3] == ["issue", "list"]:
    print(Path(__file__).with_name("open.json").read_text())
"""


def result(name: str, held: bool) -> dict:
    return {"name": name, "value": 7.5, "low": 0.0, "high": 1.0, "held": held}


RUN = {
    "versions": {"tensorflow": "9.1", "keras": "9.2"},
    "notebooks": [
        {"lesson": "01_a", "status": "ok", "reason": "", "results": [result("fine", True), result("off", False)]},
        {"lesson": "02_b", "status": "failed", "reason": "a | b\n@someone", "results": []},
    ],
}


def told(tmp_path: Path, ended: str, open_issues: str, results: str | None = json.dumps(RUN)) -> list[list]:
    """The calls of gh that change something, each with the text that it was given."""
    (tmp_path / "gh.py").write_text(GH, "utf-8")
    # a shell script between, since the first line of a script cannot hold a path with a space
    (tmp_path / "gh").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "gh.py"}" "$@"\n', "utf-8")
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "open.json").write_text(open_issues, "utf-8")
    if results is not None:
        (tmp_path / "results.json").write_text(results, "utf-8")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUN_PAGE": "https://example.org/run/1"}
    command = [sys.executable, ROOT / "tools" / "drift.py", ended, tmp_path / "results.json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text("utf-8").splitlines()]
    return [call for call in calls if call[0][:2] != ["issue", "list"]]


def test_drift_opens_an_issue_that_says_what_drifted(tmp_path: Path) -> None:
    label, create = told(tmp_path, "failure", "[]")
    assert label[0][:3] == ["label", "create", "drift"]
    assert create[0][:2] == ["issue", "create"]
    assert create[0][create[0].index("--label") + 1] == "drift"
    text = create[1]
    for part in ("https://example.org/run/1", "| tensorflow | 9.1 |", "| 01_a | off | 7.5 | 0.0 to 1.0 |"):
        assert part in text
    assert "fine" not in text
    assert "| 02_b | failed: a \\| b @\u200bsomeone | | |" in text


def test_drift_that_is_known_makes_no_second_issue(tmp_path: Path) -> None:
    ((arguments, text),) = told(tmp_path, "failure", '[{"number": 12}]')
    assert arguments[:3] == ["issue", "edit", "12"]
    assert "| 01_a | off |" in text


def test_results_that_hold_again_close_the_issue(tmp_path: Path) -> None:
    ((arguments, _),) = told(tmp_path, "success", '[{"number": 12}]')
    assert arguments[:3] == ["issue", "close", "12"]


def test_results_that_hold_say_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, "success", "[]") == []


@pytest.mark.parametrize("results", [None, "", "{", "[]", "{}", '{"versions": 3, "notebooks": []}'])
def test_a_run_without_results_is_drift_too(tmp_path: Path, results: str | None) -> None:
    _, (_, text) = told(tmp_path, "failure", "[]", results)
    assert "It left no results" in text


def test_an_issue_has_room_for_the_worst_of_runs(tmp_path: Path) -> None:
    worst = RUN | {"notebooks": [RUN["notebooks"][1] | {"reason": "x" * 10_000}] * 1000}
    _, (_, text) = told(tmp_path, "failure", "[]", json.dumps(worst))
    assert len(text) < 65_536


@pytest.mark.parametrize("arguments", [[], ["cancelled", "x"], ["failure"]])
def test_a_wrong_call_is_told(arguments: list[str]) -> None:
    command = [sys.executable, ROOT / "tools" / "drift.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("Call it as:")
