"""A course of one small lesson, sample submissions made from any lesson, and `nbgrader` to grade them."""

from __future__ import annotations

import ast
import copy
import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ampcourse.course import course_root
from ampcourse.exercises import answers, check
from ampcourse.grading.cells import BEGIN, END, about, checked_exercise
from ampcourse.grading.release import release

HERE = Path(__file__).parent
MINI = "07_mini"
COURSE_TOML = """
[course]
title = "Mini"

[[lesson]]
slug = "07_mini"
title = "Mini"
summary = "Two exercises, a test of the instructor's own, a question."
objectives = ["try the graders"]
minutes = 5
points = 8
cpu_seconds = 10
gpu_seconds = 10
"""
DOUBLE = """def double(x):
    ### BEGIN SOLUTION
    result_of_doubling = 2 * x
    return result_of_doubling
    ### END SOLUTION"""
TOTAL = """def total(x):
    ### BEGIN SOLUTION
    return np.sum(np.asarray(x))
    ### END SOLUTION"""
OWN_TEST = (
    "import os\n"
    "assert profile == 'grade' == os.environ.get('AMPCOURSE_PROFILE')\n"
    "assert list(double(np.arange(2))) == [0, 2]\n"
    "### BEGIN HIDDEN TESTS\n"
    "assert double(21) == 42\n"
    "### END HIDDEN TESTS"
)


def graded(name: str, **kind: Any) -> dict[str, Any]:
    plain = {"grade": False, "solution": False, "locked": False, "schema_version": 3, "grade_id": name}
    return {"nbgrader": plain | kind}


def mini_notebook() -> nbformat.NotebookNode:
    cells = [
        new_markdown_cell("# Mini", id="title"),
        new_code_cell('profile = "cpu"\nseed = 0', id="parameters", metadata={"tags": ["parameters"]}),
        new_code_cell("import numpy as np\nfrom ampcourse import check", id="imports"),
        new_code_cell(DOUBLE, id="double", metadata=graded("double", solution=True)),
        new_code_cell(
            'check("mini.double", double)',
            id="double-check",
            metadata=graded("double-check", grade=True, locked=True, points=2),
        ),
        new_markdown_cell("Twice is once and once.", id="twice", metadata={"tags": ["interpretation"]}),
        new_code_cell(TOTAL, id="total", metadata=graded("total", solution=True)),
        new_code_cell(
            'check("mini.total", total)',
            id="total-check",
            metadata=graded("total-check", grade=True, locked=True, points=3),
        ),
        new_code_cell(OWN_TEST, id="own", metadata=graded("own-test", grade=True, locked=True, points=1)),
        new_markdown_cell("Why twice?", id="question"),
        new_markdown_cell(
            "Because it is the model answer.", id="why", metadata=graded("why", grade=True, solution=True, points=2)
        ),
    ]
    metadata = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}}
    return new_notebook(cells=cells, metadata=metadata)


def make_course(folder: Path) -> Path:
    """A course directory with the mini lesson's source and this course's own nbgrader_config.py."""
    (folder / "source" / MINI).mkdir(parents=True)
    (folder / "course.toml").write_text(COURSE_TOML, "utf-8")
    shutil.copy(course_root() / "nbgrader_config.py", folder)
    nbformat.write(mini_notebook(), folder / "source" / MINI / f"{MINI}.ipynb")
    return folder


@pytest.fixture(scope="module")
def _mini_answers() -> Iterator[None]:
    answers.__path__.append(str(HERE / "mini" / "answers"))
    check.forget()
    yield
    answers.__path__.remove(str(HERE / "mini" / "answers"))
    sys.modules.pop("ampcourse.exercises.answers.mini", None)
    check.forget()


@pytest.fixture(scope="session")
def make_mini() -> Callable[[Path], Path]:
    return make_course


@pytest.fixture
def mini(tmp_path: Path, _mini_answers: None) -> Path:
    return make_course(tmp_path / "notebooks")


@dataclass
class Lesson:
    """Source and release of one lesson, and the submissions that tests make of them."""

    source: nbformat.NotebookNode
    released: nbformat.NotebookNode

    def solutions(self) -> dict[str, str]:
        """The solved text of every answer cell, without the markers, in order."""
        cells = [cell for cell in self.source.cells if about(cell).get("solution")]
        return {about(cell)["grade_id"]: _without_markers(cell.source) for cell in cells}

    def checks(self) -> dict[str, tuple[str, str, float]]:
        """For every check cell: the answer cell before it, the name that is checked, the points."""
        found, answer = {}, ""
        for cell in self.source.cells:
            if about(cell).get("solution"):
                answer = about(cell)["grade_id"]
            if about(cell).get("grade") and cell.cell_type == "code" and checked_exercise(cell.source):
                name = ast.unparse(ast.parse(cell.source).body[0].value.args[1])
                found[about(cell)["grade_id"]] = (answer, name, float(about(cell)["points"]))
        return found

    def written(self) -> list[str]:
        return [
            about(c)["grade_id"] for c in self.source.cells if c.cell_type == "markdown" and about(c).get("solution")
        ]

    def filled(self, wanted: Callable[[str], str | None]) -> nbformat.NotebookNode:
        """The release with the answer cells' text replaced where `wanted(grade_id)` gives one."""
        notebook = copy.deepcopy(self.released)
        for cell in notebook.cells:
            if about(cell).get("solution") and (text := wanted(about(cell)["grade_id"])) is not None:
                cell.source = text
        return notebook

    def right(self) -> nbformat.NotebookNode:
        return self.filled(self.solutions().get)

    def half(self) -> tuple[nbformat.NotebookNode, list[str]]:
        """Every second exercise solved, and those that its solution calls; and the check cells with full points."""
        answers, checks = self.solutions(), self.checks()
        made = {name: answer for answer, name, _ in checks.values()}
        solved = {answer for answer, _, _ in list(checks.values())[::2]}
        while used := {made[word] for cell in solved for word in made if _uses(answers[cell], word)} - solved:
            solved |= used
        notebook = self.filled(lambda name: answers[name] if name in solved else None)
        return notebook, [check for check, (answer, _, _) in checks.items() if answer in solved]

    def noisy(self) -> nbformat.NotebookNode:
        notebook = self.filled(self._noisy)
        notebook.cells.insert(0, new_code_cell(NOISE, id="noise"))
        return notebook

    def _noisy(self, answer_cell: str) -> str:
        names = [name for answer, name, _ in self.checks().values() if answer == answer_cell]
        return self.solutions()[answer_cell] + "".join(f"\n{name} = noisy({name})" for name in names)

    def exceptions(self) -> nbformat.NotebookNode:
        names = {answer: name for answer, name, _ in self.checks().values()}
        stops = "def {0}(*args, **options):\n    raise ValueError('no such luck')"
        notebook = self.filled(lambda cell: stops.format(names[cell]) if cell in names else None)
        notebook.cells.insert(2, new_code_cell("1 / 0", id="stops"))
        return notebook


NOISE = """\
import functools, os, sys, warnings
from IPython import get_ipython

def make_noise(*_):
    print("a line on stderr", file=sys.stderr)
    warnings.warn("a warning")
    os.write(2, b"2026-01-01 00:00:00.000000: I tensorflow/core/platform/cpu_feature_guard.cc:210] optimized\\n")

def noisy(answer):
    if isinstance(answer, type):
        return answer
    @functools.wraps(answer)
    def wrapped(*args, **options):
        make_noise()
        return answer(*args, **options)
    return wrapped

make_noise()
get_ipython().events.register("pre_run_cell", make_noise)
"""


def _uses(source: str, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(ast.parse(source)))


def _without_markers(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if BEGIN not in line and END not in line)


class Nbgrader:
    """Plain `nbgrader` commands in a course directory, as an instructor types them without an activated environment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("AMPCOURSE", "JUPYTER", "VIRTUAL_ENV"))}
        home = root.parent / "home"
        home.mkdir(exist_ok=True)
        private = {"HOME": home, "AMPCOURSE_HOME": home, "PYTHONPATH": HERE / "mini" / "site"}
        self.environment = keep | {k: str(v) for k, v in private.items()} | {"PATH": "/usr/bin:/bin"}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        command = [str(Path(sys.executable).parent / "nbgrader"), *arguments]
        ran = subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert ran.returncode == code, ran.stdout[-3000:] + ran.stderr[-6000:]
        return ran.stdout + ran.stderr

    def submit(self, student: str, slug: str, notebook: nbformat.NotebookNode | bytes) -> None:
        folder = self.root / "submitted" / student / slug
        folder.mkdir(parents=True)
        text = notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode()
        (folder / f"{slug}.ipynb").write_bytes(text)

    def grades(self, slug: str) -> dict[str, SimpleNamespace]:
        """For each student: score, maximum, what needs a human, and every graded cell's (points, needs a human)."""
        from nbgrader.api import Gradebook

        found = {}
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as book:
            for submission in book.assignment_submissions(slug):
                cells = {g.name: (g.score, g.needs_manual_grade) for n in submission.notebooks for g in n.grades}
                found[submission.student.id] = SimpleNamespace(
                    score=submission.score,
                    maximum=submission.max_score,
                    manual=submission.needs_manual_grade,
                    points={name: score for name, (score, _) in cells.items()},
                    waiting={name for name, (_, waits) in cells.items() if waits},
                )
        return found

    def exported(self) -> dict[str, dict[str, str]]:
        self("export", "--to", "grades.csv")
        with (self.root / "grades.csv").open(encoding="utf-8", newline="") as file:
            return {row["student_id"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def grade_class() -> Callable[[Path, str], Nbgrader]:
    """Grade the five sample submissions, and any more, of a lesson with nbgrader."""

    def run(root: Path, slug: str, more: Callable[[Lesson], dict[str, Any]] = lambda _: {}) -> Nbgrader:
        lesson, nbgrader = read_lesson(root, slug), Nbgrader(root)
        samples = {
            "right": lesson.right(),
            "half": lesson.half()[0],
            "untouched": (root / "release" / slug / f"{slug}.ipynb").read_bytes(),
            "noisy": lesson.noisy(),
            "exceptions": lesson.exceptions(),
        }
        for student, notebook in (samples | more(lesson)).items():
            nbgrader.submit(student, slug, notebook)
        nbgrader("generate_assignment", slug)
        nbgrader.said = nbgrader("autograde", slug)
        return nbgrader

    return run


def read_lesson(root: Path, slug: str) -> Lesson:
    source, released = (root / step / slug / f"{slug}.ipynb" for step in ("source", "release"))
    return Lesson(nbformat.read(source, as_version=4), nbformat.read(released, as_version=4))


@pytest.fixture(scope="module")
def lesson_of() -> Callable[[Path, str], Lesson]:
    return read_lesson


@pytest.fixture(scope="module")
def nbgrader_in() -> type[Nbgrader]:
    return Nbgrader


@pytest.fixture(scope="module")
def mini_class(
    tmp_path_factory: pytest.TempPathFactory, _mini_answers: None, grade_class: Callable[..., Nbgrader]
) -> Nbgrader:
    """The mini lesson's class, graded once for all tests, at a path with a space and a letter beyond ASCII."""
    root = make_course(tmp_path_factory.mktemp("mini") / "kurs für alle" / "notebooks")
    with (root / "course.toml").open("a") as file:
        file.write("\n[grading]\ncell_seconds = 8\n")
    release(course_root=root)
    return grade_class(root, MINI, odd_submissions)


def odd_submissions(lesson: Lesson) -> dict[str, Any]:
    """What students do to notebooks that must not change how they are graded."""
    wrong_kernel = lesson.right()
    wrong_kernel.metadata = {"kernelspec": {"name": "my-conda", "display_name": "x", "language": "python"}}
    no_parameters = lesson.right()
    no_parameters.cells = [cell for cell in no_parameters.cells if cell.id != "parameters"]
    own_parameters = lesson.right()
    own_parameters.cells[1].source = 'profile = "gpu"\nseed = "mine"\nraise SystemExit'
    skipping = copy.deepcopy(lesson.released)
    for cell in skipping.cells:
        cell.metadata["tags"] = ["skip-execution", "raises-exception"]
    partly = lesson.filled({"double": "def double(x):\n    return 2 * abs(x)"}.get)
    no_score = copy.deepcopy(lesson.released)
    no_score.cells.insert(3, new_code_cell("check = print", id="none"))
    nan_score = copy.deepcopy(lesson.released)
    nan_score.cells.insert(3, new_code_cell("check = lambda *_: float('nan')", id="nan"))
    too_much = copy.deepcopy(lesson.released)
    too_much.cells.insert(3, new_code_cell("check = lambda *_: 100.0", id="much"))
    return {
        "wrong_kernel": wrong_kernel,
        "no_parameters": no_parameters,
        "own_parameters": own_parameters,
        "skipping": skipping,
        "partly": partly,
        "no_score": no_score,
        "nan_score": nan_score,
        "too_much": too_much,
    }
