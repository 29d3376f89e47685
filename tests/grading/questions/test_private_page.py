"""The page on private exercises: what it quotes is in the example, and its commands do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import ampcourse
from ampcourse.course import CourseError
from ampcourse.grading.assignment import make_assignment
from ampcourse.grading.settings import exercises_folder

ROOT = Path(ampcourse.__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "private-exercises.md").read_text("utf-8")
EXAMPLE = Path(__file__).parent / "private_example"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_what_the_page_quotes_is_in_the_example() -> None:
    example = (EXAMPLE / "answers" / "fp16_range.py").read_text("utf-8")
    quoted = [line for block in blocks("python") for line in block.splitlines() if line.strip()]
    assert len(quoted) > 10
    for line in quoted:
        assert line.removesuffix(" ...") in example, line


def test_the_pages_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_the_commands_of_the_page_make_a_release_with_the_classs_own_task(tmp_path: Path) -> None:
    (commands,) = blocks("bash")
    shutil.copytree(EXAMPLE, tmp_path / "private", ignore=shutil.ignore_patterns("__pycache__"))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    released = tmp_path / "my-course" / "release" / "01_fp16_range" / "01_fp16_range.ipynb"
    text = "\n".join(cell.source for cell in nbformat.read(released, as_version=4).cells)
    assert "16-bit format of its own" in text
    assert 'check("fp16_range.decode_ours", decode_ours)' in text
    assert "exponent, fraction = bits >>" not in text, "the solution is not handed out"
    (named,) = blocks("toml")
    with (tmp_path / "my-course" / "course.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n{named}")
    asked = make_assignment(tmp_path / "my-course", "01_fp16_range").asked
    assert "fp16_range.decode_ours" in asked, "every door asks what the folder named in course.toml asks"


def test_what_course_toml_says_of_the_folder_is_read_from_there_and_given_wins(tmp_path: Path) -> None:
    assert exercises_folder(tmp_path) is None
    (tmp_path / "course.toml").write_text('[grading]\nexercises = "../private"\n', "utf-8")
    assert exercises_folder(tmp_path) == tmp_path / "../private"
    assert exercises_folder(tmp_path, Path("other")) == Path("other")
    (tmp_path / "course.toml").write_text("[grading]\nexercises = 3\n", "utf-8")
    with pytest.raises(CourseError, match="exercises is 3: give a path in quotes"):
        exercises_folder(tmp_path)
