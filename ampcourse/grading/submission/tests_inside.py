"""Instructors' own test cells: they run inside the student's process, and their outcome is read by nbgrader's rule.

That rule: an error is worth nothing, a number that is the cell's result is worth itself, anything else is full points.
Made harder here: a test that did not come to its end is an error; of several numbers the smallest counts; a number out
of range, NaN, True and False are errors, because no instructor means full points by them. Hidden tests are run, but
neither their text nor what comes of it is shown.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from ampcourse.exercises.frames import clean
from ampcourse.grading.cells import about
from ampcourse.grading.model import QuestionResult
from ampcourse.grading.submission import outputs as out
from ampcourse.grading.submission.judged import DIED, FLOODED, NOT_ATTEMPTED, RAISED, RIGHT, TIMED_OUT, WRONG
from ampcourse.grading.submission.session import DIED as ENDED
from ampcourse.grading.submission.session import FLOODED as TOO_MUCH
from ampcourse.grading.submission.session import OK, TIMEOUT, Reply

BEGIN_HIDDEN, END_HIDDEN = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"
NOT_SHOWN = "# hidden tests are not shown"

_NUMPY = re.compile(r"np\.(?:float|int|uint)\d+\(([^()]+)\)")


@dataclass(frozen=True)
class Part:
    """A stretch of a test cell that is run for itself."""

    code: str
    hidden: bool = False


def parts(source: str) -> list[Part]:
    """The visible and the hidden stretches of a test cell, each of which can be run; one hidden one if they cannot."""
    found, lines, hidden = [], [], False
    for line in source.split("\n"):
        begins, ends = BEGIN_HIDDEN in line, END_HIDDEN in line
        if begins or (ends and hidden):
            found.append(Part("\n".join(lines), hidden))
            lines, hidden = [], begins
        else:
            lines.append(line)
    found.append(Part("\n".join(lines), hidden))
    if not any(part.hidden for part in found):
        return [Part(source)]
    found = [part for part in found if part.code.strip()]
    return found if all(_runs(part.code) for part in found) else [Part(source, hidden=True)]


def _runs(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True


def without_hidden(source: str) -> str:
    """A test cell's text as it may be shown."""
    lines, hidden = [], False
    for line in source.split("\n"):
        if BEGIN_HIDDEN in line:
            hidden = True
            lines.append(line[: len(line) - len(line.lstrip())] + NOT_SHOWN)
        elif hidden:
            hidden = END_HIDDEN not in line
        else:
            lines.append(line)
    return "\n".join(lines)


def read_outcome(
    cell: NotebookNode, replies: Sequence[Reply], collected: Sequence[out.Outputs], ran: Sequence[Part], number: int
) -> QuestionResult:
    """The outcome of a test cell; sets its outputs so that nbgrader reads the same from them.

    Args:
        cell: the cell, with the source's metadata.
        replies: how each part ended that was run.
        collected: the outputs of each.
        ran: the parts that were run; fewer than there are, once one has failed.
        number: the cell's execution count.
    """
    name, points = about(cell)["grade_id"], float(about(cell)["points"])
    nodes = [node for part, outputs in zip(ran, collected, strict=True) if not part.hidden for node in outputs.stored()]
    every = [node for outputs in collected for node in outputs.nodes]
    outcome, reason = _failure(replies[-1], ran[-1].hidden, every)
    score = 0.0
    if not outcome:
        score, reason = _number([n for n in every if n.output_type == "execute_result"], points)
        outcome = WRONG if score < points else RIGHT
    shown = [node for node in nodes if node.output_type not in ("execute_result", "error")]
    errors = [node for node in nodes if node.output_type == "error"]
    if outcome in (RIGHT, WRONG) and not (reason and score == 0.0):
        cell.outputs = [*shown, out.result(score, number)]
        reason = reason or ("" if score == points else f"The test gave {score:g} of {points:g} points.")
    else:
        cell.outputs = [*shown, *(errors or [out.error("TestFailed", reason)])]
    return QuestionResult(grade_id=name, kind="test", points=points, score=score, outcome=outcome, reason=clean(reason))


def _failure(reply: Reply, hidden: bool, nodes: Sequence[NotebookNode]) -> tuple[str, str]:
    """The outcome and the reason of a test that did not come to a good end; empty if it did."""
    if reply.status == TIMEOUT:
        return TIMED_OUT, "The test did not end in time."
    if reply.status == ENDED:
        return DIED, "The process ended during this test."
    if reply.status == TOO_MUCH:
        return FLOODED, "More output was sent during this test than anybody reads."
    if not reply.complete:
        return RAISED, "The outputs of this test did not come to their end."
    errors = [node for node in nodes if node.output_type == "error"]
    if reply.status == OK and not errors:
        return "", ""
    name = str(reply.content.get("ename", "")) or (errors[-1].ename if errors else "error")
    says = str(reply.content.get("evalue", "")) or (errors[-1].evalue if errors else "")
    if name == "NotImplementedError" and not says:
        return NOT_ATTEMPTED, "What it tests is not written yet."
    kind = WRONG if name == "AssertionError" else RAISED
    if hidden:
        return kind, f"A hidden test failed ({name[:80]})."
    return kind, f"The test failed: {name[:80]}{': ' + says[:300] if says else ''}."


def _number(results: Sequence[NotebookNode], points: float) -> tuple[float, str]:
    """The points that a test's results stand for, and why there are none."""
    scores = []
    for node in results:
        text = str(node.data.get("text/plain", "")).strip()
        inner = _NUMPY.fullmatch(text)
        try:
            score = float(inner[1] if inner else text)
        except ValueError:
            if text in ("True", "False", "np.True_", "np.False_"):
                return 0.0, f"The test gave {text}, which is no number of points."
            continue  # nbgrader: full points
        if not (math.isfinite(score) and 0 <= score <= points):
            return 0.0, f"The test gave {text[:40]}, which is no number of points from 0 to {points:g}."
        scores.append(score)
    return min(scores, default=points), ""
