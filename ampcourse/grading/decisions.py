"""Questions that turned out to be faulty and count as right for everybody: `grading/decisions.toml` of a course.

A decision changes nobody's record of what judging gave. It is applied where scores are written, each time, and can be
taken back: then what was judged counts again, and so do the points that a person had given before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import getpass
import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ampcourse.grading.files import private_folder, write_private
from ampcourse.grading.model import GradingError

FILE = Path("grading") / "decisions.toml"

_HEAD = """\
# Questions that count as right for everybody, with the reason. `ampcourse full-points` writes this file, applies it to
# what is graded already, and with --undo takes a decision back. `before` holds points that a person had given by hand.
"""


@dataclass(frozen=True)
class Decision:
    """One question that counts as right for everybody who handed in a notebook that could be graded.

    Attributes:
        lesson: nbgrader's assignment id.
        question: the graded cell's grade_id.
        reason: why, in the instructor's words.
        notebook: the notebook's name, where an assignment has several that use the same grade_id; empty: any.
        date: when it was decided, as ISO 8601 with the offset from UTC.
        user: who decided it, by the name on this machine.
        before: points that a person had given by hand and that were raised, by student.
    """

    lesson: str
    question: str
    reason: str
    notebook: str = ""
    date: str = ""
    user: str = ""
    before: Mapping[str, float] = field(default_factory=dict)

    def concerns(self, notebook: str, question: str) -> bool:
        """Whether this is about that graded cell."""
        return question == self.question and self.notebook in ("", notebook)


def decide(lesson: str, question: str, reason: str, notebook: str = "") -> Decision:
    """A decision made now by the user of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run under a user id without a name
        user = str(os.getuid())
    return Decision(lesson, question, reason, notebook, datetime.now(UTC).isoformat(timespec="seconds"), user)


def sentence(decision: Decision) -> str:
    """What a student, or a reader of the export, is told."""
    return f"'{decision.question}' counts as right for everybody: {decision.reason}"


def load(course_root: Path, lesson: str | None = None) -> tuple[Decision, ...]:
    """The decisions of a course, or those about one lesson; none if the file does not exist.

    Raises:
        GradingError: if the file cannot be read: scores must not be written without what was decided.
    """
    path = Path(course_root) / FILE
    try:
        entries = tomllib.loads(path.read_text("utf-8")).get("full_points", [])
        found = tuple(_decision(entry) for entry in entries)
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GradingError(f"'{path}' cannot be read ({error}): mend it by hand, or put an older copy back.") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GradingError(f"'{path}' has an entry that is no decision ({error}): mend it by hand.") from None
    return found if lesson is None else tuple(d for d in found if d.lesson == lesson)


def applying(decided: Sequence[Decision], notebook: str, question: str) -> Decision | None:
    """The decision about a graded cell, if there is one."""
    return next((decision for decision in decided if decision.concerns(notebook, question)), None)


def raise_to_full(grade: Any, decided: Sequence[Decision]) -> bool:
    """Give a grade of nbgrader's full points if that was decided; whether it was. Points given by hand stay.

    To be called where an automatic score has just been set, before the transaction is committed.
    """
    if applying(decided, grade.notebook.name, grade.name) is None:
        return False
    grade.auto_score = float(grade.max_score)
    grade.needs_manual_grade = False
    return True


def add(course_root: Path, decision: Decision) -> None:
    """Record a decision; one about the same question is replaced, and keeps the points given by hand before.

    Raises:
        GradingError: if the file cannot be read or written; then it is as it was.
    """
    with _changing(course_root) as kept:
        old = [d for d in kept if _same(d, decision)]
        before = {student: points for d in old for student, points in d.before.items()} | dict(decision.before)
        kept[:] = [d for d in kept if not _same(d, decision)]
        kept.append(dataclasses.replace(decision, before=before))


def remove(course_root: Path, decision: Decision) -> None:
    """Forget a decision; nothing happens if there is none about this question.

    Raises:
        GradingError: if the file cannot be read or written; then it is as it was.
    """
    with _changing(course_root) as kept:
        kept[:] = [d for d in kept if not _same(d, decision)]


def _same(one: Decision, other: Decision) -> bool:
    return (one.lesson, one.notebook, one.question) == (other.lesson, other.notebook, other.question)


def _decision(entry: Mapping[str, Any]) -> Decision:
    before = {str(student): float(points) for student, points in entry.get("before", {}).items()}
    texts = {name: str(entry.get(name, "")) for name in ("notebook", "date", "user")}
    return Decision(str(entry["lesson"]), str(entry["question"]), str(entry["reason"]), before=before, **texts)


@contextlib.contextmanager
def _changing(course_root: Path) -> Iterator[list[Decision]]:
    """The decisions as a list to change; written back at the end, while nobody else can change them."""
    path = Path(course_root) / FILE
    try:
        with (private_folder(path.parent) / "decisions.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = list(load(course_root))
            yield kept
            write_private(path, (_HEAD + "".join(map(_entry, kept))).encode())
    except OSError as error:
        raise GradingError(f"'{path}' cannot be written ({error.strerror}); it is as it was.") from None


def _entry(decision: Decision) -> str:
    names = ("lesson", "notebook", "question", "reason", "date", "user")
    always = ("lesson", "question", "reason")
    lines = [
        f"{name} = {_text(getattr(decision, name))}" for name in names if name in always or getattr(decision, name)
    ]
    if decision.before:
        lines += ["[full_points.before]", *(f"{_text(s)} = {float(p)!r}" for s, p in sorted(decision.before.items()))]
    return "\n".join(["", "[[full_points]]", *lines, ""])


def _text(text: str) -> str:
    """A TOML string. JSON writes the same, but for one character."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
