"""What is told while a class is graded, and at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ampcourse.grading.model import FAILED, GRADED, MISSING, PARTLY, UNREADABLE
from ampcourse.grading.records import Record

Tell = Callable[[str, str], None]
"""Takes a level ("info", "warning" or "error") and a sentence."""


@dataclass(frozen=True)
class Result:
    """What came of one student's submission. `graded`: in this run; otherwise it was up to date, or could not be."""

    student: str
    status: str
    reason: str
    score: float | None
    maximum: float
    graded: bool
    late_penalty: float | None = None

    @classmethod
    def of(cls, record: Record, graded: bool) -> Result:
        """From a record."""
        told = (record.student, record.status, record.reason, record.score, record.maximum)
        return cls(*told, graded, record.late_penalty)

    @property
    def needs_help(self) -> bool:
        """Whether there is no score for a technical reason."""
        return self.status in (UNREADABLE, FAILED)


@dataclass(frozen=True)
class Summary:
    """What came of a run.

    Attributes:
        lesson: the assignment.
        results: everybody's, in the order of their ids.
        told: (student, sentence) of what else there is to know.
        seconds: wall time.
        sandbox: how kernels were started; empty if none was.
        interrupted: whether the run was ended before everybody was graded; `left` were not.
    """

    lesson: str
    results: tuple[Result, ...]
    told: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    sandbox: str = ""
    interrupted: bool = False
    left: int = 0

    @property
    def graded(self) -> int:
        """How many were graded in this run."""
        return sum(result.graded for result in self.results)

    @property
    def up_to_date(self) -> int:
        """How many were not, because nothing had changed."""
        return sum(not result.graded and result.status != FAILED for result in self.results)

    @property
    def problems(self) -> tuple[Result, ...]:
        """The submissions without a score that somebody must see to."""
        return tuple(result for result in self.results if result.needs_help)

    @property
    def ok(self) -> bool:
        """Whether every submission has a score."""
        return not self.problems and not self.interrupted

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "lesson": self.lesson,
            "graded": self.graded,
            "up_to_date": self.up_to_date,
            "problems": len(self.problems),
            "seconds": round(self.seconds, 3),
            "sandbox": self.sandbox,
            "interrupted": self.interrupted,
            "left": self.left,
            "told": [{"student": student, "sentence": sentence} for student, sentence in self.told],
            "results": [asdict(result) for result in self.results],
        }

    def lines(self) -> list[str]:
        """The last lines that a person reads."""
        count = {status: sum(r.status == status for r in self.results) for status in (PARTLY, MISSING)}
        scored = sum(result.graded and not result.needs_help for result in self.results)
        parts = [f"{scored} graded", f"{self.up_to_date} up to date"]
        parts += [f"{len(self.problems)} without a score"] if self.problems else []
        parts += [f"{count[PARTLY]} with a remark"] if count[PARTLY] else []
        parts += [f"{count[MISSING]} without a notebook"] if count[MISSING] else []
        pace = f", {self.graded / self.seconds * 60:.0f} a minute" if self.graded and self.seconds > 0 else ""
        lines = [f"{self.lesson}: {', '.join(parts)}, in {self.seconds:.1f} s{pace}."]
        if self.interrupted:
            lines.append(f"Interrupted with {self.left} left: the same command goes on from here.")
        return lines


class Watcher:
    """Is told how a run goes; this one keeps silent."""

    def begin(self, total: int, up_to_date: int) -> None:
        """So many are to be graded, and so many need not be."""

    def finished(self, record: Record) -> None:
        """A submission has been graded and written."""

    def say(self, level: str, sentence: str) -> None:
        """There is something to know."""

    def close(self) -> None:
        """The run has ended, well or not; may be called again."""


class Telling(Watcher):
    """Passes sentences on to a function."""

    def __init__(self, tell: Tell) -> None:
        self.say = tell  # type: ignore[method-assign]

    def finished(self, record: Record) -> None:
        """A line for each submission; those without a score as errors."""
        said = f"{record.student}: {record.status}"
        said += f", {record.score:g} of {record.maximum:g}" if record.score is not None else ""
        said += f". {record.reason}" if record.reason else ""
        self.say({GRADED: "info", PARTLY: "warning", MISSING: "warning"}.get(record.status, "error"), said)
