"""A class is graded once, and again only where something changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from classroom import KINDS, LESSON, MAXIMUM, fill

from ampcourse.grading.batch import grade_lesson
from ampcourse.grading.records import load_records

pytestmark = pytest.mark.usefixtures("standin")


def test_every_kind_of_submission_gets_its_score(course: Path, book: Callable[..., Any]) -> None:
    made = fill(course, len(KINDS))
    summary = grade_lesson(course, LESSON, jobs=2)
    got = {result.student: result.score for result in summary.results}
    assert got == {student: kind.score for student, kind in made.items()}
    records, rows = load_records(course, LESSON), book(course)
    assert {student: record.score for student, record in records.items()} == got
    for student, kind in made.items():
        assert rows[student].maximum == MAXIMUM == records[student].maximum
        assert rows[student].score == (kind.score or 0.0)
