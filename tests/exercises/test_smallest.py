"""The smallest failing input: few elements, simple values, the same failure, and bounded work."""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ampcourse.exercises.compare import read
from ampcourse.exercises.engine import Question, find_failure, judge
from ampcourse.exercises.model import Exercise
from ampcourse.exercises.observe import observe
from ampcourse.exercises.shrink import TRIES, Failure


def exercise(right: Any, inputs: Any, **more: Any) -> Exercise:
    return Exercise("demo.made", lambda rng: {"all": inputs(rng)}, right, {"all": 1}, **more)


def failure(asked: Exercise, answer: Any) -> Failure:
    question = Question(asked)

    def again(packed: bytes) -> bytes:
        return observe(asked.observer, packed, answer)

    found = find_failure([question], [read(again(question.packed))], again)
    assert found is not None
    return found[1]


def test_one_element_of_an_array() -> None:
    asked = exercise(lambda x: np.abs(x), lambda rng: (rng.permutation(np.r_[rng.uniform(1, 9, 99), -3.3]),))
    found = failure(asked, lambda x: x)
    assert found.arguments[0].shape == (1,)
    assert found.arguments[0][0] < 0
    assert found.got["value"][0] == found.arguments[0][0]
    assert found.want["value"][0] == -found.arguments[0][0]


def test_arrays_of_one_length_shrink_together() -> None:
    asked = exercise(lambda x, y, k: x + k * y, lambda rng: (rng.normal(size=64), rng.normal(size=64), 2))
    found = failure(asked, lambda x, y, k: x + y)
    assert [np.shape(a) for a in found.arguments] == [(1,), (1,), ()]


def test_inner_dimensions_of_a_product_shrink_together() -> None:
    asked = exercise(lambda a, b: a @ b, lambda rng: (rng.normal(size=(4, 9)), rng.normal(size=(9, 6))), rtol=1e-9)
    found = failure(asked, lambda a, b: -(a @ b))
    assert [a.shape for a in found.arguments] == [(1, 1), (1, 1)]


def test_two_elements_where_one_is_not_enough() -> None:
    asked = exercise(lambda x: np.sort(x), lambda rng: (rng.permutation(50.0 + np.arange(50)),))
    found = failure(asked, lambda x: x)
    assert found.arguments[0].shape == (2,)
    assert found.arguments[0][0] > found.arguments[0][1]


def test_a_reduction_shrinks_by_bisecting() -> None:
    asked = exercise(lambda x: x.max(), lambda rng: (np.r_[rng.uniform(0, 1, 37), 7.3, rng.uniform(0, 1, 90)],))
    found = failure(asked, lambda x: x[x < 5].max() if (x < 5).any() else 0.0)
    assert found.arguments[0].shape == (1,)


def test_lists_of_rows_and_dicts() -> None:
    asked = exercise(
        lambda d: sum(v for v, _ in d["rows"]),
        lambda rng: ({"rows": [(float(v), "x") for v in rng.uniform(1, 2, 20)], "other": 1},),
        rtol=1e-9,
    )
    found = failure(asked, lambda d: 0.0)
    assert len(found.arguments[0]["rows"]) == 1
    assert found.arguments[0]["other"] == 1


def test_the_same_kind_of_failure_stays() -> None:
    """An error must not turn into a wrong value on the way, nor a wrong value into an error."""

    def answer(x: np.ndarray) -> Any:
        if len(x) < 3:
            raise ValueError("too short")
        return -x

    asked = exercise(lambda x: x, lambda rng: (rng.normal(size=12),))
    assert failure(asked, answer).arguments[0].shape == (3,)

    def raises(x: np.ndarray) -> Any:
        if (x < 0).any():
            raise ValueError("negative")
        return x + 1

    found = failure(asked, raises)
    assert found.arguments[0].shape == (1,)
    assert found.got.type == "ValueError"


def test_inputs_that_the_right_answer_does_not_take_are_not_shown() -> None:
    def right(x: np.ndarray) -> Any:
        if len(x) < 4:
            raise ValueError
        return x.sum()

    asked = exercise(right, lambda rng: (rng.normal(size=16),))
    assert failure(asked, lambda x: -1.0).arguments[0].shape == (4,)


def test_a_right_answer_must_not_become_nan() -> None:
    def spread(x: np.ndarray) -> Any:
        return x.std(ddof=1)

    asked = exercise(spread, lambda rng: (rng.normal(size=16),))
    assert failure(asked, lambda x: x.std(ddof=0)).arguments[0].shape == (2,)


def test_values_become_simple_but_keep_their_kind() -> None:
    asked = exercise(
        lambda x, s: x * s, lambda rng: (np.float16(rng.uniform(-9, -1.1, 20)).astype(np.float64), 2.0**-5)
    )
    found = failure(asked, lambda x, s: -x * s)
    value = float(found.arguments[0][0])
    assert value < 0
    assert np.float16(value) == value
    assert np.frexp(value)[0] * 4 == int(np.frexp(value)[0] * 4), "two significand bits"
    assert abs(np.frexp(value)[0]) != 0.5, "not a power of two, unless it was one"
    assert found.arguments[1] == 2.0**-5


def test_work_is_bounded() -> None:
    calls = []

    def counted(x: np.ndarray) -> Any:
        calls.append(1)
        return x.sum() + 1

    asked = exercise(lambda x: x.sum() + (1 if len(x) < 997 else 0), lambda rng: (rng.normal(size=1000),))
    failure(asked, lambda x: counted(x) - 1 if len(x) < 997 else counted(x))
    assert len(calls) <= TRIES + 1


def test_slow_answers_are_asked_a_few_times_only() -> None:
    def slow(x: np.ndarray) -> Any:
        time.sleep(0.2)
        return x.sum() + len(x) // 40

    began = time.monotonic()
    failure(exercise(lambda x: x.sum(), lambda rng: (rng.normal(size=64),)), slow)
    assert time.monotonic() - began < 3


def test_across_a_wall_only_bytes_are_asked_for(demo: ModuleType) -> None:
    """The judging side has no answer, only a way to ask for bytes; and it may have none."""
    question = Question(demo.gap)
    asked: list[bytes] = []

    def over_the_wall(packed: bytes) -> bytes:
        asked.append(packed)
        return bytes(observe("call", packed, lambda x: x * 3))

    observation = over_the_wall(question.packed)
    verdict = judge([question], [observation], over_the_wall)
    assert len(asked) > 1
    assert verdict.example.given.count(",") == 0, "one element"
    whole = judge([question], [observation])
    assert whole.example.given.endswith(", ...]")


@pytest.mark.parametrize("reply", [b"", b"nonsense"])
def test_a_lying_wall_only_spoils_the_example(demo: ModuleType, reply: bytes) -> None:
    question = Question(demo.gap)
    verdict = judge([question], [observe("call", question.packed, lambda x: x * 3)], lambda packed: reply)
    assert verdict.outcome == "wrong"
    assert verdict.example is not None


def test_right_values_are_told_only_in_self_study(demo: ModuleType) -> None:
    question = Question(demo.gap)
    observation = observe("call", question.packed, lambda x: x * 3)
    assert judge([question], [observation], reveal=True).example.expected
    assert judge([question], [observation], reveal=False).example.expected == ""


def test_values_that_differ_in_hidden_digits_are_shown_in_full() -> None:
    asked = exercise(lambda x: x, lambda rng: (rng.normal(),))
    question = Question(asked)
    example = judge([question], [observe("call", question.packed, lambda x: x * (1 + 1e-14))]).example
    assert example.returned.removeprefix("you returned ") != example.expected


def test_a_difference_far_down_a_long_array_is_shown(demo: ModuleType) -> None:
    question = Question(demo.gap)
    example = judge([question], [observe("call", question.packed, demo.gap.mistakes[1].answer)]).example
    assert example.returned.startswith("you returned at [8]: ")
    assert example.expected == f"at [8]: {2.0**-24!r}"


def test_a_difference_in_dtype_alone_is_shown() -> None:
    asked = exercise(lambda x: np.float16(x), lambda rng: (rng.normal(size=3),), dtype="float16")
    question = Question(asked)
    example = judge([question], [observe("call", question.packed, lambda x: np.float64(np.float16(x)))]).example
    assert "float64" in example.returned
    assert "float16" in example.expected
