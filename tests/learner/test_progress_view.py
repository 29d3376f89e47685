"""`ampcourse progress`: what is done, the points, what comes next."""

from __future__ import annotations

import json

import pytest
from nbformat import NotebookNode

from ampcourse.course import Course, CourseError
from ampcourse.exercises import progress
from ampcourse.exercises.model import Criterion, Verdict
from ampcourse.learner.progress import Survey, report, survey


def verdict(outcome: str, earned: float, of: float) -> Verdict:
    criteria = (Criterion("some", earned, True), Criterion("rest", of - earned, False))
    return Verdict(outcome, tuple(c for c in criteria if c.points))


def said(surveyed: Survey, capsys: pytest.CaptureFixture[str], as_json: bool = False) -> str:
    report(surveyed, as_json)
    return capsys.readouterr().out


def test_empty_progress_says_where_to_begin(
    tiny: NotebookNode, small_course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(survey(small_course), capsys)
    assert "Begin with 01_tiny: 'ampcourse start'" in text
    assert text.count("not tried") == 2


def test_points_add_up_and_the_next_exercise_is_named(
    tiny: NotebookNode, small_course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.store_verdict("tiny.double", verdict("right", 2, 2))
    progress.store_hint("tiny.double", 1, 2)
    text = said(survey(small_course), capsys)
    assert "2 of 3 points so far. Next: tiny.square in 01_tiny" in text
    assert "1 of 2 done" in text
    assert "1 hint used" in text
    progress.store_verdict("tiny.square", verdict("wrong", 0.5, 1))
    text = said(survey(small_course), capsys)
    assert "2.5 of 3 points so far. Next: tiny.square" in text
    progress.store_verdict("tiny.square", verdict("right", 1, 1))
    assert "All exercises are done: 3 of 3 points." in said(survey(small_course), capsys)


def test_json_holds_the_same(tiny: NotebookNode, small_course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    progress.store_verdict("tiny.double", verdict("right", 2, 2))
    content = json.loads(said(survey(small_course), capsys, as_json=True))
    assert content["next"] == "tiny.square"
    assert [(x["lesson"], x["score"], x["max"]) for x in content["lessons"]] == [("01_tiny", 2, 3), ("02_small", 0, 0)]
    assert content["lessons"][0]["exercises"][1]["outcome"] == "not tried"


def test_points_of_an_older_course_never_exceed_those_of_this_one(tiny: NotebookNode, small_course: Course) -> None:
    progress.store_verdict("tiny.double", verdict("right", 9, 9))
    progress.store_verdict("gone.exercise", verdict("right", 5, 5))
    assert sum(s.score for _, many in survey(small_course).lessons for s in many) == 2


def test_a_course_without_its_notebooks_says_so(small_course: Course) -> None:
    small_course.release(small_course.lessons[0]).unlink()
    with pytest.raises(CourseError, match="01_tiny"):
        survey(small_course)
