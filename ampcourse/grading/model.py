"""What grading passes from hand to hand: an assignment, a submission, what came of it. Plain data that can be pickled.

The trusted side makes all of it. What comes out of a student's process is bytes, and becomes one of these only after it
has been judged outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ampcourse.course import UserError
from ampcourse.exercises.engine import Question
from ampcourse.grading.settings import Settings

GRADED, PARTLY, UNREADABLE, FAILED, MISSING = "graded", "partly", "unreadable", "failed", "missing"
STATUSES = (GRADED, PARTLY, UNREADABLE, FAILED, MISSING)
"""graded: every question has its right score. partly: the same, and something deserves a look (a question timed out, a
cell could not be matched). unreadable: the file is no notebook; there is no score. failed: the grader's own fault; no
score either. missing: nothing was handed in."""


class GradingError(UserError):
    """Grading cannot go on; the sentence says what is wrong, where, and what to do."""


@dataclass(frozen=True)
class Box:
    """What a student's process finds of the course: nothing that answers.

    Attributes:
        lesson: the assignment's slug.
        package: path below the package folder ("exercises/observe.py") to the file's bytes: `ampcourse` as it is there.
        withheld: dotted names of what is left out because it would answer; asking for it raises a sentence.
        preload: heavy modules worth loading once for all submissions ("tensorflow", "keras", "matplotlib.pyplot").
        data: whether the embedded data is needed.
    """

    lesson: str
    package: Mapping[str, bytes]
    withheld: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    data: bool = False


@dataclass(frozen=True)
class Asked:
    """One exercise as it is asked in one grading round: everything that judging needs, references included.

    Attributes:
        exercise: the id.
        observer: the observer's name, as `observe` takes it ("call", "loss_scaling.train_scaled").
        questions: one for each seed of the round; each carries `packed`, `want` and `mistakes`, already computed.
        seconds: time limit for observing one question.
    """

    exercise: str
    observer: str
    questions: tuple[Question, ...]
    seconds: float


@dataclass(frozen=True)
class Assignment:
    """One notebook of one lesson in one grading round: all that a worker needs, on this machine or another.

    Attributes:
        lesson: nbgrader's assignment id, a slug of the course.
        notebook: the notebook's name without suffix; for lessons of this course the slug.
        source: the instructor's notebook, as bytes.
        files: the assignment's other files (path to bytes); they win over files of the same name in a submission.
        asked: by exercise id.
        box: what the student's process may see.
        settings: limits and times.
        digest: changes whenever a score could.
    """

    lesson: str
    notebook: str
    source: bytes
    files: Mapping[str, bytes]
    asked: Mapping[str, Asked]
    box: Box
    settings: Settings
    digest: str


@dataclass(frozen=True)
class Submission:
    """What a student handed in for one notebook, already read safely; never changed.

    Attributes:
        student: nbgrader's student id.
        notebook: the file's bytes, whatever they are; None if there is none.
        files: other small regular files beside it, by relative path.
        remarks: what was noticed while reading ("'data.bin' was left out: 2.0 GB, at most 20 MB are taken").
        refused: why the notebook itself could not be taken (too large, a link, a folder), as one sentence; else "".
    """

    student: str
    notebook: bytes | None
    files: Mapping[str, bytes] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class CriterionResult:
    """One line of a verdict, without any value that is not the student's own."""

    name: str
    points: float
    passed: bool
    says: str = ""


@dataclass(frozen=True)
class QuestionResult:
    """What one graded cell is worth and why.

    Attributes:
        grade_id: nbgrader's name of the cell.
        kind: "judged" (outside the student's process), "test" (the instructor's own test cell, run inside it), or
            "written" (a person marks it).
        exercise: the exercise's id; empty unless judged.
        score: points; None where a person must mark.
        points: the most that can be earned.
        outcome: "right", "wrong", "raised", "not attempted", "timed out", "died", "flooded", "no answer cell" or
            "written".
        reason: one sentence for the student where points are missing; no hidden value.
        says: the messages of the mistakes recognised.
        criteria: points by criterion.
    """

    grade_id: str
    kind: str
    points: float
    score: float | None
    outcome: str
    exercise: str = ""
    reason: str = ""
    says: tuple[str, ...] = ()
    criteria: tuple[CriterionResult, ...] = ()


@dataclass(frozen=True)
class Graded:
    """What came of one submission.

    Attributes:
        notebook: the executed notebook, whose outputs give nbgrader these very scores; b"" if there is no score.
        status: one of `STATUSES`.
        reason: one sentence, empty if the status is "graded".
        repairs: what was put right in the document, one sentence each.
        notes: what the instructor should see (forbidden functions used, tests run inside the student's process).
        questions: every graded cell of the source, in order.
        log: lines for the submission's log file.
        seconds: wall time.
        restarts: how often the kernel had to be started anew.
    """

    status: str
    reason: str = ""
    notebook: bytes = b""
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    questions: tuple[QuestionResult, ...] = ()
    log: tuple[str, ...] = ()
    seconds: float = 0.0
    restarts: int = 0

    @property
    def score(self) -> float | None:
        """Points earned without what a person must mark; None if there is no score."""
        return sum(q.score or 0.0 for q in self.questions) if self.status in (GRADED, PARTLY) else None


class Kernel(Protocol):
    """A running kernel of one submission, seen from the trusted side."""

    connection: Mapping[str, Any]
    """Jupyter's connection info as the trusted side must dial it: transport "ipc", ip, the five ports, key,
    signature_scheme."""

    def alive(self) -> bool:
        """Whether its first process still runs."""

    def reason(self) -> str:
        """Why it ended, in words for the student ("it used more than 2 GiB of memory"); empty if it has not, or where
        nobody knows."""

    def stop(self) -> None:
        """End everything that it started and remove its folders, now; may be called again."""


class Starter(Protocol):
    """A way to start kernels for the submissions of one assignment."""

    name: str
    """"sandbox", "template" or "unsafe"."""

    def start(self, files: Mapping[str, bytes], profile: str = "grade") -> Kernel:
        """Start a kernel whose working folder holds these files; it may not be ready to answer yet.

        Raises:
            GradingError: if no kernel can be started here.
        """

    def close(self) -> None:
        """End whatever is kept running; may be called again."""
