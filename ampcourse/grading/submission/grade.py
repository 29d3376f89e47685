"""One submission in, its result out: nothing else is read or written, so it can be done anywhere and again."""

from __future__ import annotations

import copy
import functools
import time

import nbformat
from nbformat import NotebookNode

from ampcourse.grading.document import Unreadable, repair
from ampcourse.grading.model import (
    FAILED,
    GRADED,
    MISSING,
    PARTLY,
    UNREADABLE,
    Assignment,
    Graded,
    GradingError,
    Starter,
    Submission,
)
from ampcourse.grading.submission.run import run_notebook


def grade_submission(
    submission: Submission, assignment: Assignment, starter: Starter, *, examples: bool = True
) -> Graded:
    """Repair a submission's notebook, run it, judge it.

    Args:
        submission: what was handed in.
        assignment: what was asked.
        starter: starts the kernels.
        examples: whether feedback may show the input on which an answer fails, and what was printed there.

    Raises:
        BrokenExercise: if an exercise is at fault, which is nobody's zero.
    """
    began = time.monotonic()
    if submission.refused:
        return Graded(UNREADABLE, submission.refused, repairs=submission.remarks)
    if submission.notebook is None:
        return Graded(MISSING, f"There is no '{assignment.notebook}.ipynb' in the submission.")
    try:
        repaired = repair(submission.notebook, instructors(assignment.source))
    except Unreadable as error:
        return Graded(UNREADABLE, str(error), repairs=submission.remarks)
    repairs = (*submission.remarks, *repaired.repairs)
    try:
        ran = run_notebook(repaired, assignment, starter, files=submission.files, examples=examples)
    except GradingError as error:
        return Graded(FAILED, str(error), repairs=repairs, seconds=time.monotonic() - began)
    partly = " ".join(reason for reason in (*repaired.troubles, ran.partly) if reason)
    return Graded(
        PARTLY if partly else GRADED,
        partly,
        written(ran.notebook),
        repairs,
        ran.notes,
        ran.questions,
        ran.log,
        time.monotonic() - began,
        ran.restarts,
    )


def instructors(source: bytes) -> NotebookNode:
    """The instructor's notebook; a copy that may be changed."""
    return copy.deepcopy(_parsed(source))


@functools.lru_cache(maxsize=8)
def _parsed(source: bytes) -> NotebookNode:
    return nbformat.reads(source.decode("utf-8"), as_version=4)


def written(notebook: NotebookNode) -> bytes:
    """The notebook as bytes, valid.

    Raises:
        GradingError: if it is not, which is the grader's own fault.
    """
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        raise GradingError(f"The graded notebook is not valid: {str(error)[:300]}") from None
    return (nbformat.v4.writes(notebook, ensure_ascii=False) + "\n").encode("utf-8")
