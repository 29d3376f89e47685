"""Finding the smallest input on which an answer still fails in the same way.

The answers side asks for more observations, as bytes in and bytes out, so this works across a process wall as well.
Sizes shrink first: axes and lists of one length belong together and lose the same positions. Then values become
simpler by dropping low bits of the significand, which keeps sign, binade and what formats can hold it, so that the
input stays of its kind. Every candidate is judged anew against the right answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ampcourse.exercises import wire
from ampcourse.exercises.compare import Fault, problem, read, same
from ampcourse.exercises.facts import Facts
from ampcourse.exercises.model import BrokenExercise, Exercise

TRIES = 24
BYTES_A_TRY = 50_000
"""A candidate of this size counts twice, and so on: what is found does not depend on how busy the machine is."""
SECONDS = 1.0
"""For answers that are slow; then what is found may differ from time to time."""
_FEW = 4
"""Values are made simpler once no more than this many are left."""


@dataclass(frozen=True)
class Failure:
    """Arguments on which an answer fails, what was observed there, and what is right."""

    arguments: tuple
    got: Facts | Fault
    want: Facts


@dataclass
class Search:
    """One search, with what it may still spend."""

    exercise: Exercise
    criterion: str
    right_facts: Callable[[bytes], Any]
    observe_again: Callable[[bytes], bytes]
    best: Failure
    tries: float = TRIES
    ends: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def smaller(self) -> Failure:
        """The smallest failure that the budget finds."""
        for length in sorted(set(_lengths(self.best.arguments))):  # short axes first: few tries, and all else shrinks
            self._shorten(length)
        if sum(1 for _ in _floats(self.best.arguments)) <= _FEW:
            self._simplify()
        return self.best

    def _fails(self, arguments: tuple) -> bool:
        """Whether the answer fails there in the same way; if so, that is the best failure so far."""
        if time.monotonic() > self.ends:
            self.tries = 0
        if self.tries <= 0:
            return False
        packed = wire.pack({self.criterion: arguments})
        self.tries -= 1 + len(packed) / BYTES_A_TRY
        try:
            want = self.right_facts(packed)[self.criterion]
        except BrokenExercise:  # the right answer does not take this input
            return False
        got = read(self.observe_again(packed))[self.criterion]
        if not problem(self.exercise, got, want) or _way(got, want) != _way(self.best.got, self.best.want):
            return False
        if _has_nan(want) and not _has_nan(self.best.want):  # such as the mean of nothing: no longer the same question
            return False
        self.best = Failure(arguments, got, want)
        return True

    def _shorten(self, length: int) -> None:
        """Keep fewer positions of everything that has this length: one if one is enough, else bisect."""
        whole = self.best.arguments

        def enough(keep: list[int]) -> bool:
            return self._fails(tuple(_take(a, length, keep) for a in whole))

        if any(enough([i]) for i in _suspects(self.best, length, self.exercise)):
            return
        keep, parts = list(range(length)), 2
        while len(keep) > 1 and self.tries > 0:
            step = -(-len(keep) // parts)
            chunks = [keep[i : i + step] for i in range(0, len(keep), step)]
            rests = [keep[:i] + keep[i + step :] for i in range(0, len(keep), step)] if parts > 2 else []
            if found := next((c for c in (*chunks, *rests) if c and enough(c)), None):
                keep, parts = found, max(2, parts - 1) if found in rests else 2
            elif parts >= len(keep):
                return
            else:
                parts = min(2 * parts, len(keep))

    def _simplify(self) -> None:
        for position in range(sum(1 for _ in _floats(self.best.arguments))):
            value = list(_floats(self.best.arguments))[position]
            for simple in _simpler(value):
                if self._fails(_replaced(self.best.arguments, position, simple)):
                    break


def _way(got: Facts | Fault, want: Facts) -> tuple:
    if isinstance(got, Fault):
        return got.kind, got.type
    if got.keys() != want.keys():
        return ("parts",) if len(want) == 1 else ("value",)
    shapes = all(np.shape(got[name]) == np.shape(want[name]) for name in want)
    return ("value",) if shapes else ("shape",)


def _has_nan(facts: Facts) -> bool:
    return any(not isinstance(f, str) and bool(np.isnan(f.astype(np.float64)).any()) for f in facts.values())


def _suspects(failure: Failure, length: int, exercise: Exercise) -> list[int]:
    """Positions whose own result is wrong, the simplest value first, where results go with positions."""
    got, want = failure.got, failure.want
    if isinstance(got, Fault) or got.keys() != want.keys():
        return [0, length - 1]
    if len(want) == length:  # one fact for each position
        wrong = [not _equal(exercise, got[name], want[name]) for name in want]
        return list(np.flatnonzero(wrong)[:3])
    fact, right = next(iter(got.values())), next(iter(want.values()))
    if isinstance(fact, str) or isinstance(right, str) or not fact.ndim or fact.shape != right.shape:
        return [0]
    wrong = ~same(fact, right, exercise.rtol, exercise.atol)
    axis = next((k for k, n in enumerate(fact.shape) if n == length), None)
    if axis is None:
        return [0]
    at = np.flatnonzero(wrong.any(axis=tuple(k for k in range(fact.ndim) if k != axis)))
    first = next((a for a in failure.arguments if isinstance(a, np.ndarray) and a.shape == (length,)), None)
    if first is not None and first.dtype.kind in "fV":
        at = sorted(at, key=lambda i: _bits(float(first[i])))
    return [int(i) for i in at[:3]]


def _equal(exercise: Exercise, got: Any, want: Any) -> bool:
    if isinstance(got, str) or isinstance(want, str):
        return type(got) is type(want) and got == want
    return got.shape == want.shape and bool(same(got, want, exercise.rtol, exercise.atol).all())


def _lengths(value: Any) -> Iterator[int]:
    if isinstance(value, np.ndarray):
        yield from (n for n in value.shape if n > 1)
        return
    if isinstance(value, list) and len(value) > 1:
        yield len(value)
    if isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _lengths(part)


def _take(value: Any, length: int, keep: list[int]) -> Any:
    if isinstance(value, np.ndarray):
        for axis, n in enumerate(value.shape):
            value = np.take(value, keep, axis) if n == length else value
        return value
    if isinstance(value, list):
        value = [value[i] for i in keep] if len(value) == length else value
    if isinstance(value, dict):
        return {k: _take(v, length, keep) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_take(v, length, keep) for v in value)
    return value


def _floats(value: Any) -> Iterator[float]:
    """Every finite float in the arguments, in a fixed order."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in "fV":
            yield from (float(v) for v in np.asarray(value).reshape(-1))
    elif isinstance(value, float):
        yield value
    elif isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _floats(part)


def _replaced(value: Any, position: int, new: float) -> Any:
    """The arguments with the float at one position of `_floats` replaced."""
    left = [position]

    def walk(value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            if value.dtype.kind not in "fV":
                return value
            changed = np.array(value)
            if 0 <= left[0] < changed.size:
                changed.reshape(-1)[left[0]] = new
            left[0] -= changed.size
            return changed if isinstance(value, np.ndarray) else changed[()]
        if isinstance(value, float):
            left[0] -= 1
            return new if left[0] == -1 else value
        if isinstance(value, dict):
            return {k: walk(v) for k, v in value.items()}
        return type(value)(walk(v) for v in value) if isinstance(value, list | tuple) else value

    return walk(value)


def _bits(value: float) -> int:
    """Significand bits that a number needs."""
    if not np.isfinite(value) or value == 0:
        return 0
    mantissa = int(abs(np.frexp(value)[0]) * 2.0**53)
    return 53 - ((mantissa & -mantissa).bit_length() - 1)


def _simpler(value: float) -> Iterator[float]:
    """The same number cut to 2, 3, 4 or 8 significand bits, where it has more; the last one set.

    So a power of two never comes out of another number: answers often change there, and the inputs may avoid it.
    """
    needs = _bits(value)
    for bits in (b for b in (2, 3, 4, 8) if b < needs):
        mantissa, exponent = np.frexp(abs(value))
        cut = int(mantissa * 2**bits) | 1
        yield float(np.copysign(np.ldexp(float(cut), int(exponent) - bits), value))
