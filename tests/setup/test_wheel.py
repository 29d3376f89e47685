"""The wheel works where there is no clone: lessons without solutions, data and licences travel in it."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from clone import ROOT, copy_of_the_clone

from ampcourse.course import load_course

SLUGS = [lesson.slug for lesson in load_course().lessons]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clone = copy_of_the_clone(tmp_path_factory.mktemp("wheel") / "a clone é")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    result = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (made,) = (clone / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the wheel into, away from the clone and from this environment."""
    target = tmp_path_factory.mktemp("installed") / "site packages é"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", target, wheel]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target


def elsewhere(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in another folder with the installed package before the clone's."""
    settings = os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)


def test_it_holds_the_lessons_of_the_learner_the_data_and_the_licences(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for slug in SLUGS:
        assert f"ampcourse/_bundled/notebooks/release/{slug}/{slug}.ipynb" in names
    for name in ("fashion_mnist.npz", "DATASHEET.md", "LICENSE-fashion-mnist", "SHA256SUMS"):
        assert f"ampcourse/_bundled/data/{name}" in names
    licences = {name.partition("dist-info/licenses/")[2] for name in names} - {""}
    assert licences == {"LICENSE", "LICENSE-text", "data/LICENSE-fashion-mnist"}


def test_it_holds_no_source_notebook_no_test_and_nothing_made_at_work(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    kinds = ("/source/", ".ipynb_checkpoints")
    assert not [name for name in names if name.startswith("tests") or any(kind in name for kind in kinds)]
    assert not [name for name in names if name.endswith((".pyc", ".db", ".new"))]
    assert {name.partition("/")[0] for name in names} == {"ampcourse", f"{wheel.name.rsplit('-', 3)[0]}.dist-info"}


def test_its_metadata_says_what_the_project_says(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Requires-Python"] in ("<3.14,>=3.11", ">=3.11,<3.14")
    assert metadata["License-Expression"] == "Apache-2.0 AND CC-BY-4.0 AND MIT"
    assert {"gpu", "grading", "dev"} <= set(metadata.get_all("Provides-Extra"))
    assert "tensorflow[and-cuda]<2.22,>=2.21; extra == 'gpu'" in metadata.get_all("Requires-Dist")


def test_lessons_and_data_are_found_outside_the_clone(installed: Path, tmp_path: Path) -> None:
    code = (
        "import ampcourse; from ampcourse import data; from ampcourse.course import course_root, load_course; "
        "print(ampcourse.__file__, course_root(), len(load_course().lessons), data.load()[0][0].shape, sep='\\n')"
    )
    result = elsewhere(installed, tmp_path, "-c", code)
    assert (result.returncode, result.stderr) == (0, "")
    package, root, lessons, shape = result.stdout.splitlines()
    assert Path(package).parent == installed / "ampcourse"
    assert Path(root) == installed / "ampcourse" / "_bundled" / "notebooks"
    assert (lessons, shape) == (str(len(SLUGS)), "(10000, 28, 28, 1)")


def test_a_learner_can_start_outside_the_clone(installed: Path, tmp_path: Path) -> None:
    result = elsewhere(installed, tmp_path, "-m", "ampcourse.cli", "start", "my lessons")
    assert result.returncode == 0, result.stderr
    assert sorted(path.stem for path in (tmp_path / "my lessons").glob("*.ipynb")) == SLUGS


def test_what_needs_a_clone_says_so(installed: Path, tmp_path: Path) -> None:
    result = elsewhere(installed, tmp_path, "-m", "ampcourse.cli", "release")
    assert result.returncode == 1
    assert "clone" in result.stderr
    assert "Traceback" not in result.stderr
    assert ROOT.as_posix() not in result.stderr
