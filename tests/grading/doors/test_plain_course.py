"""An instructor's own nbgrader course: no course.toml, assert tests, several notebooks, and the exchange."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from door_markup import Seen
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ampcourse.grading.records import load_records

pytestmark = pytest.mark.sandbox

PS = "ps1"
CONFIG = """
from pathlib import Path
from ampcourse.grading import nbgrader_hooks as hooks

c = get_config()
c.CourseDirectory.course_id = "own"
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
c.Exchange.root = str(Path(__file__).resolve().parent.parent / "exchange")
c.Autograde.autograde_preprocessors = ["nbgrader.preprocessors.Execute"]
hooks.grade_with_ampcourse(c)
"""
SECRET = "assert add(20, 22) == 42, 'the hidden sum of twenty and twenty-two'"
TEST = f"assert add(1, 2) == 3\n### BEGIN HIDDEN TESTS\n{SECRET}\n### END HIDDEN TESTS"
ADD = "def add(a, b):\n    ### BEGIN SOLUTION\n    return a + b\n    ### END SOLUTION"
SCHEME = "Draw it.\n\n=== BEGIN MARK SCHEME ===\n\nOne point for the axes.\n\n=== END MARK SCHEME ==="


def about(name: str, **kind: Any) -> dict[str, Any]:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": plain | {"grade_id": name} | kind}


def first() -> Any:
    return new_notebook(
        cells=[
            new_code_cell(ADD, id="add", metadata=about("add", solution=True)),
            new_code_cell(TEST, id="test", metadata=about("test-add", grade=True, locked=True, points=2)),
            new_markdown_cell("Because.", id="why", metadata=about("why", grade=True, solution=True, points=1)),
        ]
    )


def second() -> Any:
    return new_notebook(
        cells=[
            new_code_cell("x = 1", id="given"),
            new_code_cell("assert x == 1", id="t", metadata=about("test-x", grade=True, locked=True, points=1)),
            new_markdown_cell(SCHEME, id="task", metadata=about("draw", task=True, locked=True, points=3)),
        ]
    )


def answered(answer: str, why: str = "As it is.") -> Any:
    notebook = first()
    notebook.cells[0].source, notebook.cells[2].source = answer, why
    notebook.cells[1].source = "assert add(1, 2) == 3"
    return notebook


RIGHT = "def add(a, b):\n    return a + b"
GUESSED = "def add(a, b):\n    print('asked', a, b)\n    return 3"
SPIES = (
    "import atexit\nfrom IPython import get_ipython\n"
    "get_ipython().events.register('pre_run_cell', lambda info: print(info.raw_cell))\n" + RIGHT
)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory, nbgrader_in: Callable[..., Any]) -> Any:
    root = tmp_path_factory.mktemp("plain") / "mein kürs"
    (root / "source" / PS).mkdir(parents=True)
    (root / "nbgrader_config.py").write_text(CONFIG, "utf-8")
    nbformat.write(first(), root / "source" / PS / "p1.ipynb")
    nbformat.write(second(), root / "source" / PS / "p2.ipynb")
    nbgrader = nbgrader_in(root)
    nbgrader("generate_assignment", PS)
    hand_in = {
        "right": (answered(RIGHT), second()),
        "guessed": (answered(GUESSED, "   "), None),
        "spies": (answered(SPIES), second()),
        "half_bad": (answered(RIGHT), b"{"),
    }
    for student, notebooks in hand_in.items():
        folder = root / "submitted" / student / PS
        folder.mkdir(parents=True)
        for name, notebook in zip(("p1", "p2"), notebooks, strict=True):
            if notebook is not None:
                text = notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode()
                (folder / f"{name}.ipynb").write_bytes(text)
    nbgrader.elsewhere = root.parent / "elsewhere"
    nbgrader.elsewhere.mkdir()
    nbgrader.said = nbgrader("autograde", PS, f"--course-dir={root}", code=1)
    nbgrader("generate_feedback", PS)
    return nbgrader


def test_ordinary_tests_hidden_tests_and_several_notebooks_are_graded(course: Any) -> None:
    grades = course.grades(PS)
    points = {student: found.points for student, found in grades.items()}
    assert points["right"] == {"test-add": 2, "why": 0, "test-x": 1, "draw": 0}
    assert points["guessed"]["test-add"] == 0
    assert points["guessed"]["test-x"] == 0
    assert points["half_bad"]["test-add"] == 2
    assert points["half_bad"]["test-x"] == 0
    assert grades["right"].waiting == {"why", "draw"}
    assert {found.maximum for found in grades.values()} == {7}


def test_that_tests_ran_inside_the_students_process_is_noted(course: Any) -> None:
    record = load_records(course.root, PS)["right"]
    assert any("inside the student's process" in note for note in record.notes)
    assert {q.kind for q in record.questions if q.grade_id.startswith("test")} == {"test"}


def test_settings_that_do_not_count_are_named_once(course: Any) -> None:
    assert course.said.count("c.Autograde.autograde_preprocessors are not used") == 1
    assert "Traceback" not in course.said


def page(course: Any, student: str, notebook: str) -> str:
    return (course.root / "feedback" / student / PS / f"{notebook}.html").read_text("utf-8")


@pytest.mark.parametrize("student", ["right", "guessed", "spies", "half_bad"])
def test_no_hidden_test_or_marking_scheme_shows_in_feedback(course: Any, student: str) -> None:
    for path in (course.root / "feedback" / student / PS).glob("*.html"):
        text = path.read_text("utf-8")
        assert "hidden sum" not in text
        assert "(20, 22)" not in text
        assert "asked 20 22" not in text
        assert "One point for the axes" not in text
        assert Seen(text).running() == []


def test_feedback_says_what_was_seen(course: Any) -> None:
    assert "it ran inside your notebook&#x27;s process" in page(course, "guessed", "p1").replace("'", "&#x27;")
    assert "0 of 2 points" in page(course, "guessed", "p1")
    assert "2 of 2 points" in page(course, "half_bad", "p1")
    reason = load_records(course.root, PS)["half_bad"].parts[1].reason
    assert reason in page(course, "half_bad", "p2")


def test_an_option_that_fits_no_notebook_or_student_is_told(course: Any) -> None:
    assert "has no notebook 'p9'; there are: p1, p2." in course("autograde", PS, "--notebook=p9", code=1)
    assert "no submission of 'ps1' matches 'nobody'" in course("autograde", PS, "--student=nobody", code=1)
    said = course("autograde", PS, "--no-execute", code=1)
    assert "would give full points" in said
    said = course("autograde", PS, "--student=r*", "--notebook=p1")
    assert "Skipping existing assignment: ps1, right" in said
    assert "spies" not in said


def test_feedback_reaches_a_student_through_the_exchange(course: Any, nbgrader_in: Callable[..., Any]) -> None:
    course("release_assignment", PS)
    home = course.root.parent / "student" / "course"
    home.mkdir(parents=True)
    exchange = course.root.parent / "exchange"
    (home / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.CourseDirectory.course_id = 'own'\nc.Exchange.root = {str(exchange)!r}\n"
    )
    student = nbgrader_in(home)
    student("fetch_assignment", PS)
    nbformat.write(answered(RIGHT), home / PS / "p1.ipynb")
    student("submit", PS)
    course("collect", PS)
    [who] = {path.name for path in (course.root / "submitted").iterdir()} - set(load_records(course.root, PS))
    course("autograde", PS, f"--student={who}")
    course("generate_feedback", PS, f"--student={who}")
    course("release_feedback", PS, f"--student={who}")
    student("fetch_feedback", PS)
    [fetched] = (home / PS / "feedback").glob("*/p1.html")
    assert "2 of 2 points" in fetched.read_text("utf-8")
    assert fetched.read_text("utf-8") == page(course, who, "p1")


def test_points_that_a_person_gives_and_comments_come_into_feedback(course: Any) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as book:
        grade = book.find_grade("why", "p1", PS, "right")
        grade.manual_score, grade.needs_manual_grade = 0.5, False
        comment = book.find_comment("why", "p1", PS, "right")
        comment.manual_comment = "Good, *but* see <script>x</script> [this](https://example.org)."
        book.db.commit()
    course("generate_feedback", PS, "--student=right")
    text = page(course, "right", "p1")
    assert "Question why: 0.5 of 1 points" in text
    assert '<em>but</em> see  <a href="https://example.org"' in text
    assert Seen(text).running() == []


def test_the_command_makes_the_same_pages(course: Any, copied: Callable[[Path], Path]) -> None:
    course("generate_feedback", PS)
    before = {path: path.read_bytes() for path in (course.root / "feedback").glob("*/*/*.html")}
    root = copied(course.root)
    command = [Path(sys.executable).parent / "ampcourse", "feedback", PS, "--course", root]
    ran = subprocess.run(command, env=course.environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"{len(before)} pages of feedback in" in ran.stdout
    after = {path: path.read_bytes() for path in (root / "feedback").glob("*/*/*.html")}
    assert {str(p.relative_to(root)): text for p, text in after.items()} == {
        str(p.relative_to(course.root)): text for p, text in before.items()
    }
    ran = subprocess.run([*command, "--student", "nobody"], env=course.environment, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "There is nothing graded in 'ps1' from 'nobody'" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    import shutil

    def copy_of(root: Path) -> Path:
        return shutil.copytree(root, tmp_path / "copy", ignore=shutil.ignore_patterns("feedback"))

    return copy_of


def test_a_page_is_for_screen_readers_too(course: Any) -> None:
    seen = Seen(page(course, "right", "p1"))
    assert ("html", {"lang": "en"}) in seen.elements
    levels = [int(tag[1]) for tag, _ in seen.elements if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit()]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert {"caption", "th"} <= seen.tags()
    assert all(had.get("alt") for tag, had in seen.elements if tag == "img")
    assert any(had.get("http-equiv") == "Content-Security-Policy" for tag, had in seen.elements if tag == "meta")
