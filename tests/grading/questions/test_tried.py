"""Every function that is in a lesson's box, handed in as the answer to each of its exercises, earns nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ampcourse.exercises.check import exercise
from ampcourse.exercises.engine import Question, judge
from ampcourse.exercises.recorded import observer_name
from ampcourse.grading import boxes
from ampcourse.grading.boxes import checked, make_box
from ampcourse.grading.model import Box

from .conftest import LESSONS, box_of, source_of

DAILY = ("01_fp16_range", "09_batch_and_memory")


def earning(slug: str, box: Box, inside: Callable[..., Any]) -> list[str]:
    """Functions of the box that earn something as the answer to an exercise of the lesson."""
    asked = [exercise(name) for name in checked(source_of(slug)) if not exercise(name).trains]
    questions = {one.id: Question(one, 5) for one in asked}
    plain = {
        name: {"observer": observer_name(question.exercise), "packed": question.packed.decode("ascii")}
        for name, question in questions.items()
    }
    found = []
    for name, tried in inside(box, "try each", asked=plain).items():
        for function, observation in tried.items():
            verdict = judge([questions[name]], [observation.encode("ascii")], reveal=False)
            found += [f"{name}: {function}"] if verdict.score else []
    return found


@pytest.mark.parametrize(
    "slug", [pytest.param(slug, marks=() if slug in DAILY else pytest.mark.full) for slug in LESSONS]
)
def test_no_function_in_the_box_is_an_answer(slug: str, inside: Callable[..., Any]) -> None:
    assert not earning(slug, box_of(slug), inside)


def test_the_trial_finds_answers_where_nothing_is_withheld(
    monkeypatch: pytest.MonkeyPatch, inside: Callable[..., Any]
) -> None:
    slug = "01_fp16_range"
    monkeypatch.setattr(boxes, "asked_exercises", lambda *_: [])
    found = earning(slug, make_box(slug, source_of(slug)), inside)
    for one in ("decode", "ulp", "round"):
        assert any(line.endswith(f"FLOAT16.{one}") for line in found), found
