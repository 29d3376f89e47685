"""A course of two small lessons, made afresh for each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

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


ANSWERS = """
from ampcourse.exercises.model import Exercise, Mistake

def inputs(rng):
    return {"whole": (int(rng.integers(1, 1000)),), "negative": (-int(rng.integers(1, 1000)),)}

EXERCISES = (
    Exercise("tiny.double", inputs, lambda x: 2 * x, {"whole": 1, "negative": 1}, mistakes=(Mistake(abs, "No."),)),
    Exercise("tiny.square", lambda rng: {"any": (int(rng.integers(2, 99)),)}, lambda x: x * x, {"any": 1}),
)
"""


def solution(name: str, body: str = "    # YOUR CODE HERE\n    raise NotImplementedError()") -> NotebookNode:
    """The cell in which learners write, with nbgrader's metadata."""
    nbgrader = {"grade": False, "solution": True, "locked": False, "grade_id": name, "schema_version": 3}
    return nbformat.v4.new_code_cell(f"def {name}(x):\n{body}", id=name, metadata={"nbgrader": nbgrader})


def check_cell(name: str, points: float) -> NotebookNode:
    """The locked cell that checks what was written."""
    nbgrader = {"grade": True, "solution": False, "locked": True, "points": points, "grade_id": f"{name}-check"}
    metadata = {"nbgrader": nbgrader | {"schema_version": 3}}
    return nbformat.v4.new_code_cell(f'check("tiny.{name}", {name})', id=f"{name}-check", metadata=metadata)


def written_cell() -> NotebookNode:
    """A question that a person marks."""
    nbgrader = {"grade": True, "solution": True, "locked": False, "points": 2, "grade_id": "why", "schema_version": 3}
    return nbformat.v4.new_markdown_cell("YOUR ANSWER HERE", id="why", metadata={"nbgrader": nbgrader})


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the answers of the lesson `tiny`, made part of the course's answers for this process."""
    import ampcourse.exercises.answers
    from ampcourse.exercises import check

    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "tiny.py").write_text(ANSWERS)
    monkeypatch.setattr(ampcourse.exercises.answers, "__path__", [*ampcourse.exercises.answers.__path__, str(folder)])
    caches = (check._load, check._question)
    for cache in caches:
        cache.cache_clear()
    yield folder
    sys.modules.pop("ampcourse.exercises.answers.tiny", None)
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def tiny(small_course: Course, answers: Path) -> NotebookNode:
    """The released notebook of the lesson `tiny`, as learners get it; its first cell makes the answers known there."""
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Tiny", id="head"),
            nbformat.v4.new_code_cell(
                f"import ampcourse.exercises.answers as course\ncourse.__path__.append({str(answers)!r})\n"
                "from ampcourse import check",
                id="imports",
            ),
            nbformat.v4.new_code_cell('profile = "cpu"\nseed = 0', id="parameters", metadata={"tags": ["parameters"]}),
            solution("double"),
            check_cell("double", 2),
            solution("square"),
            check_cell("square", 1),
            written_cell(),
        ]
    )
    path = small_course.root / "release" / "01_tiny" / "01_tiny.ipynb"
    path.write_text(nbformat.writes(notebook) + "\n", "utf-8")
    return notebook


@pytest.fixture
def small_course(tmp_path: Path) -> Course:
    root = tmp_path / "course" / "notebooks"
    root.mkdir(parents=True)
    (root / "course.toml").write_text(TOML, "utf-8")
    course = load_course(root)
    for lesson in course.lessons:
        hand_out(course, lesson.slug, f"# {lesson.title}")
    return course
