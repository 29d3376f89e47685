"""A failing input as an example: what was given, what came back, what would be right."""

from __future__ import annotations

import numpy as np

from ampcourse.exercises.facts import Facts
from ampcourse.exercises.frames import clean
from ampcourse.exercises.model import Example, Exercise
from ampcourse.exercises.observers import call, each
from ampcourse.exercises.shrink import Failure
from ampcourse.exercises.words import show


def explained(exercise: Exercise, criterion: str, failure: Failure, reveal: bool) -> Example:
    """A failure as an example: the arguments by name, what came back, and the right values if they may be told."""
    arguments, called = failure.arguments, exercise.observer in (call, "call")
    if (
        exercise.observer in (each, "each") and len(arguments[0]) == 1
    ):  # the one row left: what the learner's function was given
        arguments, called = arguments[0][0], True
    names = _names(exercise, len(arguments), called)
    given = ", ".join(f"{n} = {show(a)}" for n, a in zip(names, arguments, strict=True))
    if not isinstance(failure.got, dict):
        returned = f"your code raised {failure.got}" if failure.got.kind == "raised" else str(failure.got)
        return Example(criterion, given, returned, _listed(failure.want) if reveal else "")
    got, want = _listed(failure.got), _listed(failure.want)
    if got == want:  # they differ in digits or at places that are not shown
        got, want = _first_difference(failure.got, failure.want)
    return Example(criterion, given, f"you returned {got}", want if reveal else "")


def _first_difference(got: Facts, want: Facts) -> tuple[str, str]:
    """Both sides where they first differ, in full."""
    for name in want:
        mine, right = got.get(name), want[name]
        if (
            not isinstance(mine, np.ndarray)
            or isinstance(right, str)
            or mine.dtype != right.dtype
            or mine.shape != right.shape
        ):
            continue
        different = np.flatnonzero(mine.reshape(-1) != right.reshape(-1))
        if different.size:
            at = [int(i) for i in np.unravel_index(different[0], mine.shape)]
            where = f"at {at}: " if at else ""
            return where + repr(mine[tuple(at)].item()), where + repr(right[tuple(at)].item())
    return tuple(", ".join(f"{show(f)} ({getattr(f, 'dtype', 'text')})" for f in side.values()) for side in (got, want))


def _names(exercise: Exercise, count: int, simple: bool) -> list[str]:
    """The arguments' names, from the right answer or, where that is not simply called, from the observer."""
    named = exercise.right_takes if simple else exercise.observer_takes
    return list(named[:count]) if len(named) >= count else [f"argument {i + 1}" for i in range(count)]


def _listed(facts: Facts) -> str:
    parts = [(clean(name, 200), show(fact)) for name, fact in list(facts.items())[:6]]
    more = ", ..." if len(facts) > 6 else ""
    return ", ".join(text if len(facts) == 1 else f"{name}: {text}" for name, text in parts) + more
