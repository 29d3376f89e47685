"""What an exercise is (data, nothing else) and what judging it gives: a verdict with named criteria.

An exercise asks for one thing, usually a function. `inputs(rng)` draws the questions: a group of arguments for each
criterion, plain data only (numbers, bools, text, arrays, and lists, tuples and dicts of them). The right answer, the
known mistakes and the learner's answer are all observed in the same way, and judging is comparing what was observed.

How to choose well:

* Draw inputs so that the right facts differ from seed to seed in *every* criterion.
* Choose facts in which mistakes look different; where two mistakes look the same, let one message serve both.
* Ask one thing: if the exercise is about gaps, feed numbers that need no rounding.
* Give a tolerance (`rtol`, `atol`) only as wide as honest alternatives need; 0 means exact.
* Set `dtype` only where the dtype is what is asked for.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.exercises.observers import call

Inputs = Mapping[str, tuple]
"""Criterion -> the arguments of one observation."""

OUTCOMES = ("right", "wrong", "not attempted", "raised")
_ID = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")


class BrokenExercise(Exception):
    """The exercise itself failed, not the learner: nobody's score may be written."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people really give, as code, and the sentence that helps them."""

    answer: Any
    says: str


@dataclass(frozen=True)
class Exercise:
    """One exercise as data.

    Attributes:
        id: `<lesson>.<name>`, as learners type it.
        inputs: draws, from a random generator, the arguments for each criterion.
        right: the right answer, as code.
        points: points of each criterion, under the names that `inputs` gives, in the order shown.
        observer: how to look at an answer: `observer(answer, *arguments)` gives numbers, text, arrays, or lists and
            dicts of them. It knows no answers and lives in `observers`.
        also_right: other right answers, in other styles and dtypes; only the tests use them.
        mistakes: known wrong answers; the first that looks just like the learner's answer is named.
        hints: from a nudge to nearly the answer.
        rtol, atol: relative and absolute tolerance of numbers, as in `numpy.isclose`.
        dtype: the dtype that every fact must have, where that is part of the question.
        asks_for: names in the rest of ampcourse that would answer the exercise.
        forbids: names of library functions that the task asks not to use. An answer with them is right all the same,
            and whoever grades is told.
        insight: what to take away, shown once the answer is right.
        trains: the answer is observed by training with it, which takes seconds.
    """

    id: str
    inputs: Callable[[np.random.Generator], Inputs]
    right: Any
    points: Mapping[str, float]
    observer: Callable = call
    also_right: Sequence[Any] = ()
    mistakes: Sequence[Mistake] = ()
    hints: Sequence[str] = ()
    rtol: float = 0.0
    atol: float = 0.0
    dtype: str | None = None
    asks_for: Sequence[str] = ()
    forbids: Sequence[str] = ()
    insight: str = ""
    trains: bool = False

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"the id of an exercise is '<lesson>.<name>' in lower case, not {self.id!r}")
        if not self.points or not all(math.isfinite(p) and p > 0 for p in self.points.values()):
            raise ValueError(f"{self.id}: every criterion has a finite number of points above 0, not {self.points!r}")
        for field in ("also_right", "mistakes", "hints", "asks_for", "forbids"):
            if isinstance(getattr(self, field), str):
                raise ValueError(f"{self.id}: '{field}' is a tuple; a comma is missing after its only entry")

    @property
    def lesson(self) -> str:
        """The lesson's name, the first half of the id."""
        return self.id.partition(".")[0]

    @property
    def max_score(self) -> float:
        """The sum of the points."""
        return float(sum(self.points.values()))

    @property
    def right_takes(self) -> tuple[str, ...]:
        """The names of the right answer's parameters."""
        return _takes(self.right)

    @property
    def observer_takes(self) -> tuple[str, ...]:
        """The names of the observer's parameters after the answer."""
        return _takes(self.observer)[1:]


def _takes(function: Any) -> tuple[str, ...]:
    """The names of a function's positional parameters; none where they cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


@dataclass(frozen=True)
class Criterion:
    """One line of a verdict."""

    name: str
    points: float
    passed: bool
    says: str = ""


@dataclass(frozen=True)
class Example:
    """The smallest input found on which the answer fails; `expected` is empty where it must not be told."""

    criterion: str
    given: str
    returned: str
    expected: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a learner, and nbgrader, are told about one answer.

    Attributes:
        outcome: one of `OUTCOMES`.
        criteria: every criterion with its points, passed or not.
        says: the messages of the mistakes that were recognised.
        traceback: the learner's own lines, innermost last, if the code raised.
        example: the smallest failing input.
        insight: shown when right.
        printed, warned: what the learner's code printed, and what it warned of or wrote to stderr.
    """

    outcome: str
    criteria: tuple[Criterion, ...]
    says: tuple[str, ...] = ()
    traceback: tuple[str, ...] = ()
    example: Example | None = None
    insight: str = ""
    printed: str = ""
    warned: str = ""

    @property
    def score(self) -> float:
        """Points earned: a plain float, only ever the points of criteria that passed."""
        return float(sum(c.points for c in self.criteria if c.passed))

    @property
    def max_score(self) -> float:
        """Points that could be earned."""
        return float(sum(c.points for c in self.criteria))
