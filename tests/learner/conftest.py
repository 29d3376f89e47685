"""A course of two small lessons, made afresh for each test."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from ampcourse.course import Course, load_course

TOML = """
[course]
title = "A small course"
[[lesson]]
slug = "01_tiny"
title = "Tiny"
summary = "One."
objectives = ["count"]
minutes = 5
points = 3
cpu_seconds = 10
gpu_seconds = 10
[[lesson]]
slug = "02_small"
title = "Small"
summary = "Two."
objectives = ["count"]
minutes = 5
points = 1
cpu_seconds = 10
gpu_seconds = 10
"""


def hand_out(course: Course, slug: str, text: str) -> None:
    """Make `text` the released notebook of a lesson."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text, id="only")])
    path = course.root / "release" / slug / f"{slug}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(notebook) + "\n", "utf-8")


@pytest.fixture
def small_course(tmp_path: Path) -> Course:
    root = tmp_path / "course" / "notebooks"
    root.mkdir(parents=True)
    (root / "course.toml").write_text(TOML, "utf-8")
    course = load_course(root)
    for lesson in course.lessons:
        hand_out(course, lesson.slug, f"# {lesson.title}")
    return course
