"""Every lesson in the sandbox: right answers get full points, half right ones half, untouched ones none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from submission_samples import PATIENCE

from ampcourse.course import course_root, load_course
from ampcourse.grading.assignment import make_assignment
from ampcourse.grading.model import Submission
from ampcourse.grading.sandbox import SandboxStarter
from ampcourse.grading.settings import Settings
from ampcourse.grading.submission import grade_submission

DAILY = {"00_start_here", "01_fp16_range"}
LESSONS = [
    pytest.param(lesson, id=lesson.slug, marks=() if lesson.slug in DAILY else pytest.mark.full)
    for lesson in load_course().lessons
]


@pytest.mark.sandbox
@pytest.mark.parametrize("lesson", LESSONS)
def test_right_half_right_and_untouched(lesson: Any, tmp_path: Path, lesson_of: Callable[[Path, str], Any]) -> None:
    given = lesson_of(course_root(), lesson.slug)
    shutil.copytree(course_root() / "source" / lesson.slug, tmp_path / "source" / lesson.slug)
    shutil.copy(course_root() / "course.toml", tmp_path)
    settings = Settings(cell_seconds=60 * PATIENCE, start_seconds=90 * PATIENCE)
    assignment = make_assignment(tmp_path, lesson.slug, settings=settings)
    half, solved = given.half()
    submissions = {"right": given.right(), "half": half, "untouched": given.released}
    starter = SandboxStarter(assignment.box, settings)
    try:
        graded = {
            name: grade_submission(Submission(name, nbformat.writes(notebook).encode()), assignment, starter)
            for name, notebook in submissions.items()
        }
    finally:
        starter.close()
    for name, found in graded.items():
        points = {q.grade_id: q.points for q in found.questions if q.kind == "judged"}
        assert points.keys() == given.checks().keys()
        scores = {q.grade_id: q.score for q in found.questions if q.kind == "judged"}
        wanted = {"right": set(points), "half": set(solved), "untouched": set()}[name]
        assert scores == {q: points[q] if q in wanted else 0 for q in points}, [q for q in found.questions if q.reason]
        assert {q.outcome for q in found.questions if q.grade_id not in wanted} <= {"not attempted", "written", "wrong"}
        written = [q.score for q in found.questions if q.kind == "written"]
        assert written == [0 if name == "untouched" else None] * len(written) or name == "half"
        assert (found.status, found.restarts) == ("graded", 0), found.reason
    cells = nbformat.reads(graded["right"].notebook.decode(), as_version=4).cells
    stopped = [o.evalue for c in cells if c.cell_type == "code" for o in c.outputs if o.output_type == "error"]
    assert not stopped
