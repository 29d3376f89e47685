"""Who has what, what needs a person, and why: for a terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ampcourse.grading import decisions
from ampcourse.grading.decisions import Decision
from ampcourse.grading.desk.survey import ALL_STATUSES, NOT_GRADED, Row
from ampcourse.grading.model import FAILED, MISSING, UNREADABLE
from ampcourse.terminal import points, say, table

_NAMED = 5  # students named on one line; --json has them all


@dataclass(frozen=True)
class Need:
    """Something that a person must do, with the students whom it concerns."""

    lesson: str
    what: str
    why: str
    students: tuple[str, ...]


@dataclass(frozen=True)
class Status:
    """The state of one or more lessons.

    Attributes:
        lessons: those in which there is anything to tell.
        rows: everybody in each of them.
        needs: what a person must do.
        decided: questions that count as right for everybody.
    """

    lessons: tuple[str, ...]
    rows: tuple[Row, ...]
    needs: tuple[Need, ...]
    decided: tuple[Decision, ...]

    @property
    def done(self) -> bool:
        """Whether nobody need do anything."""
        return not self.needs


def status(rows: Sequence[Row], decided: Sequence[Decision] = ()) -> Status:
    """What the rows of a survey mean for a person."""
    lessons = tuple(dict.fromkeys(row.lesson for row in rows))
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for what, why in _needs(row):
            found.setdefault((row.lesson, what, why), []).append(row.student)
    needs = tuple(Need(*key, students=tuple(students)) for key, students in found.items())
    order = {lesson: i for i, lesson in enumerate(lessons)}
    return Status(lessons, tuple(rows), tuple(sorted(needs, key=lambda n: order[n.lesson])), tuple(decided))


def _needs(row: Row) -> list[tuple[str, str]]:
    found = []
    if row.status == NOT_GRADED:
        found.append(("grade", "not graded yet"))
    elif row.changed:
        found.append(("grade", "handed in again since it was graded"))
    if row.attention:
        found.append(({UNREADABLE: "ask", FAILED: "mend"}.get(row.status, "look"), row.attention))
    if row.waiting:
        found.append(("mark", f"written answers wait for a mark: {', '.join(sorted(row.waiting))}"))
    return found


_TODO = {
    "grade": "ampcourse grade {lesson}",
    "ask": "ask for it again",
    "mend": "mend, grade again",
    "look": "read it",
    "mark": "formgrader",
}


def as_json(found: Status) -> str:
    """Everything, for other programs."""
    content = {
        "done": found.done,
        "lessons": {lesson: _counts(found, lesson) for lesson in found.lessons},
        "submissions": [_plain(row) for row in found.rows],
        "needs": [vars(need) | {"students": list(need.students)} for need in found.needs],
        "full_points": [
            {name: getattr(d, name) for name in ("lesson", "notebook", "question", "reason", "date", "user")}
            for d in found.decided
        ],
    }
    return json.dumps(content, indent=1)


def _plain(row: Row) -> dict[str, Any]:
    names = ("lesson", "status", "reason", "score", "max_score", "late_penalty", "needs_manual", "changed")
    plain = {"student_id": row.student} | {name: getattr(row, name) for name in names}
    return plain | {"waiting": list(row.waiting), "seconds_late": row.late}


def _counts(found: Status, lesson: str) -> dict[str, int]:
    rows = [row for row in found.rows if row.lesson == lesson]
    counts = {status: sum(row.status == status for row in rows) for status in ALL_STATUSES}
    counts["handed in"] = len(rows) - counts[MISSING]
    counts["changed since"] = sum(row.changed for row in rows)
    counts["late"] = sum(row.late > 0 for row in rows)
    return counts


def show(found: Status, everybody: bool = False) -> None:
    """Print the totals, with `everybody` a line for each submission, and what a person must do."""
    if not found.lessons:
        say("Nothing was handed in yet.")
        return
    columns = ["handed in", *ALL_STATUSES, "changed since", "late"]
    counts = {lesson: _counts(found, lesson) for lesson in found.lessons}
    used = [column for column in columns if column == "handed in" or any(counts[one][column] for one in counts)]
    table(["lesson", *used], [[lesson, *(counts[lesson][column] for column in used)] for lesson in found.lessons])
    if everybody:
        say()
        table(
            ("student", "lesson", "status", "points", "of", "late penalty", "reason"),
            [
                (
                    row.student,
                    row.lesson,
                    row.status,
                    "" if row.score is None else points(row.score),
                    points(row.max_score),
                    points(row.late_penalty) if row.late_penalty else "",
                    row.reason,
                )
                for row in found.rows
            ],
        )
    for decision in found.decided:
        say()
        by = " ".join(part for part in (decision.date[:10], decision.user) if part)
        say(f"{decision.lesson}: {decisions.sentence(decision)} ({by})")
    say()
    if found.done:
        say("Nothing waits for a person.")
        return
    say("What waits:")
    table(
        ("lesson", "students", "who", "do", "what"),  # what may be long, and stands last so that it pushes nothing away
        [
            (need.lesson, len(need.students), _who(need), _TODO[need.what].format(lesson=need.lesson), need.why)
            for need in found.needs
        ],
    )


def _who(need: Need) -> str:
    named = ", ".join(need.students[:_NAMED])
    more = len(need.students) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
