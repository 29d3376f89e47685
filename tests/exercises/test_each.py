"""Answers that are asked row by row: what failed is told in the terms of the learner's own function."""

from __future__ import annotations

from ampcourse.exercises.check import check
from ampcourse.exercises.engine import Question, judge
from ampcourse.exercises.model import Exercise
from ampcourse.exercises.observe import observe
from ampcourse.exercises.observers import each


def _larger(first: float, second: float) -> str:
    return "first" if first > second else "second"


ASKED = Exercise(
    "demo.larger",
    lambda rng: {"pairs": ([tuple(pair) for pair in rng.normal(size=(9, 2)).tolist()],)},
    _larger,
    {"pairs": 1},
    observer=each,
)


def verdict_on(answer):
    question = Question(ASKED)

    def again(packed: bytes) -> bytes:
        return observe(each, packed, answer)

    return judge([question], [again(question.packed)], again)


def test_the_example_names_the_arguments_of_the_function_that_was_asked_for():
    verdict = verdict_on(lambda a, b: "first")
    assert verdict.outcome == "wrong"
    given = [part.partition(" = ")[0] for part in verdict.example.given.split(", ")]
    assert given == ["first", "second"]
    assert verdict.example.returned == "you returned 'first'"
    assert verdict.example.expected == "'second'"


def test_a_row_that_failed_is_told_with_its_arguments():
    verdict = verdict_on(lambda a, b: "second" if a < b else "neither")
    says = verdict.criteria[0].says
    assert says.startswith("case ") and ", f(" in says and "'neither'" in says


def test_rows_that_look_the_same_in_short_are_all_asked():
    rows = [(1.0, 1.00000001), (1.0, 1.00000002)]
    assert len(each(lambda a, b: a < b, rows)) == 2


def test_an_object_where_a_name_is_wanted_gets_a_true_sentence(capsys):
    assert check("fp16_range.choose_format", lambda low, high, tolerance: object()) == 0.0
    assert "expected numbers or text, got an object" in capsys.readouterr().out
