"""An assignment is all that a worker needs: made from any course directory, checked, and told apart by its digest."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ampcourse.course import UserError, course_root
from ampcourse.grading.assignment import assignments, make_assignment, notebooks
from ampcourse.grading.model import Assignment, GradingError
from ampcourse.grading.rounds import new_round
from ampcourse.grading.settings import Settings


def nbgrader(name: str, points: float | None = None) -> dict:
    about = {"grade_id": name, "grade": points is not None, "solution": points is None, "locked": points is not None}
    return {"nbgrader": about | {"schema_version": 3, "task": False} | ({"points": points} if points else {})}


def notebook(exercise: str = "start_here.megabytes", points: float = 2) -> nbformat.NotebookNode:
    check = f'check("{exercise}", answer)' if exercise else "assert answer() == 1"
    cells = [
        new_markdown_cell("# A lesson"),
        new_code_cell("import numpy as np\nfrom ampcourse import check", id="imports"),
        new_code_cell(
            "def answer():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION", metadata=nbgrader("a")
        ),
        new_code_cell(check, metadata=nbgrader("a-check", points)),
    ]
    return new_notebook(cells=cells)


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., Path]:
    """`plain({name: notebook})`: a plain nbgrader course directory with the assignment "hw 1"."""

    def make(found: dict[str, nbformat.NotebookNode]) -> Path:
        folder = tmp_path / "plain é" / "source" / "hw 1"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, content in found.items():
            nbformat.write(content, folder / f"{name}.ipynb")
        return folder.parents[1]

    return make


def test_a_plain_course_without_our_exercises_has_nothing_to_ask(plain: Callable[..., Path]) -> None:
    root = plain({"p1": notebook("")})
    made = make_assignment(root, "hw 1")
    assert made.asked == {}
    assert not (root / "grading").exists(), "no secret is made that nobody needs"
    assert {"__init__.py", "exercises/observe.py"} <= made.box.package.keys()
    assert made.box.preload == ("numpy",)
    assert made.box.withheld == ()
    assert not made.box.data


def test_a_plain_course_may_use_our_exercises_and_set_limits(plain: Callable[..., Path]) -> None:
    root = plain({"p1": notebook()})
    (root / "course.toml").write_text("[grading]\ncell_seconds = 7\n", "utf-8")
    made = make_assignment(root, "hw 1")
    assert list(made.asked) == ["start_here.megabytes"]
    assert len(made.asked["start_here.megabytes"].questions) == 3
    assert made.asked["start_here.megabytes"].seconds == 7
    assert made.asked["start_here.megabytes"].observer == "call"
    assert "ampcourse.numerics.formats" in made.box.withheld
    assert pickle.loads(pickle.dumps(made)).digest == made.digest


def test_several_notebooks_of_one_assignment(plain: Callable[..., Path]) -> None:
    root = plain({"p2": notebook(""), "p1": notebook()})
    assert notebooks(root, "hw 1") == ["p1", "p2"]
    with pytest.raises(GradingError, match="several notebooks"):
        make_assignment(root, "hw 1")
    first, second = assignments(root, "hw 1")
    assert (first.notebook, second.notebook) == ("p1", "p2")
    assert first.asked
    assert not second.asked
    assert make_assignment(root, "hw 1", "p2") == second
    with pytest.raises(GradingError, match="no notebook 'p3'"):
        make_assignment(root, "hw 1", "p3")


def test_files_beside_the_notebook_come_along(plain: Callable[..., Path]) -> None:
    root = plain({"p1": notebook("")})
    folder = root / "source" / "hw 1"
    (folder / "data").mkdir()
    (folder / "data" / "numbers.csv").write_bytes(b"1,2")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "p1-checkpoint.txt").write_bytes(b"x")
    (folder / ".hidden").write_bytes(b"x")
    assert make_assignment(root, "hw 1").files == {"data/numbers.csv": b"1,2"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda root: None, ""),
        (lambda root: (root / "source" / "hw 1" / "p1.ipynb").write_text("<html>"), "cannot be read"),
        (lambda root: (root / "source" / "hw 1" / "p1.ipynb").unlink(), "holds no notebook"),
        (lambda root: shutil.rmtree(root / "source"), "is not there: the instructor's notebooks are needed"),
        (lambda root: (root / "course.toml").write_text("[grading"), "cannot be read"),
        (lambda root: (root / "course.toml").write_text("[grading]\nspeed = 3"), "knows no 'speed'"),
        (lambda root: nbformat.write(notebook(points=4), root / "source" / "hw 1" / "p1.ipynb"), "make both agree"),
        (
            lambda root: nbformat.write(notebook("start_here.megabyte"), root / "source" / "hw 1" / "p1.ipynb"),
            "? If it is of your own, give its folder with --exercises.",
        ),
        (
            lambda root: nbformat.write(
                new_notebook(cells=[*notebook().cells, *notebook().cells[2:]]), root / "source" / "hw 1" / "p1.ipynb"
            ),
            "'a' is there twice",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    plain: Callable[..., Path], change: Callable[[Path], object], says: str
) -> None:
    root = plain({"p1": notebook()})
    change(root)
    if not says:
        make_assignment(root, "hw 1")
        return
    with pytest.raises(UserError) as caught:
        make_assignment(root, "hw 1")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "..", "../hw 1", "/etc", "hw 1/../hw 1", ".hidden"])
def test_a_name_that_leads_elsewhere_is_refused(plain: Callable[..., Path], name: str) -> None:
    with pytest.raises(GradingError, match="is no name of an assignment"):
        make_assignment(plain({"p1": notebook("")}), name)


def test_the_digest_changes_whenever_a_score_could(plain: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root = plain({"p1": notebook()})

    def digest(**settings: object) -> str:
        return make_assignment(root, "hw 1", settings=Settings(**settings)).digest  # type: ignore[arg-type]

    first = digest()
    assert digest() == first
    seen = {first, digest(cell_seconds=5.0), digest(memory_mib=4096)}
    (root / "source" / "hw 1" / "numbers.csv").write_bytes(b"1")
    seen.add(digest())
    new_round(root, "hw 1")
    seen.add(digest())
    changed = notebook()
    changed.cells[1].source += "\nfrom ampcourse import amp"
    nbformat.write(changed, root / "source" / "hw 1" / "p1.ipynb")
    seen.add(digest())
    assert len(seen) == 6


def test_every_lesson_of_this_course_can_be_asked_for_without_computing_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The rules hold for every source: names, points, exercises, observers that can be named."""
    from ampcourse.grading import assignment as module

    def none(_root: object, _round: object, exercises: list, *_more: object) -> dict:
        return {exercise.id: () for exercise in exercises}

    monkeypatch.setattr(module, "questions", none)
    monkeypatch.setattr(module, "_digest", lambda *_: "")
    (tmp_path / "source").symlink_to(course_root() / "source")
    shutil.copy(course_root() / "course.toml", tmp_path)
    for folder in sorted((course_root() / "source").iterdir()):
        if not folder.is_dir():
            continue
        made: Assignment = make_assignment(tmp_path, folder.name)
        assert made.asked, folder.name
        assert made.box.lesson == folder.name
