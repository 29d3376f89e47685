"""What nbgrader_config.py imports: one function that sets up grading, the release's preprocessors, file names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from ampcourse.course import course_root
from ampcourse.grading import nbgrader_hooks as hooks
from ampcourse.grading.cells import checked_exercise, graded_parameters, raises_not_implemented, tags
from ampcourse.grading.doors.autograde import AmpGrade

CHECK = 'check("mini.double", double)'
OWN_CONFIG = """
from ampcourse.grading import nbgrader_hooks as hooks

c = get_config()
c.CourseDirectory.course_id = "own"
hooks.grade_with_ampcourse(c)
"""


def loaded(folder: Path) -> Any:
    return PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()


def test_two_lines_in_an_instructors_own_configuration_are_enough(tmp_path: Path) -> None:
    (tmp_path / "nbgrader_config.py").write_text(OWN_CONFIG)
    own, ours = loaded(tmp_path), loaded(course_root())
    assert AmpGrade(config=own).enabled
    assert not AmpGrade(config=Config()).enabled
    for section in ("AmpGrade", "GenerateFeedback", "HTMLExporter"):
        assert own[section] == ours[section]
    assert "Autograde" not in ours


def test_grading_without_isolation_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMPCOURSE_UNSAFE_NO_SANDBOX", raising=False)
    config = Config()
    hooks.grade_with_ampcourse(config)
    assert not AmpGrade(config=config).unsafe
    monkeypatch.setenv("AMPCOURSE_UNSAFE_NO_SANDBOX", "0")
    assert not AmpGrade(config=config).unsafe
    monkeypatch.setenv("AMPCOURSE_UNSAFE_NO_SANDBOX", "1")
    assert AmpGrade(config=config).unsafe
    monkeypatch.delenv("AMPCOURSE_UNSAFE_NO_SANDBOX")
    config.AmpGrade.unsafe_no_sandbox = True
    assert AmpGrade(config=config).unsafe


@pytest.mark.parametrize(
    ("source", "graded"),
    [
        ('profile = "cpu"  # "cpu", "gpu" or "grade"\nseed = 0', 'profile = "grade"\nseed = 0'),
        ("seed = 0", 'seed = 0\nprofile = "grade"'),
        ("", 'profile = "grade"'),
        ('my_profile = "cpu"', 'my_profile = "cpu"\nprofile = "grade"'),
    ],
)
def test_grading_changes_the_profile_alone(source: str, graded: str) -> None:
    assert graded_parameters(source) == graded


@pytest.mark.parametrize(
    ("source", "exercise"),
    [
        (CHECK, "mini.double"),
        ("check('mini.double', double)  # see", "mini.double"),
        ("check()", None),
        ("check(double)", None),
        ("x = check('mini.double', double)", None),
        ("assert check('mini.double', double)", None),
        ("check('a.b', f); check('a.c', g)", None),
        ("def broken(:", None),
        ("\0", None),
    ],
)
def test_check_cells_are_recognised_by_their_form(source: str, exercise: str | None) -> None:
    assert checked_exercise(source) == exercise


def test_stubs_are_recognised_beside_magics() -> None:
    assert raises_not_implemented("%%time\ndef f():\n    # YOUR CODE HERE\n    raise NotImplementedError()")
    assert raises_not_implemented("def f():\n    raise NotImplementedError")
    assert not raises_not_implemented("def f():\n    return NotImplementedError")
    assert not raises_not_implemented("raise NotImplementedError(")


@pytest.mark.parametrize(("found", "read"), [(["a", 1, None], {"a"}), ("parameters", set()), (None, set())])
def test_whatever_stands_for_tags_is_read(found: Any, read: set[str]) -> None:
    cell = new_code_cell("")
    cell.metadata["tags"] = found
    assert tags(cell) == read


def test_helper_programs_are_found_beside_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    hooks.use_this_environment()
    hooks.use_this_environment()
    path = os.environ["PATH"].split(os.pathsep)
    assert path[0] == str(Path(sys.executable).parent)
    assert path.count(path[0]) == 1
    assert path[-1] == "/usr/bin"


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("ada_01_fp16_range.ipynb", "ada"),
        ("lovelaceada_1234_5678_01_fp16_range-1.ipynb", "lovelaceada"),
        ("Ada Lovelace_77_assignsubmission_file_01_fp16_range.ipynb", "Ada Lovelace"),
        ("ada_01_fp16_range (2).ipynb", "ada"),
    ],
)
def test_files_downloaded_from_a_platform_name_student_and_lesson(name: str, student: str) -> None:
    config = loaded(course_root())
    found = re.match(config.FileNameCollectorPlugin.named_regexp, f"/a b/downloaded/01_x/extracted/{name}")
    assert found
    assert found.groupdict() == {"student_id": student, "file_id": "01_fp16_range"}


def test_the_hooks_do_not_load_tensorflow() -> None:
    code = (
        "import sys, ampcourse.grading.nbgrader_hooks; sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_environment_without_the_course_is_told_in_one_sentence(tmp_path: Path) -> None:
    shutil.copy(course_root() / "nbgrader_config.py", tmp_path)
    (tmp_path / "other" / "ampcourse").mkdir(parents=True)
    (tmp_path / "other" / "ampcourse" / "__init__.py").touch()
    ran = subprocess.run(
        [str(Path(sys.executable).parent / "nbgrader"), "db", "student", "list"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "other")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "install it there with `pip install 'ampcourse[grading]'`" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "gradebook.db").exists()
