"""Values and failing inputs in words, short enough to read."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from ampcourse.exercises.frames import clean
from ampcourse.exercises.model import Example, Exercise
from ampcourse.exercises.observers import call

if TYPE_CHECKING:
    from ampcourse.exercises.facts import Facts
    from ampcourse.exercises.shrink import Failure


def explained(exercise: Exercise, criterion: str, failure: Failure, reveal: bool) -> Example:
    """A failure as an example: the arguments by name, what came back, and the right values if they may be told."""
    names = _names(exercise, len(failure.arguments))
    given = ", ".join(f"{n} = {show(a)}" for n, a in zip(names, failure.arguments, strict=True))
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


def _names(exercise: Exercise, count: int) -> list[str]:
    """The arguments' names, from the right answer or, where that is not simply called, from the observer."""
    simple = exercise.observer is call
    try:
        parameters = list(inspect.signature(exercise.right if simple else exercise.observer).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    parameters = parameters if simple else parameters[1:]
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return named[:count] if len(named) >= count else [f"argument {i + 1}" for i in range(count)]


def _listed(facts: Facts) -> str:
    parts = [(name, show(fact)) for name, fact in list(facts.items())[:6]]
    more = ", ..." if len(facts) > 6 else ""
    return ", ".join(text if len(facts) == 1 else f"{name}: {text}" for name, text in parts) + more


def show(value: Any) -> str:
    """A value for people: short, exact where that is short, with powers of two named."""
    if isinstance(value, str):
        return repr(clean(value, 60))
    if isinstance(value, dict):
        parts = [f"{k!r}: {show(v)}" for k, v in list(value.items())[:6]]
        return "{" + ", ".join(parts) + (", ..." if len(value) > 6 else "") + "}"
    if isinstance(value, list | tuple):
        parts = [show(v) for v in value[:6]] + (["..."] if len(value) > 6 else [])
        left, right = "[]" if isinstance(value, list) else "()"
        return f"{left}{', '.join(parts)}{',' if isinstance(value, tuple) and len(value) == 1 else ''}{right}"
    if isinstance(value, np.ndarray) and value.ndim:
        return _show_array(value)
    number = value.item() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(number, np.generic | np.ndarray) or str(getattr(value, "dtype", "")) in ("bfloat16",):
        number = float(number)
    return _show_float(number) if isinstance(number, float) else repr(number)


def _show_float(number: float) -> str:
    if not np.isfinite(number):
        return str(number)
    mantissa, exponent = np.frexp(number)
    if abs(mantissa) == 0.5 and not 2**-10 < abs(number) < 2**20:
        return f"{'-' if number < 0 else ''}2**{exponent - 1}"
    short = f"{number:.9g}"
    return short if float(short) == number or "." in short else f"{number:.1f}"


def _show_array(value: np.ndarray) -> str:
    if not value.size:
        return f"empty array of shape {value.shape}"
    flat = [show(v) for v in value.reshape(-1)[:6]]
    if value.ndim == 1:
        return f"[{', '.join(flat)}{', ...' if value.size > 6 else ''}]"
    if value.size <= 6:
        return "[" + ", ".join(_show_array(row) for row in value) + "]"
    return f"array of shape {value.shape}: {', '.join(flat[:3])}, ..."
