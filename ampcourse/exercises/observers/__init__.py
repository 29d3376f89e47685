"""Observers: functions that look at an answer and report plain facts. They know the question, never the answer.

An observer is called as `observer(answer, *arguments)` and returns numbers, text, arrays, or lists and dicts of them.
It runs beside the learner's code, where right answers are not: this module imports nothing else of ours, and heavy
libraries only inside the functions that need them. What one lesson needs lies in a module named after it. Report facts
in which mistakes look different: the movement of the weights rather than the weights, the scale at every step rather
than the last. What the learner may have set for the whole process (a dtype policy, a seed) must not change the facts:
say every dtype and initial value here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def call(answer: Callable, *args: Any) -> Any:
    """The usual observer: call the function that the learner wrote."""
    return answer(*args)


def each(answer: Callable, rows: list[tuple]) -> dict[str, Any]:
    """Call the function once for each row of arguments: for answers that are texts or single numbers."""
    return {f"case {i}{_in_short(row)}": answer(*row) for i, row in enumerate(rows, 1)}


def _in_short(row: tuple) -> str:
    """The call as a learner would write it; nothing where arrays would make it long, and slow to write."""
    if not all(isinstance(value, bool | int | float | str) for value in row):
        return ""
    return f", f({', '.join(f'{value:.6g}' if isinstance(value, float) else repr(value)[:40] for value in row)})"
