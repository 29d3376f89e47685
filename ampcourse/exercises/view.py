"""Showing verdicts and hints: one output, as text and as an accessible table. Colour is never the only carrier."""

from __future__ import annotations

import sys

from ampcourse.exercises.frames import clean
from ampcourse.exercises.model import Exercise, Verdict

_SYMBOL = {"right": "✓", "wrong": "✗", "not attempted": "○", "raised": "!"}
_HEADLINE = {
    "right": "Right",
    "wrong": "Not right yet",
    "not attempted": "Not attempted",
    "raised": "Your code raised an error",
}


def text(exercise: Exercise, verdict: Verdict, hints_left: int = 0) -> str:
    """The verdict as plain text."""
    lines = [headline(verdict)]
    for c in verdict.criteria:
        lines.append(f"  [{'x' if c.passed else ' '}] {c.name} ({c.points:g}){': ' + c.says if c.says else ''}")
    lines += verdict.says
    if verdict.traceback:
        lines += ["Where:", *(f"    {line}" for line in verdict.traceback)]
    if verdict.example:
        lines.append(f"Smallest input that fails ({verdict.example.criterion}): {verdict.example.given}")
        lines.append(f"  you returned {verdict.example.returned}")
        if verdict.example.expected:
            lines.append(f"  expected     {verdict.example.expected}")
    for name, said in (("printed", verdict.printed), ("warned", verdict.warned)):
        if said:
            lines += [f"While it ran, your code {name}:", *(f"    {line}" for line in said.splitlines())]
    if verdict.insight:
        lines.append(verdict.insight)
    if verdict.outcome != "right" and hints_left > 0:
        lines.append(f'Stuck? hint("{exercise.id}")')
    return "\n".join(lines)


def headline(verdict: Verdict) -> str:
    """Outcome and score in one line."""
    return f"{_SYMBOL[verdict.outcome]} {_HEADLINE[verdict.outcome]}: {verdict.score:g} of {verdict.max_score:g} points"


def show_verdict(exercise: Exercise, verdict: Verdict, hints_left: int) -> None:
    """Display the verdict once."""
    _show(text(exercise, verdict, hints_left))


def show_hint(exercise: Exercise, shown: int) -> None:
    """Display the hint after the first `shown`, or say that there are no more."""
    total = len(exercise.hints)
    if shown < total:
        _show(f"Hint {shown + 1} of {total}: {exercise.hints[shown]}")
    elif not total:
        _show("This exercise has no hints.")
    else:
        _show("\n".join(["That were all hints:", *(f"{i}. {h}" for i, h in enumerate(exercise.hints, 1))]))


def show_sentence(sentence: str) -> None:
    """Display one sentence about how check or hint was called."""
    _show(clean(sentence))


def _show(plain: str) -> None:
    sys.stdout.write(plain + "\n")
