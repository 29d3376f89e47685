"""The unit of work of a batch: one student's submission, and what came of it. Pure: it writes nothing anywhere."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import nbformat

from ampcourse.exercises.model import BrokenExercise
from ampcourse.grading.cells import about, checked_exercise
from ampcourse.grading.model import (
    FAILED,
    MISSING,
    PARTLY,
    Assignment,
    Graded,
    GradingError,
    QuestionResult,
    Starter,
    Submission,
)

Grader = Callable[[Submission, Assignment, Starter], Graded]
GRADER = "ampcourse.grading.submission:grade_submission"


@dataclass(frozen=True)
class Work:
    """One student's submission: for each notebook of the assignment what was handed in for it."""

    student: str
    submissions: tuple[Submission, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing was handed in for any notebook."""
        return all(one.notebook is None and not one.refused for one in self.submissions)


@dataclass(frozen=True)
class Done:
    """What came of it: for each notebook, in the same order. `broken`: an exercise of the course itself is."""

    student: str
    graded: tuple[Graded, ...] = ()
    broken: str = ""

    @classmethod
    def failed(cls, work: Work, reason: str, log: Sequence[str] = ()) -> Done:
        """Where the grader itself could not do it."""
        return cls(work.student, tuple(Graded(FAILED, reason, log=tuple(log)) for _ in work.submissions))


def load_grader(name: str) -> Grader:
    """The function that grades one notebook, by "module:function"."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def grade_work(work: Work, assignments: Sequence[Assignment], starters: Sequence[Starter], grader: Grader) -> Done:
    """Grade one student's notebooks one after the other. Whatever goes wrong becomes the reason of that notebook."""
    graded = []
    for submission, assignment, starter in zip(work.submissions, assignments, starters, strict=True):
        try:
            graded.append(grader(submission, assignment, starter))
        except BrokenExercise as error:
            return Done(work.student, broken=str(error))
        except GradingError as error:
            graded.append(Graded(FAILED, str(error)))
        except Exception as error:  # a fault of ours; it must cost nobody else's score
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300].rstrip(".")
            reason = f"The grader itself failed on '{assignment.notebook}' ({said}); its log has the details."
            graded.append(Graded(FAILED, reason, log=tuple(traceback.format_exc().splitlines())))
    return Done(work.student, _agreed(graded, assignments))


def _agreed(graded: Sequence[Graded], assignments: Sequence[Assignment]) -> tuple[Graded, ...]:
    """Of several notebooks one may be missing: then it is worth nothing and the others are worth what they are."""
    if all(one.status == MISSING for one in graded):
        return tuple(graded)
    return tuple(
        replace(
            one,
            status=PARTLY,
            reason=one.reason or f"The notebook '{assignment.notebook}' was not handed in.",
            questions=_nothing(assignment),
        )
        if one.status == MISSING
        else one
        for one, assignment in zip(graded, assignments, strict=True)
    )


def _nothing(assignment: Assignment) -> tuple[QuestionResult, ...]:
    """0 of its points for every question of a notebook that is not there, so that the maximum stays what it is."""
    reason = f"The notebook '{assignment.notebook}' was not handed in."
    results = []
    for cell in nbformat.reads(assignment.source.decode("utf-8"), as_version=4).cells:
        if about(cell).get("grade") or about(cell).get("task"):
            exercise = checked_exercise(cell.source) if cell.cell_type == "code" else None
            written = about(cell).get("solution") or about(cell).get("task") or cell.cell_type != "code"
            kind = "written" if written else "judged" if exercise else "test"
            name, points = about(cell)["grade_id"], float(about(cell).get("points", 0))
            results.append(QuestionResult(name, kind, points, 0.0, "no answer cell", exercise or "", reason))
    return tuple(results)
