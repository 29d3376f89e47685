"""What the learner's commands rely on, for every lesson that there is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ampcourse.course import Lesson, load_course
from ampcourse.exercises.check import exercises
from ampcourse.learner.notebook import lesson_outline
from ampcourse.learner.selfcheck import check_notebook

COURSE = load_course()
every_lesson = pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.slug)


@every_lesson
def test_the_notebook_asks_what_the_checkers_check(lesson: Lesson) -> None:
    outline = lesson_outline(COURSE, lesson)
    asked = {check.exercise: check.points for check in outline.checks}
    assert asked == {exercise.id: exercise.max_score for exercise in exercises(lesson.name)}
    assert sum(asked.values()) + sum(question.points for question in outline.written) == lesson.points


@pytest.mark.full
@every_lesson
def test_the_solutions_pass_the_self_check(lesson: Lesson, tmp_path: Path) -> None:
    result = check_notebook(Path(shutil.copy(COURSE.source(lesson), tmp_path / "mine.ipynb")))
    assert result.passed, (result.rows, result.troubles)


@pytest.mark.full
@every_lesson
def test_what_learners_get_does_not_pass_yet(lesson: Lesson, tmp_path: Path) -> None:
    result = check_notebook(Path(shutil.copy(COURSE.release(lesson), tmp_path / "mine.ipynb")))
    assert {row.outcome for row in result.rows} == {"not attempted"}
    assert not any(done for _, done in result.written)
    assert not result.passed
    assert all("NotImplementedError" in trouble for trouble in result.troubles), result.troubles
