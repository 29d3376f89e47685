"""`ampcourse check`: passes what is right, and nothing else, whatever has become of the notebook."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from ampcourse.course import Course
from ampcourse.exercises import progress
from ampcourse.learner.notebook import Cell, NotebookError, answered, lesson_outline, read_cells
from ampcourse.learner.plan import plan
from ampcourse.learner.selfcheck import Result, check_notebook, report

from .conftest import solution

RIGHT = {"double": "    return 2 * x", "square": "    return x * x"}


@pytest.fixture
def solved(tiny: NotebookNode) -> NotebookNode:
    """The lesson with right answers."""
    notebook = copy.deepcopy(tiny)
    for name, body in RIGHT.items():
        cell(notebook, name).source = solution(name, body).source
    return notebook


@pytest.fixture
def run(small_course: Course, tmp_path: Path) -> Callable[..., Result]:
    def run(notebook: NotebookNode, name: str = "01_tiny.ipynb", timeout: float | None = None) -> Result:
        path = tmp_path / "with space ü" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(notebook), "utf-8")
        before = path.read_bytes()
        result = check_notebook(path, timeout=timeout, course=small_course)
        assert path.read_bytes() == before
        assert [p.name for p in path.parent.iterdir()] == [name]
        return result

    return run


def cell(notebook: NotebookNode, name: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == name)


def without(notebook: NotebookNode, *names: str) -> NotebookNode:
    notebook.cells = [cell for cell in notebook.cells if cell.id not in names]
    return notebook


def outcomes(result: Result) -> dict[str, str]:
    return {row.exercise.partition(".")[2]: row.outcome for row in result.rows}


ALL_RIGHT = {"double": "right", "square": "right"}


def test_a_right_notebook_passes_under_any_name(solved: NotebookNode, run: Callable[..., Result]) -> None:
    result = run(solved, name="copy (1).ipynb")
    assert result.passed
    assert result.lesson.slug == "01_tiny"
    assert [(row.exercise, row.score, row.points) for row in result.rows] == [
        ("tiny.double", 2, 2),
        ("tiny.square", 1, 1),
    ]


def test_an_untouched_notebook_does_not_pass(tiny: NotebookNode, run: Callable[..., Result]) -> None:
    result = run(tiny)
    assert not result.passed
    assert outcomes(result) == dict.fromkeys(ALL_RIGHT, "not attempted")
    assert result.troubles == ()


def test_a_wrong_and_a_partly_right_answer_are_named(solved: NotebookNode, run: Callable[..., Result]) -> None:
    cell(solved, "double").source = "def double(x):\n    return 2 * abs(x)"
    cell(solved, "square").source = "def square(x):\n    return 1 / 0"
    result = run(solved)
    assert not result.passed
    assert outcomes(result) == {"double": "wrong", "square": "raised"}
    assert [row.score for row in result.rows] == [1, 0]


def no_check_cell(notebook: NotebookNode) -> None:
    without(notebook, "double-check", "square-check")


def edited_check_cell(notebook: NotebookNode) -> None:
    cell(notebook, "double-check").source = "4.0"
    cell(notebook, "square-check").source = "print('right: 1 of 1 points')"


def check_cell_turned_to_text(notebook: NotebookNode) -> None:
    cell(notebook, "double-check").cell_type = "markdown"


def shadowed_check(notebook: NotebookNode) -> None:
    cell(notebook, "imports").source += "\ncheck = lambda *a: 4.0"


def replaced_in_the_package(notebook: NotebookNode) -> None:
    cell(notebook, "imports").source += "\nimport ampcourse\nampcourse.check = lambda *a: 4.0"


def check_of_another_answer(notebook: NotebookNode) -> None:
    right = 'check("tiny.double", lambda x: 2 * x); check("tiny.square", lambda x: x * x)'
    notebook.cells += [nbformat.v4.new_code_cell(right)]
    cell(notebook, "double-check").source = right


def lost_metadata(notebook: NotebookNode) -> None:
    for c in notebook.cells:
        c.metadata = {}


def strange_metadata(notebook: NotebookNode) -> None:
    for c in notebook.cells:
        c.metadata["tags"] = ["skip-execution"]
        c.metadata["execution"] = {"timeout": 0}


def inflated_points(notebook: NotebookNode) -> None:
    cell(notebook, "double-check").metadata.nbgrader.points = 0


def copied_check_cell(notebook: NotebookNode) -> None:
    notebook.cells.insert(0, copy.deepcopy(cell(notebook, "double-check")))


def split_answer(notebook: NotebookNode) -> None:
    first, second = cell(notebook, "double"), copy.deepcopy(cell(notebook, "double"))
    first.source, second.id = "factor = 2", "half"
    notebook.cells.insert(notebook.cells.index(first) + 1, second)
    no_check_cell(notebook)


MANY = (
    edited_check_cell,
    shadowed_check,
    replaced_in_the_package,
    inflated_points,
    copied_check_cell,
    strange_metadata,
)


@pytest.mark.parametrize("disturb", [no_check_cell, check_of_another_answer, lost_metadata, "many"])
def test_what_happens_to_check_cells_changes_no_verdict(
    solved: NotebookNode, run: Callable[..., Result], disturb: Callable[[NotebookNode], None] | str
) -> None:
    """One exercise right, one wrong: the wrong one stays wrong, the right one right."""
    cell(solved, "square").source = "def square(x):\n    return x"
    for one in MANY if disturb == "many" else (disturb,):
        one(solved)
    result = run(solved)
    assert outcomes(result) == {"double": "right", "square": "wrong"}
    assert not result.passed


@pytest.mark.parametrize("disturb", [*MANY, no_check_cell, check_cell_turned_to_text, lost_metadata, split_answer])
def test_the_courses_checks_run_once_each_after_the_answer(
    solved: NotebookNode, small_course: Course, tmp_path: Path, disturb: Callable[[NotebookNode], None]
) -> None:
    disturb(solved)
    (tmp_path / "x.ipynb").write_text(json.dumps(solved), "utf-8")
    planned = plan(read_cells(tmp_path / "x.ipynb"), lesson_outline(small_course, small_course.lesson("tiny")))
    checks = {item.check.exercise: i for i, item in enumerate(planned) if item.check}
    assert len(checks) == len([item for item in planned if item.check]) == 2
    for name in ALL_RIGHT:
        assert [i for i, item in enumerate(planned) if "return" in item.code and name in item.code][-1] < checks[
            f"tiny.{name}"
        ]


def test_all_disturbances_together_still_pass_when_right(solved: NotebookNode, run: Callable[..., Result]) -> None:
    for disturb in MANY:
        disturb(solved)
    assert run(solved).passed


def test_a_deleted_answer_is_missed_by_name(solved: NotebookNode, run: Callable[..., Result]) -> None:
    result = run(without(solved, "double", "double-check"))
    assert outcomes(result) == {"double": "raised", "square": "right"}
    assert "'double' is not defined" in result.rows[0].note


def test_an_empty_notebook_with_the_lessons_name_does_not_pass(run: Callable[..., Result], tiny: NotebookNode) -> None:
    result = run(nbformat.v4.new_notebook(), name="01_tiny.ipynb")
    assert not result.passed
    assert len(result.rows) == 2


def test_an_exercise_that_the_notebook_does_not_check_is_not_passed(
    solved: NotebookNode, run: Callable[..., Result], small_course: Course
) -> None:
    path = small_course.root / "release" / "01_tiny" / "01_tiny.ipynb"
    path.write_text(nbformat.writes(without(nbformat.read(path, 4), "square-check")), "utf-8")
    result = run(solved)
    assert outcomes(result) == {"double": "right", "square": "not run"}
    assert not result.passed


def test_a_value_instead_of_a_function_is_wrong(solved: NotebookNode, run: Callable[..., Result]) -> None:
    cell(solved, "double").source = "double = 4"
    assert outcomes(run(solved)) == {"double": "wrong", "square": "right"}


FAILING = {
    "raise ValueError": "ValueError.",
    "raise ValueError('ends here.')": "ends here.",
    "input('your name? ')": "input()",
    "1 / 0": "ZeroDivisionError",
    "def broken(:": "SyntaxError",
    "import sys; sys.exit(0)": "SystemExit",
    "raise ValueError('\\x1b[31m\\n' * 9999)": "ValueError",
}


def test_cells_that_fail_are_named_and_the_rest_runs(solved: NotebookNode, run: Callable[..., Result]) -> None:
    solved.cells[3:3] = [nbformat.v4.new_code_cell(source) for source in FAILING]
    result = run(solved)
    assert outcomes(result) == ALL_RIGHT
    assert not result.passed
    assert len(result.troubles) == len(FAILING)
    for number, (trouble, says) in enumerate(zip(result.troubles, FAILING.values(), strict=True)):
        assert trouble.startswith(f"Cell {4 + number} ")
        assert says in trouble
        assert len(trouble) < 400
        assert trouble.endswith(".") and trouble[-2] not in ".:"


def test_what_is_no_trouble(solved: NotebookNode, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that may raise, a flood of output, the folder's name; and a caller that is set up for grading."""
    monkeypatch.setenv("AMPCOURSE_PROFILE", "grade")
    solved.cells.insert(3, nbformat.v4.new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]}))
    solved.cells.insert(3, nbformat.v4.new_code_cell("print('x' * 20_000_000)"))
    probe = "import os\nassert os.path.basename(os.getcwd()) == 'with space ü'\nassert profile == 'grade'"
    solved.cells.append(nbformat.v4.new_code_cell(probe))
    assert run(without(solved, "parameters")).passed
    assert progress.load() == {}


def test_input_inside_an_answer_is_not_right(solved: NotebookNode, run: Callable[..., Result]) -> None:
    cell(solved, "double").source = "def double(x):\n    return 2 * int(input())"
    assert outcomes(run(solved)) == {"double": "raised", "square": "right"}


@pytest.mark.parametrize("source", ["import os; os.kill(os.getpid(), 9)", "exit()"])
def test_a_kernel_that_dies_is_said_and_nothing_after_it_passes(
    solved: NotebookNode, run: Callable[..., Result], source: str
) -> None:
    solved.cells.insert(5, nbformat.v4.new_code_cell(source))
    result = run(solved)
    assert outcomes(result) == {"double": "right", "square": "not run"}
    assert "kernel died in cell 6" in result.troubles[0]


def test_endless_loops_are_stopped_and_the_rest_goes_on(solved: NotebookNode, run: Callable[..., Result]) -> None:
    cell(solved, "double").source = "def double(x):\n    while True: pass"
    solved.cells.insert(3, nbformat.v4.new_code_cell("while True: pass"))
    result = run(solved, timeout=10)
    assert outcomes(result) == {"double": "timed out", "square": "right"}
    assert not result.passed
    assert result.troubles[0] == "Cell 4 (while True: pass) was stopped after 10 s."


@pytest.mark.full
def test_a_loop_that_cannot_be_interrupted_ends_the_run(solved: NotebookNode, run: Callable[..., Result]) -> None:
    stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    solved.cells.insert(5, nbformat.v4.new_code_cell(stubborn))
    result = run(solved, timeout=8)
    assert outcomes(result) == {"double": "right", "square": "not run"}
    assert "kernel died in cell 6" in result.troubles[0]


def test_written_questions_are_answered_by_a_text_of_ones_own(solved: NotebookNode) -> None:
    question = Cell("markdown", "YOUR ANSWER HERE", "why", graded=True)
    for text, expected in (("YOUR ANSWER HERE", False), ("  ", False), ("Because of rounding.", True)):
        assert answered(question, [Cell("markdown", text, "why")]) is expected
    assert not answered(question, [Cell("markdown", "Because of rounding.", "other")])


def test_notebook_format_3_and_a_byte_order_mark_are_simply_read(
    solved: NotebookNode, small_course: Course, tmp_path: Path
) -> None:
    cells = [
        {**{k: v for k, v in c.items() if k != "source"}, ("input" if c.cell_type == "code" else "source"): c.source}
        for c in solved.cells
    ]
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}
    path = tmp_path / "old.ipynb"
    path.write_text("\ufeff" + json.dumps(old), "utf-8")
    assert check_notebook(path, course=small_course).passed


WHOLE = json.dumps(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")]))
NOT_NOTEBOOKS = {
    "empty": ("", "empty"),
    "cut off": (WHOLE[: len(WHOLE) // 2], "breaks off"),
    "web page": ("<!DOCTYPE html><html>Log in</html>", "web page"),
    "conflict": ("{\n<<<<<<< HEAD\n", "conflict"),
    "other JSON": ("[1, 2]", "another shape"),
    "other object": ('{"a": 1}', "another shape"),
    "cells are text": ('{"nbformat": 4, "cells": "none"}', "another shape"),
    "source is a number": ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": 3}]}', "another shape"),
    "version is a word": ('{"nbformat": "new", "cells": []}', "another shape"),
    "version is infinite": ('{"nbformat": Infinity, "cells": []}', "another shape"),
    "points without end": (
        f'{{"cells": [{{"cell_type": "code", "source": "", "metadata": {{"nbgrader": {{"points": 1{"0" * 400}}}}}}}]}}',
        "another shape",
    ),
    "deep": ("[" * 100_000, "damaged"),
    "long number": ("1" * 10_000, "damaged"),
    "another notebook": (WHOLE, "not a lesson"),
    "plain text": ("Dear teacher", "breaks off or is damaged"),
}


@pytest.mark.parametrize("kind", NOT_NOTEBOOKS)
def test_what_is_no_lesson_is_said_in_one_sentence(
    small_course: Course, tiny: NotebookNode, tmp_path: Path, kind: str
) -> None:
    text, says = NOT_NOTEBOOKS[kind]
    path = tmp_path / "mine.ipynb"
    path.write_text(text, "utf-8")
    with pytest.raises(NotebookError, match=says) as caught:
        check_notebook(path, course=small_course)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_a_folder_and_other_text_encodings_are_said(small_course: Course, tmp_path: Path) -> None:
    (tmp_path / "utf16.ipynb").write_text(WHOLE, "utf-16")
    for path, says in (
        (tmp_path / "none", "does not exist"),
        (tmp_path, "not a file"),
        (tmp_path / "utf16.ipynb", "UTF-8"),
    ):
        with pytest.raises(NotebookError, match=says):
            check_notebook(path, course=small_course)


def test_the_report_names_what_is_open(
    solved: NotebookNode, run: Callable[..., Result], capsys: pytest.CaptureFixture[str]
) -> None:
    cell(solved, "square").source = "def square(x):\n    return x"
    report(run(solved))
    said = capsys.readouterr().out
    assert "tiny.double" in said
    assert "not done yet, 2 of 3 points; still open: tiny.square." in said
    assert "not answered yet" in said
