"""CI, hooks and licences: what is written down calls what is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from clone import ROOT, call, make_clone

CI = ROOT / ".ci" / "run"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_workflow_runs_the_same_script_on_every_supported_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    assert {"push", "pull_request"} <= set(workflow[True])  # YAML 1.1 reads the key `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    supported = [
        c.removeprefix("Programming Language :: Python :: ") for c in PROJECT["classifiers"] if ":: Python ::" in c
    ]
    assert job["strategy"]["matrix"]["python"] == supported == ["3.11", "3.12", "3.13"]
    assert job["strategy"]["fail-fast"] is False
    assert 30 < job["timeout-minutes"] <= 60
    actions = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in actions)
    (setup,) = [step for step in job["steps"] if "setup-python" in step.get("uses", "")]
    assert setup["with"]["python-version"] == "${{ matrix.python }}"
    assert (ROOT / setup["with"]["cache-dependency-path"]).is_file()
    *before, last = [step["run"] for step in job["steps"] if "run" in step]
    assert last == ".ci/run"
    assert all("userns" in step for step in before), "only what GitHub's machines forbid and the sandbox needs"


def fake_machine(tmp_path: Path, *programs: str) -> tuple[Path, dict[str, str]]:
    """A copy of the CI script beside programs that only say that they were called."""
    shutil.copytree(CI.parent, tmp_path / "a clone é" / ".ci")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "id", "env"):
        (tools / name).symlink_to(shutil.which(name))
    for name in programs:
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $* CI=$AMPCOURSE_CI"\n')
        (tools / name).chmod(0o755)
    return tmp_path / "a clone é" / ".ci" / "run", {"PATH": str(tools)}


SYSTEM = {"chromium": "Chromium", "bwrap": "bubblewrap", "initdb": "PostgreSQL"}
"""What CI installs: one program of each package, and its name for people."""


def without_programs_elsewhere(script: Path, tmp_path: Path) -> None:
    """Debian keeps PostgreSQL's programs where PATH does not lead; on the fake machine there is nothing."""
    script.write_text(script.read_text("utf-8").replace("/usr/lib/postgresql/", f"{tmp_path}/nothing/"), "utf-8")


def test_ci_lints_then_tests_and_lets_nothing_missing_pass(tmp_path: Path) -> None:
    script, environment = fake_machine(tmp_path, "make", *SYSTEM)
    without_programs_elsewhere(script, tmp_path)
    result = subprocess.run([script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["make lint CI=1", "make test CI=1", "make test-jax CI=1"]


@pytest.mark.parametrize("program", SYSTEM)
def test_ci_installs_what_is_missing_and_fails_where_it_cannot(tmp_path: Path, program: str) -> None:
    there = [name for name in SYSTEM if name != program]
    script, environment = fake_machine(tmp_path, "make", "apt-get", "sudo", *there)
    without_programs_elsewhere(script, tmp_path)
    result = subprocess.run([script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == f"There is still no {SYSTEM[program]} after installing it.\n"
    package = {"chromium": "chromium", "bwrap": "bubblewrap", "initdb": "postgresql"}[program]
    assert re.search(rf"install .* {package} CI", result.stdout), result.stdout
    assert "make" not in result.stdout


def test_ci_stops_at_the_first_failure(tmp_path: Path) -> None:
    script, environment = fake_machine(tmp_path, *SYSTEM)
    (tmp_path / "bin" / "make").write_text('#!/bin/sh\necho "$*"\nexit 2\n')
    (tmp_path / "bin" / "make").chmod(0o755)
    result = subprocess.run([script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "lint\n")


def hooks() -> dict[str, dict]:
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"], "a hook from elsewhere needs a network"
    return {hook["id"]: hook for hook in repositories[0]["hooks"]}


@pytest.mark.parametrize("name", ["ruff-format", "ruff-check", "notebooks"])
def test_each_hook_does_its_work(tmp_path: Path, name: str) -> None:
    """Run the hook's own words as pre-commit does: from the root, with the files behind them."""
    hook = hooks()[name]
    assert hook["language"] == "system"
    (tmp_path / ".venv").symlink_to(sys.prefix)
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    is_notebook = "files" in hook
    bad = tmp_path / ("bad.ipynb" if is_notebook else "bad.py")
    cell = '{"cell_type": "markdown", "metadata": {"collapsed": true}, "source": "x"}'
    notebook = f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 4}}'
    bad.write_text(notebook if is_notebook else '"""Doc."""\nimport os\nx = {  "a":1 }\n')
    command = [*hook["entry"].split(), bad.name]
    first = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    cleaned = bad.read_text()
    assert "collapsed" not in cleaned and ("import os" not in cleaned or '"a": 1' in cleaned), first.stderr
    second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stdout
    assert bad.read_text() == cleaned
    if is_notebook:
        assert re.match(hook["files"], "notebooks/source/01_fp16_range/01_fp16_range.ipynb")


def test_licences_are_whole_and_named() -> None:
    code, text, data = ((ROOT / name).read_text("utf-8") for name in PROJECT["license-files"])
    assert "Apache License" in code and "END OF TERMS AND CONDITIONS" in code
    assert "Attribution 4.0 International" in text and "Section 8 – Interpretation." in text
    assert "Copyright © 2017 Zalando SE" in data and "WITHOUT WARRANTY OF ANY KIND" in data
    assert PROJECT["license"] == "Apache-2.0 AND CC-BY-4.0 AND MIT"
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in PROJECT["license-files"]:
        assert f"({name})" in readme


def test_changelog_and_version_agree() -> None:
    import ampcourse

    assert PROJECT["version"] == ampcourse.__version__
    headings = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0] == PROJECT["version"]


def test_make_without_a_target_lists_every_target() -> None:
    settings = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    result = subprocess.run(["make"], cwd=ROOT, env=settings, capture_output=True, text=True, check=True)
    listed = re.findall(r"^  make (\S+)", result.stdout, re.MULTILINE)
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[1].split()
    assert sorted(listed) == sorted(phony)


def test_every_link_inside_the_documents_leads_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("data/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return make_clone(tmp_path / "a clone é")


def test_bench_runs_every_benchmark_and_fails_if_one_does(small: Path) -> None:
    (small / "benchmarks").mkdir()
    for name, code in (("a", "raise SystemExit(3)"), ("b", "import sys; print(sys.prefix)")):
        (small / "benchmarks" / f"bench_{name}.py").write_text(code)
    result = call(small, ["make", "bench"], AMPCOURSE_VENV=sys.prefix)
    assert result.returncode != 0
    assert result.stdout.splitlines() == ["== benchmarks/bench_a.py", "== benchmarks/bench_b.py", sys.prefix]
    (small / "benchmarks" / "bench_a.py").write_text("")
    assert call(small, ["make", "bench"], AMPCOURSE_VENV=sys.prefix).returncode == 0


def test_clean_keeps_the_learners_work(small: Path) -> None:
    for name in (".venv", ".venv-jax", "results", "learner", "build"):
        (small / name).mkdir()
    assert call(small, ["make", "clean"]).returncode == 0
    assert (small / "learner").is_dir()
    assert not any((small / name).exists() for name in (".venv", ".venv-jax", "results", "build"))


def test_targets_use_the_programs_of_the_environment_first(small: Path, tmp_path: Path) -> None:
    """Not a `ruff` or an `ampcourse` that lies elsewhere on PATH."""
    mine, other = tmp_path / "my env é", tmp_path / "other"
    for folder, word in ((mine / "bin", "mine"), (other, "other")):
        folder.mkdir(parents=True)
        for name in ("ruff", "ampcourse", "python", "jupyter"):
            (folder / name).write_text(f'#!/bin/sh\necho "{word}: {name} $*"\n')
            (folder / name).chmod(0o755)
    (small / "learner").mkdir()
    settings = {"AMPCOURSE_VENV": str(mine), "AMPCOURSE_VENV_JAX": str(mine), "PATH": f"{other}:{os.environ['PATH']}"}
    for target in ("run", "lab", "test", "test-full", "test-jax", "format", "lint", "release", "lock", "images"):
        result = call(small, ["make", target, f"PYTHON={sys.executable}"], **settings)
        assert result.returncode == 0, result.stderr
        assert result.stdout and all(line.startswith("mine: ") for line in result.stdout.splitlines()), target
