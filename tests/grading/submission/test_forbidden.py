"""What a task asks not to use is told to the instructor, and costs nothing."""

from __future__ import annotations

import dataclasses

import pytest
from submission_samples import grader, handed_in

from ampcourse.exercises.check import exercises, lessons
from ampcourse.exercises.engine import Question
from ampcourse.exercises.recorded import recorded
from ampcourse.grading.model import Assignment, Starter
from ampcourse.grading.submission.forbidden import used

FORBIDDEN = ("spacing", "nextafter", "float16")


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def ulp(x):\n    return np.spacing(x)", ["spacing"]),
        ("from numpy import nextafter as n\ndef ulp(x):\n    return n(x, 9) - x", ["nextafter"]),
        ("def ulp(x):\n    return getattr(np, 'spacing')(x)", ["spacing"]),
        ("def to16(x):\n    return x.astype('float16')", ["float16"]),
        ("%%time\ndef ulp(x):\n    return numpy.spacing(x) + numpy.float16(0)", ["spacing", "float16"]),
        ("def ulp(x):\n    'The spacing of neighbours, without np.spacing'\n    return 2.0 ** -10", []),
        ("def ulp(x):  # np.spacing would do it\n    return 2.0 ** -10", []),
        ("spacings = 3", []),
        ("np.spacing(", []),
    ],
)
def test_names_are_found_however_they_are_reached_and_comments_are_not(code: str, names: list[str]) -> None:
    assert used([code], FORBIDDEN) == names


def test_what_an_exercise_forbids_travels_with_it() -> None:
    found = [one for lesson in lessons() for one in exercises(lesson) if one.forbids]
    assert {one.id for one in found} >= {"fp16_range.ulp", "fp16_range.to_float16", "fp16_range.decode"}
    for one in found:
        assert recorded(one).forbids == tuple(one.forbids)
    with pytest.raises(ValueError, match="a comma is missing"):
        dataclasses.replace(found[0], forbids="spacing")


def test_the_instructor_is_told_and_the_points_stay(assignment: Assignment, starter: Starter) -> None:
    asked = assignment.asked["mini.double"]
    exercise = dataclasses.replace(asked.questions[0].exercise, forbids=("multiply",))
    questions = tuple(Question(exercise, question.seed) for question in asked.questions)
    everything = {**assignment.asked, "mini.double": dataclasses.replace(asked, questions=questions)}
    grade = grader(dataclasses.replace(assignment, asked=everything), starter)
    text = "def double(x):\n    return np.multiply(2, x)"
    graded, found, _ = grade(handed_in(double=text, early="np.multiply(1, 1)"))
    assert found["double-check"].score == 2
    assert "'double-check': the answer uses multiply, which its task asks not to use." in graded.notes
    graded, found, _ = grade(handed_in(double="def double(x):\n    return 2 * x", early="np.multiply(1, 1)"))
    assert found["double-check"].score == 2
    assert not [note for note in graded.notes if "asks not to use" in note], "an experiment is no answer"
