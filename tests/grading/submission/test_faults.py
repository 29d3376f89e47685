"""A fault costs its own question and no other, and right answers keep their points whatever is printed around them."""

from __future__ import annotations

import resource
from typing import Any

import pytest
from nbformat.v4 import new_code_cell
from submission_faults import KEEPS, LOSES
from submission_samples import DOUBLE, TOTAL, Grade, grader, handed_in, outputs

from ampcourse.grading.model import Assignment, Starter

QUICK = {"endless answer", "endless cell", "segfault", "_exit cell", "input cell", "nothing", "equal to all"}
OFTEN = {"a long line", "many displays", "stderr", "names", "time magic", "await", "displayhook", "no stdout"}
OFTEN |= {"ast transformer", "hook", "thread", "SystemExit", "many errors", "no handlers", "builtins"}


def _each(table: dict[str, Any], daily: set[str]) -> list[Any]:
    return [pytest.param(name, id=name, marks=() if name in daily else pytest.mark.full) for name in table]


@pytest.mark.parametrize("name", _each(KEEPS, OFTEN))
def test_right_answers_keep_full_points(name: str, grade: Grade) -> None:
    graded, questions, _ = grade(handed_in(double=KEEPS[name], total=TOTAL))
    assert questions["double-check"].score == 2, questions["double-check"]
    assert questions["total-check"].score == 3, questions["total-check"]
    assert (graded.status, graded.restarts) == ("graded", 0)
    assert len(graded.notebook) < 1_500_000


@pytest.mark.parametrize("name", _each(LOSES, QUICK))
def test_a_fault_costs_its_own_question(name: str, grade: Grade) -> None:
    code, outcome, words = LOSES[name]
    graded, questions, _ = grade(handed_in(double=code, total=TOTAL))
    assert questions["double-check"].score == 0
    assert questions["double-check"].outcome == outcome, questions["double-check"]
    assert words in questions["double-check"].reason
    assert questions["total-check"].score == 3, questions["total-check"]
    troubled = outcome in ("timed out", "died", "flooded")
    assert graded.status == ("partly" if troubled else "graded")
    assert ("double-check" in graded.reason) is troubled


def test_what_was_judged_before_is_kept(grade: Grade) -> None:
    graded, questions, _ = grade(handed_in(double="def double(x):\n    return 2 * x", total="import os\nos._exit(0)"))
    assert (questions["double-check"].score, questions["total-check"].score) == (2, 0)
    assert graded.restarts == 1


def test_what_comes_before_a_lost_kernel_is_run_again(grade: Grade) -> None:
    early = "helper = lambda x: np.sum(x)"
    _, questions, _ = grade(
        handed_in(early=early, double="import os\nos.kill(os.getpid(), 9)", total="def total(x):\n    return helper(x)")
    )
    assert questions["total-check"].score == 3


@pytest.mark.parametrize(
    ("code", "says"),
    [("while True: pass", "still running after"), ("import os\nos._exit(3)", "it ended by itself, with exit code 3")],
)
def test_a_cell_that_did_not_end_is_named_even_if_no_points_are_lost(code: str, says: str, grade: Grade) -> None:
    notebook = handed_in(double=DOUBLE, total=TOTAL)
    notebook.cells.insert(5, new_code_cell(code))
    graded, questions, notebook = grade(notebook)
    assert (questions["double-check"].score, questions["total-check"].score) == (2, 3)
    assert graded.status == "partly"
    assert graded.reason.startswith("cell 6: it ") and says in graded.reason
    assert says in next(cell for cell in notebook.cells if cell.source == code).outputs[-1].evalue


def test_restarts_are_limited(grade: Grade, assignment: Assignment) -> None:
    notebook = handed_in(double="def double(x):\n    return 2 * x", total=TOTAL)
    ends = [new_code_cell("import os\nos._exit(1)", id=f"end{i}") for i in range(assignment.settings.restarts + 1)]
    notebook.cells[5:5] = ends
    graded, questions, _ = grade(notebook)
    assert graded.restarts == assignment.settings.restarts
    assert (questions["double-check"].score, questions["total-check"].score) == (2, 0)
    assert "kernel" in questions["total-check"].reason


def test_output_is_cut_and_says_so(grade: Grade, assignment: Assignment) -> None:
    _, _, notebook = grade(handed_in(double="def double(x):\n    return 2 * x\nprint('x\\n' * 500_000)", total=TOTAL))
    text = "".join(output.text for output in outputs(notebook, "double"))
    assert text.count("x\n") == assignment.settings.output_lines
    assert "[cut: 100 KiB and 1,000 lines" in text


def test_output_of_a_background_thread_is_not_put_into_judged_cells(grade: Grade) -> None:
    talks = (
        "import threading, time\ndef talk():\n    while True:\n        print('from the thread')\n"
        "        time.sleep(0.001)\nthreading.Thread(target=talk, daemon=True).start()"
    )
    waits = "import time\ndef double(x):\n    time.sleep(0.1)\n    return 2 * x"
    _, questions, notebook = grade(handed_in(early=talks, double=waits, total=TOTAL))
    for name in ("double-check", "total-check"):
        assert [output.output_type for output in outputs(notebook, name)] == ["display_data", "execute_result"]
    assert (questions["double-check"].score, questions["total-check"].score) == (2, 3)


def test_the_memory_of_the_grader_stays_flat(grade: Grade) -> None:
    grade(handed_in(total=TOTAL))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    floods = "print('x' * 150_000_000)\nraise ValueError('y' * 100_000_000)"
    _, questions, _ = grade(handed_in(double=floods, total=TOTAL))
    assert questions["total-check"].score == 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


@pytest.mark.sandbox
@pytest.mark.parametrize("name", ["segfault", "endless cell"])
def test_the_same_in_the_sandbox(name: str, assignment: Assignment, sandbox: Starter) -> None:
    code, outcome, words = LOSES[name]
    _, questions, _ = grader(assignment, sandbox)(handed_in(double=code, total=TOTAL))
    assert (questions["double-check"].outcome, questions["double-check"].score) == (outcome, 0)
    assert words in questions["double-check"].reason
    assert questions["total-check"].score == 3
