"""What this machine recorded for a claim: results of executed notebooks, compared with the expected ranges."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampcourse.claims.claim import Claim, Test
from ampcourse.course import Course, Expected, load_course
from ampcourse.reproduce import executed
from ampcourse.reproduce.record import text_value
from ampcourse.reproduce.results import Result

Values = Mapping[tuple[str, str], Any]


@dataclass(frozen=True)
class Evidence:
    """One result that tests a claim, as recorded on this machine.

    Attributes:
        test: which lesson, cell and result.
        value: what was recorded; None if the lesson was not run here.
        expected: the range in words, "none" where nothing is expected.
        held: whether the value lies in the range; None if either is missing.
    """

    test: Test
    value: Any
    expected: str
    held: bool | None

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.test}: not recorded here yet (expected: {self.expected})"
        verdict = {True: "held", False: "NOT HELD", None: "not judged"}[self.held]
        return f"{self.test} = {text_value(self.value)} (expected: {self.expected}; {verdict})"


def recorded_results(folders: Iterable[Path | str] | None = None, course: Course | None = None) -> dict:
    """What executed notebooks recorded: (lesson, result) to value.

    Args:
        folders: where executed notebooks lie, named by their slugs; a later folder wins. By default the working
            folder, where a learner's own notebooks are, then the run that executes this notebook, if one does.
        course: this course if None.
    """
    course, found = course or load_course(), {}
    for folder in _folders() if folders is None else map(Path, folders):
        for lesson in course.lessons:
            notebook = executed.load(folder / f"{lesson.slug}.ipynb")
            for result in executed.recorded(notebook) if notebook else ():
                found[lesson.slug, result.name] = result.value
    return found


def _folders() -> list[Path]:
    run = os.environ.get(executed.EXECUTED)
    return [Path.cwd(), *([Path(run)] if run else [])]


def evidence(
    claim: Claim, values: Values | None = None, course: Course | None = None, profile: str = "cpu"
) -> tuple[Evidence, ...]:
    """What was recorded for each result that tests a claim; empty for a claim that nothing tests.

    Args:
        claim: from `ledger()`.
        values: as `recorded_results` gives them, which is called if None.
        course: this course if None.
        profile: whose expected ranges to take, "cpu" or "gpu".
    """
    course = course or load_course()
    values = recorded_results(course=course) if values is None else values
    return tuple(_evidence(test, values.get((test.lesson, test.result)), course, profile) for test in claim.tests)


def _evidence(test: Test, value: Any, course: Course, profile: str) -> Evidence:
    expected = _expected(test, course, profile)
    low, high = (expected.low, expected.high) if expected else (None, None)
    held = expected.held(value) if expected and value is not None else None
    return Evidence(test, value, Result(test.result, value, low, high, held).range, held)


def _expected(test: Test, course: Course, profile: str) -> Expected | None:
    results = course.lesson(test.lesson).expected(profile)
    return next((one for one in results if one.name == test.result), None)
