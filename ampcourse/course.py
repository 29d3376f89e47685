"""The lesson list, read from `course.toml`: order, titles, times, points and the results that a run must reproduce."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROFILES = ("cpu", "gpu")
_PACKAGE = Path(__file__).resolve().parent


class UserError(Exception):
    """A mistake that the user can mend: one sentence that says what was wrong, where, and what to do."""


class CourseError(UserError):
    """The course's own files are missing, unreadable or contradict each other."""


@dataclass(frozen=True)
class Expected:
    """The range in which a recorded result must lie; both ends are included."""

    name: str
    low: float
    high: float
    profiles: tuple[str, ...] = PROFILES

    def held(self, value: Any) -> bool:
        """Whether a recorded value lies in the range; text and NaN never do."""
        try:
            return self.low <= float(value) <= self.high
        except (TypeError, ValueError):
            return False


@dataclass(frozen=True)
class Lesson:
    """One lesson as `course.toml` describes it; times in minutes for people, in seconds for machines."""

    slug: str
    title: str
    summary: str
    objectives: tuple[str, ...]
    minutes: int
    prerequisites: tuple[str, ...]
    points: float
    cpu_seconds: float
    gpu_seconds: float
    results: tuple[Expected, ...]
    bfloat16_heavy: bool = False  # most of its time goes into bfloat16, slow where the processor lacks it
    last: bool = False  # it reads what the others recorded, so that it runs when they have ended

    @property
    def number(self) -> str:
        """The two digits before the name."""
        return self.slug.partition("_")[0]

    @property
    def name(self) -> str:
        """The slug without its number; exercise ids start with it."""
        return self.slug.partition("_")[2]

    def budget(self, profile: str) -> float:
        """Seconds that the lesson may take under a profile; a run is stopped at twice that."""
        return self.gpu_seconds if profile == "gpu" else self.cpu_seconds

    def expected(self, profile: str) -> tuple[Expected, ...]:
        """The results that a run under this profile must record."""
        return tuple(result for result in self.results if profile in result.profiles)


@dataclass(frozen=True)
class Course:
    """All lessons in order, and the folder that holds them."""

    title: str
    root: Path
    lessons: tuple[Lesson, ...]

    def lesson(self, wanted: str) -> Lesson:
        """The lesson with this slug, name or number.

        Raises:
            CourseError: if there is none; the sentence lists those there are.
        """
        for lesson in self.lessons:
            if wanted in (lesson.slug, lesson.name, lesson.number, str(int(lesson.number))):
                return lesson
        known = ", ".join(lesson.slug for lesson in self.lessons)
        raise CourseError(f"There is no lesson '{wanted}'; choose from: {known}.")

    def source(self, lesson: Lesson) -> Path:
        """The notebook with solutions; it exists only in a clone."""
        return self.root / "source" / lesson.slug / f"{lesson.slug}.ipynb"

    def release(self, lesson: Lesson) -> Path:
        """The notebook that learners open, without solutions."""
        return self.root / "release" / lesson.slug / f"{lesson.slug}.ipynb"


def course_root() -> Path:
    """The clone's `notebooks/` where the package lies in a clone, else the copy that travels in the wheel.

    Raises:
        CourseError: if neither is there.
    """
    for root in (_PACKAGE.parent / "notebooks", _PACKAGE / "_bundled" / "notebooks"):
        if (root / "course.toml").is_file():
            return root
    raise CourseError("The course's notebooks were not found beside the package: install ampcourse again.")


def load_course(root: Path | None = None) -> Course:
    """Read `course.toml` from a course directory (default: this course's own).

    Raises:
        CourseError: if the file is missing, is not TOML, or lacks or contradicts something.
    """
    root = Path(root) if root is not None else course_root()
    path = root / "course.toml"
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CourseError(f"'{path}' does not exist: name a folder that holds a course.toml.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CourseError(f"'{path}' cannot be read: {error}.") from None
    try:
        lessons = tuple(_lesson(entry) for entry in content["lesson"])
        course = Course(str(content["course"]["title"]), root, lessons)
    except KeyError as error:
        raise CourseError(f"'{path}' lacks the entry {error}.") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CourseError(f"'{path}' has an entry of the wrong kind: {error}.") from None
    _agree(course, path)
    return course


def _lesson(entry: Mapping[str, Any]) -> Lesson:
    number, _, name = entry["slug"].partition("_")
    if not (number.isdigit() and len(number) == 2 and name.isidentifier()):
        raise ValueError(f"slug {entry['slug']!r} is not two digits, an underscore and a name")
    return Lesson(
        slug=entry["slug"],
        title=entry["title"],
        summary=entry["summary"],
        objectives=tuple(entry["objectives"]),
        minutes=int(entry["minutes"]),
        prerequisites=tuple(entry.get("prerequisites", ())),
        points=float(entry["points"]),
        cpu_seconds=_seconds(entry, "cpu_seconds"),
        gpu_seconds=_seconds(entry, "gpu_seconds"),
        results=tuple(_expected(result) for result in entry.get("result", ())),
        bfloat16_heavy=bool(entry.get("bfloat16_heavy", False)),
        last=bool(entry.get("last", False)),
    )


def _seconds(entry: Mapping[str, Any], name: str) -> float:
    """A time that a machine can take; a run is stopped after twice that."""
    seconds = float(entry[name])
    if not 0 < seconds < math.inf:
        raise ValueError(f"{name} is {seconds:g}, not a time above 0")
    return seconds


def _expected(entry: Mapping[str, Any]) -> Expected:
    low, high = float(entry.get("low", -math.inf)), float(entry.get("high", math.inf))
    if not low <= high:
        raise ValueError(f"result {entry['name']!r}: low {low} is above high {high}")
    profiles = tuple(entry.get("profiles", PROFILES))
    if unknown := set(profiles) - set(PROFILES):
        raise ValueError(f"result {entry['name']!r}: unknown profile {sorted(unknown)[0]!r}")
    return Expected(str(entry["name"]), low, high, profiles)


def _agree(course: Course, path: Path) -> None:
    """What single entries cannot show: slugs twice, results twice, prerequisites that come later or never."""
    seen: set[str] = set()
    if not course.lessons:
        raise CourseError(f"'{path}' has no lesson.")
    for lesson in course.lessons:
        if lesson.slug in seen:
            raise CourseError(f"'{path}' has the lesson '{lesson.slug}' twice.")
        if missing := [p for p in lesson.prerequisites if p not in seen]:
            raise CourseError(f"'{path}': '{lesson.slug}' asks for '{missing[0]}', which does not come before it.")
        names = [result.name for result in lesson.results]
        if twice := [name for name in names if names.count(name) > 1]:
            raise CourseError(f"'{path}': '{lesson.slug}' expects '{twice[0]}' twice.")
        seen.add(lesson.slug)
