"""The kinds of arguments that commands take: places, whole numbers, times, and lessons by any of their names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem


def nearest(word: str, known: Sequence[str]) -> str:
    """A suggestion for a mistyped word, as the end of a sentence; empty where nothing is near."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else ""


class Place(click.Path):
    """A file or folder. An empty name, as from a variable that is not set, would silently mean the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, readable=False)  # the commands say better what is wrong

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, with "~" replaced (no shell does that in --out=~/x); an empty one is a usage error."""
        if not str(value).strip():
            named = param.metavar or param.name if param else "path"
            raise click.UsageError(f"The name given for {str(named).strip('[]')} is empty: give a path.", ctx)
        try:
            return super().convert(value, param, ctx).expanduser()
        except RuntimeError:
            raise click.UsageError(f"'{value}' begins with the name of a user who is not known here.", ctx) from None


class Whole(click.IntRange):
    """A whole number; click's own name for it, "integer range", is none that users know."""

    name = "whole number"


class Seconds(click.FloatRange):
    """A time limit from one second to a day."""

    name = "number of seconds"

    def __init__(self) -> None:
        super().__init__(min=1, max=86_400)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds; NaN, which lies in every range for click, is refused."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return seconds


class LessonName(click.ParamType):
    """A lesson by slug, name or number; completes to slugs."""

    name = "lesson"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The slug; a word that names no lesson is a usage error with a suggestion."""
        from ampcourse.course import CourseError, load_course

        course = load_course()
        try:
            return course.lesson(str(value)).slug
        except CourseError as error:
            known = [word for lesson in course.lessons for word in (lesson.slug, lesson.name)]
            near = nearest(str(value), known)
            self.fail_plainly(f"There is no lesson '{value}'{near}" if near else str(error), ctx)

    @staticmethod
    def fail_plainly(sentence: str, ctx: click.Context | None) -> None:
        """A usage error in our own words, without click's "Invalid value for"."""
        raise click.UsageError(sentence, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The slugs that begin with what was typed; none, and no word, where the course cannot be read."""
        from ampcourse.course import CourseError, load_course

        try:
            known = load_course().lessons
        except CourseError:
            return []
        taken = set(ctx.params.get(param.name or "") or ())
        lessons = (lesson for lesson in known if lesson.slug not in taken)
        return [CompletionItem(x.slug, help=x.title) for x in lessons if x.slug.startswith(incomplete)]
