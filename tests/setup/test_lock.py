"""The locks hold what the project asks for, in one version, with hashes and without addresses; conda gets the same."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from clone import ROOT
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = WHOLE["project"]
PYTHONS = ("3.11", "3.12", "3.13")


def entries(name: str) -> list[tuple[Requirement, list[str]]]:
    """The requirements of a lock with their hashes."""
    found = re.findall(r"^([A-Za-z0-9].*?) \\\n((?:    --hash=.*\n?)+)", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    return [(Requirement(text), re.findall(r"sha256:([0-9a-f]{64})", hashes)) for text, hashes in found]


def versions(name: str, python: str, platform: str = "linux") -> dict[str, str]:
    """What the lock installs for a Python and a platform."""
    system = {"linux": "Linux", "darwin": "Darwin"}[platform]
    environment = default_environment() | {
        "python_version": python,
        "python_full_version": python + ".0",
        "sys_platform": platform,
        "platform_system": system,
        "os_name": "posix",
    }
    chosen = [entry for entry, _ in entries(name) if entry.marker is None or entry.marker.evaluate(environment)]
    names = [canonicalize_name(entry.name) for entry in chosen]
    assert len(set(names)) == len(names), "two versions of one package for the same machine"
    return {canonicalize_name(entry.name): str(entry.specifier).removeprefix("==") for entry in chosen}


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-gpu.lock", "requirements-jax.lock"])
def test_every_line_is_a_pinned_version_with_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")
    assert not re.search(r"://|@ |^-|file:|(^|\s)/[a-z]", text, re.MULTILINE)
    found = entries(lock)
    assert len(found) == len(re.findall(r"^[A-Za-z0-9]", text, re.MULTILINE))
    for requirement, hashes in found:
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert hashes, requirement


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_lock_satisfies_what_the_project_asks_for(python: str, platform: str) -> None:
    locked = versions("requirements.lock", python, platform)
    groups = PROJECT["optional-dependencies"]
    asked = [
        *PROJECT["dependencies"],
        *groups["grading"],
        *(r for r in groups["dev"] if not r.startswith("ampcourse[")),
    ]
    for text in asked:
        requirement = Requirement(text)
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier, f"{text}: run make lock"


def test_numbers_come_from_the_same_versions_on_every_python() -> None:
    """What decides about numbers may not differ between learners; small helpers may exist on one Python only."""
    for name in ("numpy", "ml-dtypes", "tensorflow", "keras", "tf-keras", "nbgrader", "papermill"):
        assert len({versions("requirements.lock", python)[name] for python in PYTHONS}) == 1, name


def test_the_editable_install_finds_its_build_backend_in_the_lock() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    for text in [*build, "editables"]:
        assert versions("requirements.lock", "3.11")[canonicalize_name(Requirement(text).name)]


def test_the_gpu_lock_adds_cuda_and_changes_nothing() -> None:
    extra = versions("requirements-gpu.lock", "3.12")
    assert not set(extra) & set(versions("requirements.lock", "3.12"))
    assert "nvidia-cudnn-cu12" in extra
    assert all(name.startswith("nvidia-") for name in extra)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_jax_lock_has_what_its_group_asks_for_in_the_same_versions_and_no_tensorflow(
    python: str, platform: str
) -> None:
    locked, other = versions("requirements-jax.lock", python, platform), versions("requirements.lock", python, platform)
    for text in WHOLE["dependency-groups"]["jax"]:
        requirement = Requirement(text)
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier, f"{text}: run make lock"
    assert not [name for name in locked if name.startswith("tensorflow")]
    assert {name: version for name, version in locked.items() if other.get(name, version) != version} == {}
    assert {"numpy", "keras", "ml-dtypes", "keras-hub"} <= set(locked) & set(other)


def test_this_very_environment_has_the_locked_versions() -> None:
    """The results that the tests prove are those of the lock, not of whatever is installed."""
    import importlib.metadata

    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    locked = versions("requirements.lock", python, "darwin" if sys.platform == "darwin" else "linux")
    for name in ("numpy", "ml-dtypes", "tensorflow", "keras", "tf-keras", "nbgrader", "papermill", "matplotlib"):
        assert importlib.metadata.version(name) == locked[name], f"{name}: run make setup"


def conda() -> tuple[list[str], list[str]]:
    """The conda part and the pip part of environment.yml."""
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    (pip_part,) = [entry["pip"] for entry in dependencies if isinstance(entry, dict)]
    return [entry for entry in dependencies if isinstance(entry, str)], pip_part


def test_conda_installs_exactly_what_the_lock_names() -> None:
    conda_part, pip_part = conda()
    assert pip_part == ["--requirement requirements.lock"], "a version named elsewhere could differ"
    (python,) = [entry.removeprefix("python ") for entry in conda_part if entry.startswith("python ")]
    assert SpecifierSet(python) == SpecifierSet(PROJECT["requires-python"])
    assert {entry.split()[0] for entry in conda_part} == {"python", "pip", "make"}, "a package from both could differ"


def test_the_gpu_line_of_conda_becomes_the_gpu_lock_when_uncommented() -> None:
    text = (ROOT / "environment.yml").read_text("utf-8").replace("# - --requirement", "- --requirement")
    dependencies = yaml.safe_load(text)["dependencies"]
    assert dependencies[-1]["pip"] == ["--requirement requirements.lock", "--requirement requirements-gpu.lock"]


def test_pip_takes_the_pip_part_as_conda_hands_it_over(tmp_path) -> None:
    """conda writes the lines to a file beside environment.yml and calls `pip install -r` on it."""
    (tmp_path / "requirements.lock").write_bytes((ROOT / "requirements.lock").read_bytes())
    (tmp_path / "from_conda.txt").write_text("\n".join(conda()[1]))
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", "-r", "from_conda.txt"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "Requirement already satisfied: tensorflow==2.21.0" in result.stdout
    assert "Would install" not in result.stdout
