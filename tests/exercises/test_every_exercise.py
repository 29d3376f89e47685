"""One test file for every exercise there will ever be: found automatically, so that none can be forgotten."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ampcourse.exercises import wire
from ampcourse.exercises.check import exercises, lessons
from ampcourse.exercises.compare import problem, read
from ampcourse.exercises.engine import Question, find_failure, judge
from ampcourse.exercises.facts import Facts
from ampcourse.exercises.model import Exercise, Verdict
from ampcourse.exercises.observe import observe
from ampcourse.exercises.observers import each

EVERY = [e for lesson in lessons() for e in exercises(lesson)]
CALLED = [e for e in EVERY if not e.trains]
MANY_SEEDS = [range(60), pytest.param(range(60, 260), marks=pytest.mark.full)]

every = pytest.mark.parametrize("exercise", EVERY, ids=lambda e: e.id)
called = pytest.mark.parametrize("exercise", CALLED, ids=lambda e: e.id)
each_right_answer = pytest.mark.parametrize(
    ("exercise", "answer"),
    [pytest.param(e, a, id=f"{e.id}-{i}") for e in EVERY for i, a in enumerate((e.right, *e.also_right))],
)
each_mistake = pytest.mark.parametrize(
    ("exercise", "mistake"),
    [pytest.param(e, m, id=f"{e.id}-{i}") for e in EVERY for i, m in enumerate(e.mistakes)],
)

_asked: dict[tuple[str, int], Question] = {}


def asked(exercise: Exercise, seed: int) -> Question:
    """Each question once, so that its right facts and its mistakes are observed once for all tests."""
    return _asked.setdefault((exercise.id, seed), Question(exercise, seed))


def verdict_on(exercise: Exercise, answer: Any, seed: int = 0) -> Verdict:
    question = asked(exercise, seed)
    return judge([question], [observe(exercise.observer, question.packed, answer)])


def seeds(exercise: Exercise, few: int = 5) -> range:
    return range(2) if exercise.trains else range(few)


@each_right_answer
def test_right_answers_get_full_marks(exercise: Exercise, answer: Any) -> None:
    for seed in seeds(exercise, 3):
        verdict = verdict_on(exercise, answer, seed)
        assert verdict.outcome == "right", (seed, verdict)
        assert verdict.score == verdict.max_score == sum(exercise.points.values())


@called
@pytest.mark.parametrize("many", MANY_SEEDS, ids=["every day", "full"])
def test_right_answers_are_right_for_every_seed(exercise: Exercise, many: range) -> None:
    for seed in many:
        question = Question(exercise, seed)
        for number, answer in enumerate(exercise.also_right):
            seen = read(observe(exercise.observer, question.packed, answer))
            wrong = {
                name: says for name in exercise.points if (says := problem(exercise, seen[name], question.want[name]))
            }
            assert not wrong, f"seed {seed}, also_right[{number}]: {wrong}"


@every
def test_there_is_enough_to_teach_and_to_test_with(exercise: Exercise) -> None:
    assert len(exercise.also_right) >= 2, "at least two other right answers"
    assert len(exercise.mistakes) >= 3, "at least three known mistakes"
    messages = [m.says.strip() for m in exercise.mistakes]
    assert all(messages), "each mistake has a message"
    assert len(set(messages)) == len(messages), "each mistake has a message of its own"
    assert exercise.hints, "at least one hint"
    assert all(h.strip() for h in exercise.hints)
    assert exercise.insight.strip(), "what to take away"
    assert exercise.max_score > 0


@every
def test_facts_cannot_be_known_beforehand(exercise: Exercise) -> None:
    """In every criterion something differs between seeds: otherwise a constant could be handed in."""
    one, other = asked(exercise, 0).want, asked(exercise, 1).want
    for name in exercise.points:
        assert problem(exercise, one[name], other[name]), f"'{name}' has the same right facts for two seeds"
        assert values(one[name]) != values(other[name]), f"'{name}' has the same values, under other names"


def values(facts: Facts) -> list[str | bytes]:
    """Right facts without their names, which may hold the inputs."""
    return [fact if isinstance(fact, str) else wire.pack(fact) for fact in facts.values()]


@pytest.mark.parametrize("exercise", [e for e in CALLED if e.observer is each], ids=lambda e: e.id)
def test_the_same_value_for_every_case_is_no_answer(exercise: Exercise) -> None:
    """A criterion of several cases asks for different values, but for so few seeds that three never are among them."""
    wants = [asked(exercise, seed).want for seed in range(20)]
    for name in exercise.points:
        same = sum(len(set(values(want[name]))) == 1 for want in wants)
        assert same <= 2, f"'{name}' asks for one and the same value in {same} of {len(wants)} seeds"


@every
def test_the_stub_is_not_attempted(exercise: Exercise) -> None:
    def stub(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    verdict = verdict_on(exercise, stub)
    assert verdict.outcome == "not attempted"
    assert verdict.score == 0


@every
def test_a_forgotten_return_is_not_an_untouched_stub(exercise: Exercise) -> None:
    verdict = verdict_on(exercise, lambda *args, **kwargs: None)
    assert verdict.outcome in {"wrong", "raised"}
    assert verdict.score < verdict.max_score


@called
def test_code_that_raises_is_shown_with_its_line(exercise: Exercise) -> None:
    verdict = verdict_on(exercise, lambda *args, **kwargs: 1 / 0)
    assert verdict.outcome == "raised"
    assert verdict.score == 0
    assert any("ZeroDivisionError" in line for line in verdict.traceback)
    assert any("1 / 0" in line for line in verdict.traceback)


@each_mistake
def test_each_mistake_is_recognised_as_itself(exercise: Exercise, mistake: Any) -> None:
    for seed in seeds(exercise):
        verdict = verdict_on(exercise, mistake.answer, seed)
        assert verdict.outcome in {"wrong", "raised"}, (seed, verdict)
        assert verdict.says == (mistake.says,), (seed, verdict)
        assert verdict.score < verdict.max_score
        if verdict.example:
            shown = (verdict.example.given, verdict.example.returned, verdict.example.expected)
            assert max(map(len, shown)) < 1_000, "an example is short enough to read"


@each_mistake
def test_the_example_shown_is_one_on_which_all_right_answers_agree(exercise: Exercise, mistake: Any) -> None:
    """Making an input smaller must not leave what the exercise asks about."""
    if exercise.trains:
        pytest.skip("inputs are not made smaller where answers train")
    question = asked(exercise, 0)

    def again(packed: bytes) -> bytes:
        return observe(exercise.observer, packed, mistake.answer)

    found = find_failure([question], [read(again(question.packed))], again)
    assert found, "the mistake is right for this seed"
    name, failure = found
    packed = wire.pack({name: failure.arguments})
    for answer in (exercise.right, *exercise.also_right):
        seen = read(observe(exercise.observer, packed, answer))
        assert not problem(exercise, seen[name], failure.want), failure.arguments


class EqualToEverything:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


NONSENSE = {
    "None": None,
    "text": "text",
    "ragged list": [[1, 2], [3]],
    "empty dict": {},
    "empty list": [],
    "empty array": np.zeros(0),
    "NaN": np.nan,
    "matrix": np.zeros((3, 3)),
    "object": object(),
    "equal to everything": EqualToEverything(),
    "huge integer": 10**400,
    "complex": 1j,
    "half a pair": {"\ud800": 1},
    "list of texts": ["a", None],
    "array of texts": np.array(["x"]),
    "array of bytes": np.zeros(2, "V4"),
    "bfloat16": np.array(1, ml_dtypes.bfloat16),
    "huge by broadcasting": np.broadcast_to(np.float64(1), (10**5, 10**4)),
    "generator": (i for i in range(3)),
    "function": len,
    "set": {1.0, 2.0},
}


@called
@pytest.mark.parametrize("value", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_never_scores_and_never_crashes(exercise: Exercise, value: Any) -> None:
    verdict = verdict_on(exercise, lambda *args, **kwargs: value)
    assert verdict.outcome in {"wrong", "raised"}
    assert verdict.score == 0


@called
def test_an_answer_may_print_warn_and_change_its_arguments(exercise: Exercise, capfd: pytest.CaptureFixture) -> None:
    """What the learner's code does besides answering costs nothing, and nothing of it reaches stderr."""
    if isinstance(exercise.right, type):
        pytest.skip("the answer is a class")

    def noisy(*args: Any, **kwargs: Any) -> Any:
        result = exercise.right(*args, **kwargs)
        for arg in args:
            if isinstance(arg, np.ndarray):
                result = np.array(result) if isinstance(result, np.ndarray) else result
                arg.fill(0)
        print("x" * 100_000)  # noqa: T201 what learners do
        warnings.warn("careful", stacklevel=1)
        sys.stderr.write("to stderr")
        os.write(2, b"to the descriptor\n")
        return result

    verdict = verdict_on(exercise, noisy)
    assert verdict.outcome == "right"
    assert len(verdict.printed) < 2_200
    assert "careful" in verdict.warned
    assert capfd.readouterr().err == ""


@every
def test_what_would_answer_it_exists(exercise: Exercise) -> None:
    for dotted in exercise.asks_for:
        assert dotted.startswith("ampcourse."), dotted
        parts = dotted.split(".")
        for cut in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:cut]))
                break
            except ModuleNotFoundError:
                continue
        for part in parts[cut:]:
            found = getattr(found, part)
