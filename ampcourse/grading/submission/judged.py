"""From observations to points: the verdict, what the student is told, and the outputs from which nbgrader reads it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from nbformat import NotebookNode

from ampcourse.exercises import view
from ampcourse.exercises.engine import judge
from ampcourse.exercises.frames import clean
from ampcourse.exercises.markup import verdict_html
from ampcourse.exercises.model import BrokenExercise, Criterion, Exercise, Verdict
from ampcourse.grading.model import Asked, CriterionResult, QuestionResult
from ampcourse.grading.submission.observed import Observed
from ampcourse.grading.submission.outputs import result, shown

RIGHT, WRONG, RAISED, NOT_ATTEMPTED = "right", "wrong", "raised", "not attempted"
TIMED_OUT, DIED, FLOODED, NO_CELL, WRITTEN = "timed out", "died", "flooded", "no answer cell", "written"


@dataclass(frozen=True)
class Judged:
    """A question's result, and what its cell shows."""

    result: QuestionResult
    outputs: tuple[NotebookNode, ...]


def judged(
    grade_id: str, points: float, asked: Asked, seen: Observed, number: int, examples: bool = True, why: str = ""
) -> Judged:
    """Judge what was observed.

    Args:
        grade_id: nbgrader's name of the cell.
        points: the most that the cell gives.
        asked: the exercise.
        seen: what came back.
        number: the cell's execution count.
        examples: whether a failing input, and what the student's code printed, may be shown.
        why: what ended the process, in words, if that is known.

    Raises:
        BrokenExercise: if the reference fails, which is nobody's zero.
    """
    exercise = asked.questions[0].exercise
    if seen.missing:
        return told(grade_id, points, exercise, NOT_ATTEMPTED, f"The name `{seen.missing}` is not defined.", number)
    if seen.stopped:
        says = f"It stopped with {clean(seen.stopped, 200)}."
        return told(grade_id, points, exercise, RAISED, says, number)
    if seen.trouble:
        says = _TROUBLE[seen.trouble].format(asked.seconds, f": {why}" if why else "")
        return told(grade_id, points, exercise, seen.trouble, says, number)
    verdict = _verdict(seen)
    if not examples:
        verdict = dataclasses.replace(verdict, example=None, printed="")
    timed_out = any(c.says.startswith("still running") for c in verdict.criteria)
    outcome = TIMED_OUT if timed_out and verdict.outcome == RAISED else verdict.outcome
    return _with_verdict(grade_id, points, exercise, verdict, outcome, _reason(verdict, outcome), number)


_TROUBLE = {
    TIMED_OUT: "It was still running after {0:g} seconds.",
    DIED: "It ended the process that it ran in{1}.",
    FLOODED: "It sent more output than anybody reads.",
}


def told(grade_id: str, points: float, exercise: Exercise, outcome: str, reason: str, number: int) -> Judged:
    """A question without an observation: no points, and why."""
    criteria = tuple(Criterion(name, worth, False) for name, worth in exercise.points.items())
    kind = NOT_ATTEMPTED if outcome in (NOT_ATTEMPTED, NO_CELL) else RAISED
    verdict = Verdict(kind, criteria, says=(reason,))
    return _with_verdict(grade_id, points, exercise, verdict, outcome, reason, number)


def _verdict(seen: Observed) -> Verdict:
    try:
        return judge(seen.questions, seen.observations, None, reveal=False)
    except BrokenExercise:
        raise
    except Exception:  # whatever was sent, it costs this question only
        return judge(seen.questions, [b""] * len(seen.questions), None, reveal=False)


def _reason(verdict: Verdict, outcome: str) -> str:
    if outcome == RIGHT:
        return ""
    if outcome == NOT_ATTEMPTED:
        return "The answer cell is as it was given out."
    if verdict.says:
        return verdict.says[0]
    failed = [c for c in verdict.criteria if not c.passed and c.says != "the same again"]
    return "; ".join(f"{c.name}: {c.says}" for c in failed[:3])[:500]


def _with_verdict(
    grade_id: str, points: float, exercise: Exercise, verdict: Verdict, outcome: str, reason: str, number: int
) -> Judged:
    score = min(verdict.score, float(points))
    headline = _headline(verdict, outcome)
    text = "\n".join([headline, *view.text(exercise, verdict).splitlines()[1:]])
    found = QuestionResult(
        grade_id=grade_id,
        kind="judged",
        points=float(points),
        score=score,
        outcome=outcome,
        exercise=exercise.id,
        reason=reason,
        says=tuple(verdict.says),
        criteria=tuple(CriterionResult(c.name, c.points, c.passed, c.says) for c in verdict.criteria),
    )
    return Judged(found, (shown(text, verdict_html(exercise, verdict, headline, "")), result(score, number)))


_HEADLINES = {
    TIMED_OUT: "! Your code did not end in time",
    DIED: "! Your code ended the process that it ran in",
    FLOODED: "! Your code sent more output than anybody reads",
    NO_CELL: "○ The answer's cell is missing",
}


def _headline(verdict: Verdict, outcome: str) -> str:
    if outcome in _HEADLINES:
        return f"{_HEADLINES[outcome]}: {verdict.score:g} of {verdict.max_score:g} points"
    return view.headline(verdict)
