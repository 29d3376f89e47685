"""The example that shows how to add an exercise is one that works."""

from __future__ import annotations

import textwrap

import pytest

from ampcourse.exercises import answers
from ampcourse.exercises.engine import check_once
from ampcourse.exercises.model import Exercise


@pytest.fixture
def example() -> Exercise:
    block = answers.__doc__.partition("::\n")[2].partition("\nHeavy libraries")[0]
    names: dict = {}
    exec(textwrap.dedent(block), names)
    return names["EXERCISES"][0]


def test_the_example_is_a_whole_exercise(example: Exercise) -> None:
    assert len(example.mistakes) >= 3
    assert len(example.also_right) >= 2
    for seed in range(20):
        for answer in (example.right, *example.also_right):
            assert check_once(example, answer, seed).outcome == "right"
        for mistake in example.mistakes:
            assert check_once(example, mistake.answer, seed).says == (mistake.says,)
