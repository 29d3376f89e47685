"""Before term: every disagreement is a cross with what to do. After grading: why somebody got these points."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ampcourse.grading.release import release

MINI = "07_mini"
SITE = Path(__file__).parents[1] / "mini" / "site"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def course(desk: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The mini course with its release; processes of ours find its answers too."""
    monkeypatch.setenv("PYTHONPATH", str(SITE))
    release(course_root=desk.place.root)
    return desk.place.root


def crosses(out: str) -> dict[str, str]:
    """What is amiss in the course, by what was looked at; what this machine lacks is another matter."""
    lines = [line[2:].split(": ", 2) for line in out.splitlines() if line.startswith("✗ ")]
    return {line[1]: line[2] for line in lines if line[0] == MINI}


def change(course: Path, wanted: str, do: Callable[[Any], None], step: str = "source") -> None:
    path = course / step / MINI / f"{MINI}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    do(next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == wanted))
    nbformat.write(notebook, path)


def test_a_course_that_fits(course: Path, commands: Run) -> None:
    _, out, _ = commands("verify", MINI)
    assert not crosses(out) and "2 exercises" in out and "8 points, as in course.toml" in out


def test_a_release_that_is_not_current(course: Path, commands: Run) -> None:
    change(course, "double-check", lambda cell: cell.update(source=cell.source + "  # changed"), "release")
    code, out, _ = commands("verify")
    assert code == 1 and list(crosses(out)) == ["release"]
    assert "Do: nbgrader generate_assignment 07_mini" in crosses(out)["release"]


def test_points_that_differ_from_the_exercise(course: Path, commands: Run) -> None:
    change(course, "double-check", lambda cell: cell.metadata.nbgrader.update(points=4))
    code, out, _ = commands("verify")
    assert code == 1 and "is worth 2" in crosses(out)["source"]


def test_a_gradebook_that_has_other_points(desk: Any, course: Path, commands: Run) -> None:
    desk.grade("ada")
    change(course, "why", lambda cell: cell.metadata.nbgrader.update(points=1))
    toml = course / "course.toml"
    toml.write_text(toml.read_text().replace("points = 8", "points = 7"))
    code, out, _ = commands("verify")
    assert code == 1 and "differ from the source: why" in crosses(out)["gradebook"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nobody", "mini.total"), "has handed in nothing"),
        (("john", "mini.total"), "not graded yet"),
        (("ada", "mini.nothing"), "No lesson asks 'mini.nothing'"),
    ],
)
def test_nothing_to_explain_is_one_sentence(desk: Any, commands: Run, words: tuple[str, str], says: str) -> None:
    desk.hand_in("john")
    code, _, err = commands("explain", *words)
    assert code == 1 and says in err and err.count("\n") == 1


def test_what_cannot_be_asked_again_is_said(desk: Any, commands: Run) -> None:
    desk.grade("ada")
    desk.grade("emmy", "unreadable", "The file is a web page.")
    code, out, err = commands("explain", "ada", "why")
    assert code == 0 and "A person marks it; it waits" in out and "has changed since" in err
    code, out, _ = commands("explain", "emmy", "why")
    assert code == 0 and "no score, unreadable. The file is a web page." in out
    desk.mark("ada", "why", 1.5)
    assert "A person gave 1.5 points" in commands("explain", "ada", "why")[1]
    assert "runs inside the student's process" in commands("explain", "ada", "own-test")[1]


def test_a_course_directory_is_made_whole_or_not_at_all(commands: Run, tmp_path: Path) -> None:
    folder = tmp_path / "kurs für alle"
    code, out, _ = commands("course", folder, course=False)
    assert code == 0 and "13 lessons" in out
    assert {one.name for one in folder.iterdir()} == {
        "course.toml",
        "nbgrader_config.py",
        "release",
        "source",
        "submitted",
    }
    code, _, err = commands("course", folder, course=False)
    assert code == 1 and "not empty" in err
    (tmp_path / "file").write_text("")
    assert commands("course", tmp_path / "file" / "inside", course=False)[0] == 1
