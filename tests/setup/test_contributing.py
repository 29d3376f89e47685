"""The exercise that CONTRIBUTING.md adds in ten minutes is a real one: it passes what every exercise must pass."""

from __future__ import annotations

import re

import pytest
from clone import ROOT

from ampcourse.exercises.engine import Question, judge
from ampcourse.exercises.model import Exercise
from ampcourse.exercises.observe import observe

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    found: dict[str, object] = {}
    exec(code, found)
    return found


def outcome(exercise: Exercise, answer: object) -> tuple[str, tuple[str, ...]]:
    question = Question(exercise, 0)
    verdict = judge([question], [observe(exercise.observer, question.packed, answer)])
    return verdict.outcome, verdict.says


def test_the_right_answers_of_the_example_are_right(names: dict[str, object]) -> None:
    exercise = names["binade"]
    for answer in (exercise.right, *exercise.also_right):
        assert outcome(exercise, answer)[0] == "right"
    assert len(exercise.also_right) >= 2


def test_each_mistake_of_the_example_is_named(names: dict[str, object]) -> None:
    exercise = names["binade"]
    assert len(exercise.mistakes) >= 3
    for mistake in exercise.mistakes:
        assert outcome(exercise, mistake.answer) == ("wrong", (mistake.says,))


def test_the_cells_of_the_example_answer_it(names: dict[str, object]) -> None:
    cell, check = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    learner = {"np": names["np"]}
    exec(cell, learner)
    exercise = names["binade"]
    assert outcome(exercise, learner["binade"])[0] == "right"
    assert check == f'check("{exercise.id}", binade)\n'


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for name in ("CONTRIBUTING.md", "README.md", "docs/gpu.md", "docs/instructors.md"):
        named = set(re.findall(r"(?:`|^ *)make ([a-z-]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE))
        assert named <= targets, name
