"""What came of every submission, as one JSON file a student and lesson: the mark that it is done, and why it got what.

A record is written last, after the gradebook and `autograded/`; whoever finds one with the right key need not grade
again. All files here are for the instructor alone (mode 0600), and are written whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ampcourse.grading.files import write_private
from ampcourse.grading.model import (
    FAILED,
    GRADED,
    MISSING,
    PARTLY,
    STATUSES,
    UNREADABLE,
    CriterionResult,
    Graded,
    QuestionResult,
    Submission,
)

FORM = 1  # of the files; a record of another form is not read, so that its submission is graded again
_WORST = (GRADED, PARTLY, MISSING, UNREADABLE, FAILED)


class DamagedRecord(Exception):
    """A record's file is there and cannot be read."""


@dataclass(frozen=True)
class Part:
    """What came of one notebook of a submission; most assignments have one. `written`: answers' digests, by cell."""

    notebook: str
    status: str
    reason: str = ""
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    questions: tuple[QuestionResult, ...] = ()
    seconds: float = 0.0
    restarts: int = 0
    written: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, notebook: str, graded: Graded, written: dict[str, str] | None = None) -> Part:
        """From what grading gave, without the notebook and the log."""
        same = {f.name: getattr(graded, f.name) for f in fields(cls) if f.name not in ("notebook", "written")}
        return cls(notebook=notebook, written=tuple(sorted((written or {}).items())), **same)


@dataclass(frozen=True)
class Record:
    """What came of one student's submission of one lesson.

    Attributes:
        key: changes whenever grading again could give something else; empty if it must be graded again.
        submission: digest of what was handed in; see `submission_digest`.
        assignment: digest of the assignment, its grading round included.
        when: when it was graded, ISO time in UTC.
        seconds: wall time.
        sandbox: how its kernel was started: "sandbox", "template" or "unsafe".
        log: the log file, relative to the course directory.
        late_penalty: points that nbgrader's late policy took at that time; None if none.
    """

    student: str
    lesson: str
    parts: tuple[Part, ...]
    key: str = ""
    submission: str = ""
    assignment: str = ""
    when: str = ""
    seconds: float = 0.0
    sandbox: str = ""
    log: str = ""
    late_penalty: float | None = None

    @property
    def status(self) -> str:
        """The worst of its notebooks'."""
        return max((part.status for part in self.parts), key=_WORST.index, default=MISSING)

    @property
    def reason(self) -> str:
        """The sentences of all its notebooks."""
        return " ".join(dict.fromkeys(part.reason for part in self.parts if part.reason))

    @property
    def repairs(self) -> tuple[str, ...]:
        """What was put right in the documents."""
        return tuple(repair for part in self.parts for repair in part.repairs)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the instructor should see."""
        return tuple(note for part in self.parts for note in part.notes)

    @property
    def questions(self) -> tuple[QuestionResult, ...]:
        """Every graded cell, in order."""
        return tuple(question for part in self.parts for question in part.questions)

    @property
    def score(self) -> float | None:
        """Points without what a person must mark; None if there is no score."""
        if self.status not in (GRADED, PARTLY):
            return None
        return sum(question.score or 0.0 for question in self.questions)

    @property
    def maximum(self) -> float:
        """The points that could be earned, what a person marks included; 0 if nothing could be graded."""
        return sum(question.points for question in self.questions)

    @property
    def restarts(self) -> int:
        """How often a kernel had to be started anew."""
        return sum(part.restarts for part in self.parts)

    def stale(self) -> Record:
        """The same, but to be graded again by the next run."""
        return replace(self, key="")


def work_folder(course_root: Path, kind: str, lesson: str) -> Path:
    """`grading/KIND/LESSON` below the course directory; it need not exist."""
    return Path(course_root) / "grading" / kind / lesson


def record_path(course_root: Path, lesson: str, student: str) -> Path:
    """Where a student's record of a lesson lies."""
    return work_folder(course_root, "records", lesson) / f"{student}.json"


def submission_digest(submission: Submission) -> str:
    """A digest of everything in a submission that grading looks at."""
    digest = hashlib.sha256()
    pieces: list[bytes] = [submission.student.encode("utf-8", "surrogateescape"), submission.refused.encode()]
    pieces.append(b"none" if submission.notebook is None else b"some" + submission.notebook)
    for name, content in sorted(submission.files.items()):
        pieces += [name.encode("utf-8", "surrogateescape"), content]
    pieces += [remark.encode("utf-8", "surrogateescape") for remark in submission.remarks]
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()


def joined(digests: Iterable[str]) -> str:
    """One digest of several."""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def save_record(course_root: Path, record: Record) -> None:
    """Write a record, whole or not at all."""
    content = {"form": FORM, **asdict(record), "status": record.status, "score": record.score}
    text = json.dumps(content | {"max_score": record.maximum}, indent=1, ensure_ascii=True, allow_nan=False)
    write_private(record_path(course_root, record.lesson, record.student), (text + "\n").encode())


def load_record(course_root: Path, lesson: str, student: str) -> Record | None:
    """A student's record; None if there is none.

    Raises:
        DamagedRecord: if its file cannot be read, or holds something else.
    """
    return _read(record_path(course_root, lesson, student))


def load_records(course_root: Path, lesson: str) -> dict[str, Record]:
    """All records of a lesson that can be read, by student."""
    found = {}
    for path in _files(course_root, lesson):
        with contextlib.suppress(DamagedRecord):
            if record := _read(path):
                found[record.student] = record
    return found


def damaged(course_root: Path, lesson: str) -> tuple[str, ...]:
    """The students whose record cannot be read; they are graded again by the next run."""
    students = []
    for path in _files(course_root, lesson):
        try:
            _read(path)
        except DamagedRecord:
            students.append(path.stem)
    return tuple(students)


def _files(course_root: Path, lesson: str) -> list[Path]:
    folder = work_folder(course_root, "records", lesson)
    return sorted(path for path in folder.glob("*.json") if not path.name.startswith(".")) if folder.is_dir() else []


def _read(path: Path) -> Record | None:
    try:
        content = json.loads(path.read_bytes())
        if content["form"] != FORM:
            raise ValueError("another form")
        record = Record(
            parts=tuple(_part(entry) for entry in content["parts"]),
            **{f.name: content[f.name] for f in fields(Record) if f.name != "parts"},
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRecord(f"'{path}' cannot be read: {error}.") from None
    if record.student != path.stem or record.lesson != path.parent.name:
        raise DamagedRecord(f"'{path}' is another submission's.")
    return record


def _part(entry: dict[str, Any]) -> Part:
    if entry["status"] not in STATUSES:
        raise ValueError(f"status {entry['status']!r}")
    lists = {name: tuple(entry[name]) for name in ("repairs", "notes")}
    questions = tuple(_question(question) for question in entry["questions"])
    written = tuple((str(name), str(digest)) for name, digest in entry["written"])
    return Part(**entry | lists | {"questions": questions, "written": written})


def _question(entry: dict[str, Any]) -> QuestionResult:
    criteria = tuple(CriterionResult(**criterion) for criterion in entry["criteria"])
    return QuestionResult(**entry | {"says": tuple(entry["says"]), "criteria": criteria})
