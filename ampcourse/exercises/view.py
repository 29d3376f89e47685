"""Showing verdicts and hints: one output, as text and as HTML. Colour is never the only carrier."""

from __future__ import annotations

import sys

from ampcourse.exercises.frames import clean
from ampcourse.exercises.markup import hints_html, verdict_html
from ampcourse.exercises.model import Exercise, Verdict

_HEADLINE = {
    "right": "✓ Right",
    "wrong": "✗ Not right yet",
    "not attempted": "○ Not attempted yet",
    "raised": "! Your code stopped with an error",
}


def headline(verdict: Verdict) -> str:
    """Outcome and score in one line."""
    return f"{_HEADLINE[verdict.outcome]}: {verdict.score:g} of {verdict.max_score:g} points"


def text(exercise: Exercise, verdict: Verdict, hints_left: int = 0) -> str:
    """The verdict as plain text."""
    lines = [headline(verdict), *verdict.says]
    lines += [_line(c.passed, f"{c.name} ({c.points:g})", c.says) for c in verdict.criteria]
    if verdict.example:
        lines.append(f"It fails, for example, in '{verdict.example.criterion}':")
        lines += [f"    input:    {verdict.example.given}", f"    {verdict.example.returned}"]
        lines += [f"    expected: {verdict.example.expected}"] if verdict.example.expected else []
    lines += _block("Where it happened, in your code:", verdict.traceback)
    lines += _block("Your code printed:", verdict.printed.splitlines())
    lines += _block("Your code warned:", verdict.warned.splitlines())
    lines += [verdict.insight] if verdict.insight else []
    if call := _hint_call(exercise, verdict, hints_left):
        lines.append(f"Stuck? {call}")
    return "\n".join(lines)


def show_verdict(exercise: Exercise, verdict: Verdict, hints_left: int) -> None:
    """Display the verdict once."""
    call = _hint_call(exercise, verdict, hints_left)
    _show(text(exercise, verdict, hints_left), verdict_html(exercise, verdict, headline(verdict), call))


def show_hint(exercise: Exercise, shown: int) -> None:
    """Display the hint after the first `shown`; after the last, say so and show all again."""
    total = len(exercise.hints)
    if not total:
        show_sentence(f"There are no hints for '{exercise.id}'.")
    elif shown < total:
        left = total - shown - 1
        more = f"{left} more if you ask again" if left else "the last one"
        _show_hints(exercise, f"Hint {shown + 1} of {total} ({more})", [exercise.hints[shown]])
    else:
        numbered = [f"{i}. {h}" for i, h in enumerate(exercise.hints, 1)]
        _show_hints(exercise, "There are no more hints. So far:", numbered)


def show_sentence(sentence: str) -> None:
    """Display one sentence about how check or hint was called."""
    _show(clean(sentence))


def _line(passed: bool, name: str, says: str) -> str:
    return f"  [{'x' if passed else ' '}] {name}{': ' + says if says else ''}"


def _block(title: str, lines: tuple[str, ...] | list[str]) -> list[str]:
    return [title, *(f"    {line}" for line in lines)] if lines else []


def _hint_call(exercise: Exercise, verdict: Verdict, hints_left: int) -> str:
    return f'hint("{exercise.id}")' if hints_left > 0 and verdict.outcome != "right" else ""


def _show_hints(exercise: Exercise, title: str, hints: list[str]) -> None:
    _show("\n".join([title, *hints]), hints_html(exercise, title, hints))


def _show(plain: str, html: str = "") -> None:
    """One display in IPython, text on stdout elsewhere; never anything on stderr."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        ipython.display.display({"text/plain": plain} | ({"text/html": html} if html else {}), raw=True)
        return
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(plain.encode(encoding, "replace").decode(encoding) + "\n")
