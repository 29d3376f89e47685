"""Sample submissions, graded by `nbgrader autograde`, get exactly the points that they earned."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ampcourse.course import course_root, load_course
from ampcourse.grading.release import release

SLUG = "07_mini"
CODE, WRITTEN = 6, 2
COURSE = load_course()
pytestmark = pytest.mark.sandbox
HERE = [lesson.slug for lesson in COURSE.lessons if COURSE.source(lesson).is_file()]


@pytest.mark.parametrize(
    ("student", "score"),
    [
        ("right", CODE),
        ("half", 2 + 1),
        ("untouched", 0),
        ("noisy", CODE),
        ("exceptions", 0),
        ("wrong_kernel", CODE),
        ("no_parameters", CODE),
        ("own_parameters", CODE),
        ("skipping", 0),
        ("partly", 1 + 1),
        ("no_score", 0),
        ("nan_score", 0),
        ("too_much", 0),
    ],
)
def test_the_mini_lesson_gives_exactly_the_points_earned(mini_class: Any, student: str, score: float) -> None:
    grades = mini_class.grades(SLUG)[student]
    assert (grades.score, grades.maximum) == (score, CODE + WRITTEN)


def test_nbgrader_itself_makes_the_same_release_as_we_do(mini_class: Any) -> None:
    made = mini_class.root / "release" / SLUG / f"{SLUG}.ipynb"
    by_nbgrader = made.read_bytes()
    made.unlink()
    assert release(course_root=mini_class.root)[0].read_bytes() == by_nbgrader


def test_an_instructors_own_assert_cell_counts_and_knows_the_grading_profile(mini_class: Any) -> None:
    grades = mini_class.grades(SLUG)
    assert grades["right"].points["own-test"] == 1
    assert grades["untouched"].points["own-test"] == 0


def test_a_written_answer_waits_for_a_human_and_an_untouched_one_is_zero(mini_class: Any) -> None:
    grades = mini_class.grades(SLUG)
    assert grades["right"].waiting == {"why"}
    assert grades["right"].manual
    assert not grades["untouched"].waiting
    assert grades["untouched"].points["why"] == 0


def test_export_tells_the_same_as_the_gradebook(mini_class: Any) -> None:
    rows, grades = mini_class.exported(), mini_class.grades(SLUG)
    told = {student: (float(row["score"]), float(row["max_score"])) for student, row in rows.items()}
    assert told == {student: (of.score, of.maximum) for student, of in grades.items()}


def test_feedback_is_made_for_everybody_and_shows_what_was_written_to_stderr(mini_class: Any) -> None:
    mini_class("generate_feedback", SLUG)
    pages = {path.parts[-3]: path.read_text("utf-8") for path in mini_class.root.glob("feedback/*/*/*.html")}
    assert pages.keys() == mini_class.grades(SLUG).keys()
    assert "tensorflow/core/platform" in pages["noisy"]
    assert "Not attempted yet: 0 of 2 points" in pages["no_score"]
    assert "Twice is once" not in "".join(pages.values())


def test_graded_cells_of_a_noisy_notebook_really_had_noise(mini_class: Any) -> None:
    notebook = nbformat.read(mini_class.root / "autograded" / "noisy" / SLUG / f"{SLUG}.ipynb", as_version=4)
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
    assert "a warning" in str(cells["double-check"].outputs)
    streams = [output for output in cells["own-test"].outputs if output.output_type == "stream"]
    assert "[stderr] a line on stderr" in "".join(output.text for output in streams)  # it may come in pieces
    graded = [cell for cell in cells.values() if cell.cell_type == "code" and cell.metadata.get("nbgrader")]
    assert "stderr" not in {o.name for cell in graded for o in cell.outputs if o.output_type == "stream"}


def test_a_gradebook_has_its_version_although_no_environment_is_activated(mini_class: Any) -> None:
    import sqlite3

    assert mini_class.environment["PATH"] == "/usr/bin:/bin"
    with sqlite3.connect(mini_class.root / "gradebook.db") as book:
        assert len(book.execute("select version_num from alembic_version").fetchall()) == 1


def test_a_second_run_grades_what_is_new_and_an_endless_loop_costs_its_own_question_only(
    mini_class: Any, lesson_of: Callable[..., Any]
) -> None:
    before = {student: of.points for student, of in mini_class.grades(SLUG).items()}
    notebook = lesson_of(mini_class.root, SLUG).right()
    cell = next(cell for cell in notebook.cells if cell.id == "total")
    cell.source += "\nwhile True:\n    pass"
    mini_class.submit("endless", SLUG, notebook)
    shutil.rmtree(mini_class.root / "autograded" / "half")
    said = mini_class("autograde", SLUG)
    assert said.count("Skipping existing assignment") == len(before) - 1
    after = {student: of.points for student, of in mini_class.grades(SLUG).items()}
    assert after.pop("endless") == {"double-check": 2, "total-check": 3, "own-test": 1, "why": 0}
    assert after == before


EVERY_DAY = "01_fp16_range"  # the other lessons take as long again and are graded by `make test-full`
REAL = [pytest.param(slug, marks=[] if slug == EVERY_DAY else pytest.mark.full) for slug in HERE]


@pytest.fixture(scope="module", params=REAL)
def real_class(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, grade_class: Any) -> Any:
    root = tmp_path_factory.mktemp("real") / "kurs für alle" / "notebooks"
    skipped = shutil.ignore_patterns("submitted", "autograded", "feedback", "gradebook.db*", "exchange", "*.csv")
    shutil.copytree(course_root(), root, ignore=skipped)
    nbgrader = grade_class(root, request.param)
    nbgrader.slug = request.param
    return nbgrader


def test_a_real_lessons_samples_get_exactly_the_points_earned(real_class: Any, lesson_of: Callable[..., Any]) -> None:
    lesson = lesson_of(real_class.root, real_class.slug)
    checks, grades = lesson.checks(), real_class.grades(real_class.slug)
    full = {name: points for name, (_, _, points) in checks.items()}
    nothing, half = dict.fromkeys(full, 0.0), lesson.half()[1]
    assert 0 < len(half) < len(full)
    expected = {
        "right": full,
        "noisy": full,
        "half": {name: points if name in half else 0.0 for name, points in full.items()},
        "untouched": nothing,
        "exceptions": nothing,
    }
    got = {student: {name: grades[student].points[name] for name in full} for student in expected}
    assert got == expected
    assert {grades[student].maximum for student in expected} == {COURSE.lesson(real_class.slug).points}
    assert grades["right"].waiting == set(lesson.written())
    assert not grades["untouched"].waiting
    rows = real_class.exported()
    assert {student: float(rows[student]["score"]) for student in expected} == {
        student: sum(points.values()) for student, points in expected.items()
    }


def test_a_real_lessons_feedback_is_made_for_everybody(real_class: Any) -> None:
    real_class("generate_feedback", real_class.slug)
    pages = [path.parts[-3] for path in Path(real_class.root).glob("feedback/*/*/*.html")]
    assert sorted(pages) == sorted(real_class.grades(real_class.slug))
