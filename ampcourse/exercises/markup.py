"""A verdict as HTML: a real table with caption and headers, outcome in words and symbols, colours inherited.

It must be readable in light and dark themes, in nbgrader's feedback, and by a screen reader. Whatever the learner's
code had a hand in is escaped; there are no scripts and no style sheets.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from ampcourse.exercises.model import Criterion, Example, Exercise, Verdict

_CELL = "text-align:left;vertical-align:top;white-space:normal;padding:0.25em 0.75em;border:1px solid currentColor"
_PRE = "white-space:pre-wrap;font-family:monospace;color:inherit;background:none;margin:0.25em 0 1em"
_COLUMNS = ("Criterion", "Result", "Points", "What was seen")


def verdict_html(exercise: Exercise, verdict: Verdict, headline: str, hint: str) -> str:
    """The verdict as one HTML fragment.

    Args:
        exercise: what was asked.
        verdict: what is shown.
        headline: outcome and score in one line.
        hint: how to get a hint; empty if there is none to get.
    """
    parts = [
        f'<section aria-label="{html.escape(f"Check of {exercise.id}: {headline}")}">',
        f"<p><strong>{html.escape(headline)}</strong></p>",
        *(_paragraph(says) for says in verdict.says),
        _table(exercise, verdict),
        *_failure(verdict.example),
        *_block("Where it happened, in your code", verdict.traceback),
        *_block("Your code printed", verdict.printed.splitlines()),
        *_block("Your code warned", verdict.warned.splitlines()),
        *([_paragraph(verdict.insight)] if verdict.insight else []),
        *([f"<p>Stuck? Run <code>{html.escape(hint)}</code> in a cell of its own.</p>"] if hint else []),
        "</section>",
    ]
    return "\n".join(parts)


def hints_html(exercise: Exercise, title: str, hints: Sequence[str]) -> str:
    """One or several hints."""
    items = "\n".join(f"<p>{html.escape(h)}</p>" for h in hints)
    label = html.escape(f"Hint for {exercise.id}")
    return f'<section aria-label="{label}">\n<p><strong>{html.escape(title)}</strong></p>\n{items}\n</section>'


def _table(exercise: Exercise, verdict: Verdict) -> str:
    head = "".join(f'<th scope="col" style="{_CELL}">{column}</th>' for column in _COLUMNS)
    rows = "\n".join(_row(c, verdict.outcome == "not attempted") for c in verdict.criteria)
    return (
        '<table style="border-collapse:collapse;color:inherit;margin:0.5em 0">\n'
        f'<caption style="caption-side:top;text-align:left;color:inherit">Criteria of {html.escape(exercise.id)}'
        f"</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    )


def _row(c: Criterion, untouched: bool) -> str:
    earned = f"{c.points if c.passed else 0:g} of {c.points:g}"
    result = "○ not attempted" if untouched else "✓ passed" if c.passed else "✗ not passed"
    cells = (result, earned, c.says)
    data = "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in cells)
    return f'<tr><th scope="row" style="{_CELL}">{html.escape(c.name)}</th>{data}</tr>'


def _failure(example: Example | None) -> Iterator[str]:
    if example is None:
        return
    yield f"<p>It fails, for example, in “{html.escape(example.criterion)}”:</p>"
    pairs = [("input", example.given), ("result", example.returned)]
    pairs += [("expected", example.expected)] if example.expected else []
    entries = (f"<dt>{name}</dt><dd><code>{html.escape(value)}</code></dd>" for name, value in pairs)
    yield f'<dl style="margin:0.25em 0 1em">{"".join(entries)}</dl>'


def _block(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"<p>{html.escape(title)}:</p>"
        text = html.escape("\n".join(lines))
        yield f'<pre style="{_PRE}">{text}</pre>'


def _paragraph(text: str) -> str:
    """Prose of ours, in which backquotes mark code."""
    pieces = html.escape(text).split("`")
    if len(pieces) % 2 == 0:
        return f"<p>{html.escape(text)}</p>"
    return f"<p>{''.join(f'<code>{p}</code>' if i % 2 else p for i, p in enumerate(pieces))}</p>"
