"""Documents that lie about what runs and what it is worth. The answers in them are wrong; one has them right."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_output


def _cell(notebook: Any, name: str) -> Any:
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)


def prebaked(notebook: Any) -> None:
    """Outputs that say full points are there already, and tags say that nothing is to be run."""
    for cell in notebook.cells:
        cell.metadata["tags"] = ["skip-execution", "raises-exception"]
        if cell.cell_type == "code":
            cell.execution_count = 1
            cell.outputs = [new_output("execute_result", {"text/plain": "3.0"}, execution_count=1)]
    notebook.metadata["nbclient"] = {"skip_cells_with_tag": "skip-execution"}


def worth_a_hundred(notebook: Any) -> None:
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader["points"] = 100


def tests_are_answers(notebook: Any) -> None:
    """The checks say of themselves that they are answers, which the student may write."""
    for name in ("double-check", "total-check", "triple-test"):
        cell = _cell(notebook, name)
        cell.metadata.nbgrader.update(solution=True, locked=False, grade=True)
        cell.source = "3.0"


def checks_are_text(notebook: Any) -> None:
    for name in ("double-check", "total-check", "triple-test"):
        cell = _cell(notebook, name)
        cell.cell_type = "markdown"
        cell.source = "all right"
        del cell["outputs"], cell["execution_count"]


def checks_are_written_anew(notebook: Any) -> None:
    for name, points in (("double-check", 2.0), ("total-check", 3.0), ("triple-test", 1.0)):
        _cell(notebook, name).source = f"{points}"


def another_exercise_is_checked(notebook: Any) -> None:
    """Both checks ask for the same exercise, or for one that is not there."""
    _cell(notebook, "double-check").source = 'check("start_here.megabytes", double)'
    _cell(notebook, "total-check").source = 'check("target.nothing", total)'


def names_are_swapped(notebook: Any) -> None:
    one, two = _cell(notebook, "double-check"), _cell(notebook, "triple-test")
    one.metadata.nbgrader["grade_id"], two.metadata.nbgrader["grade_id"] = "triple-test", "double-check"


def a_cell_of_ones_own_is_graded(notebook: Any) -> None:
    kind = {"grade": True, "solution": False, "locked": True, "schema_version": 3, "points": 50, "cell_type": "code"}
    notebook.cells.append(new_code_cell("50.0", id="gift", metadata={"nbgrader": kind | {"grade_id": "gift"}}))
    notebook.cells.append(
        new_code_cell("2.0", id="twice", metadata={"nbgrader": kind | {"grade_id": "double-check", "points": 2}})
    )


def another_kernel(notebook: Any) -> None:
    notebook.metadata["kernelspec"] = {
        "name": "bash",
        "display_name": "Bash",
        "language": "bash",
        "argv": ["/bin/sh", "-c", "touch {course}/pwned"],
        "metadata": {"kernel_provisioner": {"provisioner_name": "local-provisioner"}},
    }
    notebook.metadata["language_info"] = {"name": "bash", "version": "../../pwned"}


def parameters_are_mine(notebook: Any) -> None:
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell.source = 'profile = "cpu"\nseed = 0\nimport os\nos.environ["AMPCOURSE_PROFILE"] = ""\ncheck = print'


def deleted(notebook: Any) -> None:
    """No check and no test is left: nothing is asked, and that must not mean that all is right."""
    notebook.cells = [c for c in notebook.cells if not c.metadata.get("nbgrader", {}).get("grade")]


def attachments_and_widgets(notebook: Any) -> None:
    notebook.metadata["widgets"] = {
        "application/vnd.jupyter.widget-state+json": {"state": {"x": {"model": "<script>"}}}
    }
    notebook.cells[0]["attachments"] = {
        "../../pwned": {"image/png": "AAAA"},
        "x.svg": {"image/svg+xml": "<svg onload=1>"},
    }


MUTATIONS: dict[str, Callable[[Any], None]] = {
    f.__name__: f
    for f in (
        prebaked,
        worth_a_hundred,
        tests_are_answers,
        checks_are_text,
        checks_are_written_anew,
        another_exercise_is_checked,
        names_are_swapped,
        a_cell_of_ones_own_is_graded,
        another_kernel,
        parameters_are_mine,
        deleted,
        attachments_and_widgets,
    )
}


def mutated(notebook: Any, mutate: Callable[[Any], None]) -> bytes:
    """The document as bytes; nbformat is not asked whether it is one."""
    changed = copy.deepcopy(notebook)
    mutate(changed)
    return json.dumps(nbformat.from_dict(changed)).encode()
