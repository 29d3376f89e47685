"""The release in the repository is what the sources give, and gives nothing away; for every lesson."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest

from ampcourse.course import Lesson, course_root, load_course
from ampcourse.grading.cells import about, raises_not_implemented, tags
from ampcourse.grading.release import release
from ampcourse.grading.rules import solution_lines

COURSE = load_course()
every_lesson = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


@every_lesson
def test_the_committed_release_is_current(lesson: Lesson, tmp_path: Path) -> None:
    for name in ("course.toml", "nbgrader_config.py"):
        shutil.copy(course_root() / name, tmp_path)
    shutil.copytree(COURSE.source(lesson).parent, tmp_path / "source" / lesson.slug)
    made = release([lesson.slug], tmp_path)[0].parent
    committed = COURSE.release(lesson).parent
    names = sorted(path.name for path in made.iterdir())
    assert names == sorted(path.name for path in committed.iterdir() if path.name != ".ipynb_checkpoints")
    for name in names:
        same = (committed / name).read_bytes() == (made / name).read_bytes()
        assert same, f"{name} is not what its source gives: run `make release`"


@every_lesson
def test_the_release_gives_nothing_away(lesson: Lesson) -> None:
    source = nbformat.read(COURSE.source(lesson), as_version=4)
    released = nbformat.read(COURSE.release(lesson), as_version=4)
    lines = {line.strip() for cell in released.cells for line in cell.source.splitlines()}
    secrets = set(solution_lines(source))
    assert secrets
    assert not lines & secrets
    text = "\n".join(cell.source for cell in released.cells)
    assert not [word for word in ("BEGIN SOLUTION", "END SOLUTION", "HIDDEN TESTS") if word in text]
    for cell in source.cells:
        if "interpretation" in tags(cell):
            assert cell.source not in text
    assert not [cell.id for cell in released.cells if "interpretation" in tags(cell)]
    assert not [cell.id for cell in released.cells if cell.get("outputs") or cell.get("execution_count")]


@every_lesson
def test_every_answer_is_still_asked_for(lesson: Lesson) -> None:
    released = nbformat.read(COURSE.release(lesson), as_version=4)
    answers = [cell for cell in released.cells if about(cell).get("solution")]
    assert {cell.cell_type for cell in answers} == {"code", "markdown"}
    for cell in answers:
        if cell.cell_type == "code":
            assert raises_not_implemented(cell.source)
        else:
            assert "YOUR ANSWER HERE" in cell.source
