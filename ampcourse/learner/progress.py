"""`ampcourse progress`: which exercises are done, the points, and what comes next."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ampcourse import terminal
from ampcourse.course import Course, Lesson, load_course
from ampcourse.learner.notebook import lesson_outline


@dataclass(frozen=True)
class Standing:
    """One exercise: the best outcome so far ("not tried" before the first check), points, hints used."""

    exercise: str
    outcome: str
    score: float
    points: float
    hints: int = 0

    @property
    def done(self) -> bool:
        """Whether all points are there."""
        return self.outcome == "right" and self.score >= self.points


@dataclass(frozen=True)
class Survey:
    """All lessons in order, each with its exercises."""

    lessons: tuple[tuple[Lesson, tuple[Standing, ...]], ...]

    @property
    def next(self) -> tuple[Lesson, Standing] | None:
        """The first exercise that is not done; None when all are."""
        return next(((lesson, s) for lesson, standings in self.lessons for s in standings if not s.done), None)


def survey(course: Course | None = None) -> Survey:
    """Hold the stored progress against what the lessons ask.

    Raises:
        CourseError: if the course's own files are at fault.
    """
    from ampcourse.exercises import progress

    course = course or load_course()
    stored = progress.load()
    return Survey(tuple((lesson, _standings(course, lesson, stored)) for lesson in course.lessons))


def _standings(course: Course, lesson: Lesson, stored: dict[str, dict[str, Any]]) -> tuple[Standing, ...]:
    found = []
    for check in lesson_outline(course, lesson).checks:
        entry = stored.get(check.exercise)
        if entry is None:
            found.append(Standing(check.exercise, "not tried", 0.0, check.points))
        else:
            # A checker that was rebuilt may give other points than the one that stored this: never more than all.
            score = min(float(entry["score"]), check.points)
            found.append(Standing(check.exercise, entry["outcome"], score, check.points, int(entry["hints"])))
    return tuple(found)


def report(surveyed: Survey, as_json: bool = False) -> None:
    """Print the survey as a table or as JSON."""
    if as_json:
        terminal.say(json.dumps(_as_dict(surveyed), indent=2))
        return
    points = terminal.points
    rows: list[tuple[object, ...]] = []
    for lesson, standings in surveyed.lessons:
        earned, possible = sum(s.score for s in standings), sum(s.points for s in standings)
        done = f"{sum(s.done for s in standings)} of {len(standings)} done"
        rows.append((lesson.slug, done, f"{points(earned)} of {points(possible)}", ""))
        for s in standings:
            hints = f"{s.hints} hint{'s' * (s.hints > 1)} used" if s.hints else ""
            rows.append((f"  {s.exercise}", s.outcome, f"{points(s.score)} of {points(s.points)}", hints))
    terminal.table(("lesson and exercise", "outcome", "points", ""), rows)
    terminal.say()
    terminal.say(_next(surveyed))


def _next(surveyed: Survey) -> str:
    standings = [s for _, many in surveyed.lessons for s in many]
    total = f"{terminal.points(sum(s.score for s in standings))} of {terminal.points(sum(s.points for s in standings))}"
    if surveyed.next is None:
        return f"All exercises are done: {total} points."
    lesson, standing = surveyed.next
    if all(s.outcome == "not tried" for s in standings):
        return f"Nothing is checked yet. Begin with {lesson.slug}: 'ampcourse start' puts the lessons into a folder."
    return f"{total} points so far. Next: {standing.exercise} in {lesson.slug} ({lesson.title})."


def _as_dict(surveyed: Survey) -> dict[str, Any]:
    lessons = [
        {
            "lesson": lesson.slug,
            "score": sum(s.score for s in standings),
            "max": sum(s.points for s in standings),
            "exercises": [
                {"id": s.exercise, "outcome": s.outcome, "score": s.score, "max": s.points, "hints": s.hints}
                for s in standings
            ],
        }
        for lesson, standings in surveyed.lessons
    ]
    upcoming = surveyed.next
    return {"lessons": lessons, "next": upcoming[1].exercise if upcoming else None}
