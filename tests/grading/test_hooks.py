"""The preprocessors one by one, and how nbgrader itself reads points from outputs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import determine_grade
from traitlets import Any as Any_
from traitlets.config import LoggingConfigurable
from traitlets.config.loader import PyFileConfigLoader

from ampcourse.course import course_root
from ampcourse.grading import nbgrader_hooks as hooks
from ampcourse.grading.cells import checked_exercise, raises_not_implemented, tags

CHECK = 'check("mini.double", double)'


def result(text: Any) -> Any:
    return new_output("execute_result", data={"text/plain": text}, execution_count=1)


def verdict() -> Any:
    return new_output("display_data", data={"text/plain": "Not right yet: 1 of 2 points", "text/html": "<p>1</p>"})


def graded_cell(*outputs: Any, source: str = CHECK, points: float = 2) -> Any:
    about = {"grade": True, "solution": False, "locked": True, "grade_id": "c", "points": points, "schema_version": 3}
    return new_code_cell(source, outputs=list(outputs), metadata={"nbgrader": about})


def after_the_run(cell: Any) -> tuple[float, float]:
    """The points of a cell once our two preprocessors have seen it."""
    for step in (hooks.CalmStderr(), hooks.RequireScore()):
        cell, _ = step.preprocess_cell(cell, {}, 0)
    return determine_grade(cell)


@pytest.mark.parametrize(("text", "score"), [("2.0", 2), ("1.0", 1), ("0.0", 0), ("0.25", 0.25)])
def test_a_displayed_verdict_and_a_float_give_exactly_that_float(text: str, score: float) -> None:
    assert after_the_run(graded_cell(verdict(), result(text))) == (score, 2)


@pytest.mark.parametrize(
    "outputs",
    [
        [verdict(), result("nan")],
        [verdict(), result("inf")],
        [verdict(), result("-1.0")],
        [verdict(), result("np.float64(2.0)")],
        [verdict(), result("None")],
        [verdict(), result("")],
        [verdict()],
        [],
        [result("100.0")],
        [new_output("execute_result", data={"text/html": "2.0"}, execution_count=1)],
    ],
)
def test_a_check_without_a_fitting_number_is_worth_nothing(outputs: list[Any]) -> None:
    assert after_the_run(graded_cell(*outputs)) == (0, 2)


@pytest.mark.parametrize("outputs", [[verdict(), result("nan")], [result("None")], [result("-1.0")], []])
def test_nbgrader_alone_would_give_full_points(outputs: list[Any]) -> None:
    assert determine_grade(graded_cell(*outputs)) == (2, 2)


def test_text_on_stderr_costs_nothing_and_stays_readable() -> None:
    noise = new_output("stream", name="stderr", text="I tensorflow/core: a\nW tensorflow/core: b\n")
    cell = graded_cell(noise, verdict(), result("2.0"))
    assert determine_grade(cell) == (0, 2)
    assert after_the_run(cell) == (2, 2)
    assert cell.outputs[0].text == "[stderr] I tensorflow/core: a\n[stderr] W tensorflow/core: b\n"


def test_an_ordinary_test_cell_is_judged_by_its_error_alone() -> None:
    failed = new_output("error", ename="AssertionError", evalue="", traceback=[])
    assert after_the_run(graded_cell(source="assert f(1) == 2")) == (2, 2)
    assert after_the_run(graded_cell(failed, source="assert f(1) == 2")) == (0, 2)
    assert after_the_run(graded_cell(failed)) == (0, 2)


def test_nobody_is_graded_by_a_broken_exercise() -> None:
    broken = new_output("error", ename="BrokenExercise", evalue="mini.double: no inputs", traceback=[])
    with pytest.raises(RuntimeError, match=r"nothing is graded: mini\.double"):
        after_the_run(graded_cell(broken))


@pytest.mark.parametrize(
    ("source", "graded"),
    [
        ('profile = "cpu"  # "cpu", "gpu" or "grade"\nseed = 0', 'profile = "grade"\nseed = 0'),
        ("seed = 0", 'seed = 0\nprofile = "grade"'),
        ("", 'profile = "grade"'),
        ('my_profile = "cpu"', 'my_profile = "cpu"\nprofile = "grade"'),
    ],
)
def test_grading_changes_the_profile_alone(source: str, graded: str) -> None:
    assert hooks.graded_parameters(source) == graded


class Converter(LoggingConfigurable):
    """Stands where nbgrader's converter does: above the exporter, and it knows the course directory."""

    coursedir = Any_()


def course_rules(root: Path, notebook: Any) -> Any:
    converter = Converter(coursedir=CourseDirectory(root=str(root)))
    rules = hooks.CourseRules(parent=LoggingConfigurable(parent=converter))
    return rules.preprocess(notebook, {"nbgrader": {"assignment": "07_mini", "notebook": "07_mini"}})[0]


def test_a_submissions_tags_hints_and_kernel_are_not_obeyed(mini: Path) -> None:
    notebook = new_notebook(
        cells=[
            new_code_cell("x", metadata={"tags": ["skip-execution"], "execution": {"iopub.status.idle": "x"}}),
            new_code_cell("profile = 'gpu'", metadata={"tags": ["injected-parameters"]}),
            new_code_cell("y", metadata={"tags": ["raises-exception"], "nbgrader": {"grade_id": "double"}}),
        ],
        metadata={"kernelspec": {"name": "ir", "language": "R", "display_name": "R"}, "colab": {}},
    )
    cleaned = course_rules(mini, notebook)
    assert cleaned.metadata == {"kernelspec": hooks.KERNELSPEC}
    assert [cell.metadata for cell in cleaned.cells] == [
        {},
        {"tags": ["parameters"]},
        {"nbgrader": {"grade_id": "double"}},
    ]
    assert cleaned.cells[1].source == 'profile = "grade"\nseed = 0'
    nbformat.validate(cleaned)


def test_a_missing_parameters_cell_is_put_back_in_its_place(mini: Path) -> None:
    cleaned = course_rules(mini, new_notebook(cells=[new_code_cell("a"), new_code_cell("b")]))
    assert [cell.source for cell in cleaned.cells] == ["a", 'profile = "grade"\nseed = 0', "b"]
    assert course_rules(mini, new_notebook()).cells[0].source == 'profile = "grade"\nseed = 0'
    nbformat.validate(cleaned)


def test_without_source_or_release_the_parameters_stay(mini: Path) -> None:
    shutil.rmtree(mini / "source")
    assert [c.source for c in course_rules(mini, new_notebook(cells=[new_code_cell("a")])).cells] == ["a"]


@pytest.mark.parametrize(
    ("source", "exercise"),
    [
        (CHECK, "mini.double"),
        ("check('mini.double', double)  # see", "mini.double"),
        ("check()", None),
        ("check(double)", None),
        ("x = check('mini.double', double)", None),
        ("assert check('mini.double', double)", None),
        ("check('a.b', f); check('a.c', g)", None),
        ("def broken(:", None),
        ("\0", None),
    ],
)
def test_check_cells_are_recognised_by_their_form(source: str, exercise: str | None) -> None:
    assert checked_exercise(source) == exercise


def test_stubs_are_recognised_beside_magics() -> None:
    assert raises_not_implemented("%%time\ndef f():\n    # YOUR CODE HERE\n    raise NotImplementedError()")
    assert raises_not_implemented("def f():\n    raise NotImplementedError")
    assert not raises_not_implemented("def f():\n    return NotImplementedError")
    assert not raises_not_implemented("raise NotImplementedError(")


@pytest.mark.parametrize(("found", "read"), [(["a", 1, None], {"a"}), ("parameters", set()), (None, set())])
def test_whatever_stands_for_tags_is_read(found: Any, read: set[str]) -> None:
    cell = new_code_cell("")
    cell.metadata["tags"] = found
    assert tags(cell) == read


def test_helper_programs_are_found_beside_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    hooks.use_this_environment()
    hooks.use_this_environment()
    path = os.environ["PATH"].split(os.pathsep)
    assert path[0] == str(Path(sys.executable).parent)
    assert path.count(path[0]) == 1
    assert path[-1] == "/usr/bin"


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("ada_01_fp16_range.ipynb", "ada"),
        ("lovelaceada_1234_5678_01_fp16_range-1.ipynb", "lovelaceada"),
        ("Ada Lovelace_77_assignsubmission_file_01_fp16_range.ipynb", "Ada Lovelace"),
        ("ada_01_fp16_range (2).ipynb", "ada"),
    ],
)
def test_files_downloaded_from_a_platform_name_student_and_lesson(name: str, student: str) -> None:
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course_root())).load_config()
    found = re.match(config.FileNameCollectorPlugin.named_regexp, f"/a b/downloaded/01_x/extracted/{name}")
    assert found
    assert found.groupdict() == {"student_id": student, "file_id": "01_fp16_range"}


def test_the_hooks_do_not_load_tensorflow() -> None:
    code = (
        "import sys, ampcourse.grading.nbgrader_hooks; sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_environment_without_the_course_is_told_in_one_sentence(tmp_path: Path) -> None:
    shutil.copy(course_root() / "nbgrader_config.py", tmp_path)
    (tmp_path / "other" / "ampcourse").mkdir(parents=True)
    (tmp_path / "other" / "ampcourse" / "__init__.py").touch()
    ran = subprocess.run(
        [str(Path(sys.executable).parent / "nbgrader"), "db", "student", "list"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "other")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "install it there with `pip install 'ampcourse[grading]'`" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "gradebook.db").exists()
