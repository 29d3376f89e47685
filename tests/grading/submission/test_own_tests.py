"""Instructors' own test cells: nbgrader's rule, made harder; what is hidden stays hidden. And written questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from submission_samples import DOUBLE, TOTAL, graded, grader, handed_in, mini_assignment, outputs, source

from ampcourse.grading.model import Assignment, QuestionResult, Starter
from ampcourse.grading.submission.tests_inside import NOT_SHOWN, parts, without_hidden
from ampcourse.grading.submission.written import stub

HIDING = (
    "assert list(double(np.arange(2))) == [0, 2], 'seen by all'\n"
    "### BEGIN HIDDEN TESTS\n"
    "secret_input = 2100\n"
    "assert double(secret_input) == 4200, 'the answer is 4200'\n"
    "### END HIDDEN TESTS"
)
Run = Callable[..., tuple[QuestionResult, nbformat.NotebookNode, Any]]


@pytest.fixture
def run(mini_answers: None, starter: Starter) -> Run:
    """Grades one test cell of the instructor's, worth 1 point."""

    def grade(own_test: str, double: str = DOUBLE, **texts: str) -> tuple[QuestionResult, nbformat.NotebookNode, Any]:
        assignment = mini_assignment(source(own_test))
        given = source(without_hidden(own_test), solved=False)
        found, questions, notebook = grader(assignment, starter)(handed_in(given, double=double, total=TOTAL, **texts))
        return questions["own-test"], notebook, found

    return grade


def nbgraders(notebook: nbformat.NotebookNode) -> float:
    """What nbgrader itself reads from the cell."""
    from nbgrader.utils import determine_grade

    cell = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "own-test")
    return float(determine_grade(cell)[0])


@pytest.mark.parametrize(
    ("test", "score", "outcome"),
    [
        ("assert double(2) == 4", 1, "right"),
        ("assert double(2) == 5, 'no'", 0, "wrong"),
        ("double(2) / 0", 0, "raised"),
        ("double(2) / 8", 0.5, "wrong"),
        ("import numpy as np\nnp.float64(0.25)", 0.25, "wrong"),
        ("'all is well'", 1, "right"),
        ("print('fine')", 1, "right"),
        ("double(2) == 5", 0, "wrong"),
        ("double(2) == 4", 0, "wrong"),
        ("7.0", 0, "wrong"),
        ("-1.0", 0, "wrong"),
        ("float('nan')", 0, "wrong"),
        ("import sys; print('e', file=sys.stderr)", 1, "right"),
        ("import os; os._exit(0)", 0, "died"),
        ("raise SystemExit", 0, "raised"),
        ("while True: pass", 0, "timed out"),
        ("%%time\nassert double(2) == 4", 1, "right"),
    ],
)
def test_a_test_cell_is_worth_what_its_outputs_say(test: str, score: float, outcome: str, run: Run) -> None:
    question, notebook, found = run(test)
    assert (question.score, question.outcome, question.kind) == (score, outcome, "test"), question
    assert nbgraders(notebook) == score
    assert bool(question.reason) is (score < 1)
    assert "1 test cell was graded inside the student's process." in found.notes


@pytest.mark.parametrize("double", ["def double(x):\n    return 3 * x", "def double(x):\n    return min(2 * x, 100)"])
def test_hidden_tests_are_run_and_never_shown(double: str, run: Run) -> None:
    question, notebook, _ = run(HIDING, double)
    assert question.score == 0
    text = json.dumps(notebook.cells)
    assert "4200" not in text and "secret_input" not in text
    assert NOT_SHOWN in text
    assert ("seen by all" in question.reason) is ("3 *" in double)


def test_what_is_printed_during_a_hidden_test_is_not_shown(run: Run) -> None:
    _, notebook, _ = run(HIDING, "def double(x):\n    print('given', x)\n    return 2 * x")
    assert "given" in json.dumps(outputs(notebook, "own-test")) and "2100" not in json.dumps(notebook.cells)


def test_hidden_tests_within_a_function_are_run_as_one_and_not_shown(run: Run) -> None:
    hidden = "    ### BEGIN HIDDEN TESTS\n    assert double(21) == 4711\n    ### END HIDDEN TESTS\n"
    test = f"def t():\n{hidden}    return 1\nt()"
    assert [part.hidden for part in parts(test)] == [True]
    question, notebook, _ = run(test)
    assert question.score == 0 and "4711" not in json.dumps(notebook.cells)


def test_a_test_of_an_untouched_answer_is_not_attempted(run: Run) -> None:
    question, _, _ = run("assert double(1) == 2", "def double(x):\n    raise NotImplementedError")
    assert (question.score, question.outcome) == (0, "not attempted")


def test_a_test_that_reads_nothing_after_the_kernel_is_gone_for_good_is_worth_nothing(
    mini_answers: None, starter: Starter, assignment: Assignment
) -> None:
    made = mini_assignment(source("assert True"))
    notebook = handed_in(source("assert True", solved=False), double=DOUBLE, total=TOTAL)
    ends = [new_code_cell("import os\nos._exit(1)") for _ in range(made.settings.restarts + 1)]
    notebook.cells[5:5] = ends
    _, questions, again = grader(made, starter)(notebook)
    assert questions["own-test"].score == 0 and nbgraders(again) == 0


def test_a_reason_holds_nothing_that_changes_a_terminal(run: Run) -> None:
    question, _, _ = run("double(2)", "def double(x):\n    raise ValueError('\\x1b[2J\\x07 gone')")
    assert question.score == 0 and "gone" in question.reason and "\x1b" not in question.reason


# ---------------------------------------------------------------------- written questions


@pytest.mark.parametrize(
    ("text", "score", "outcome"),
    [("My own words.", None, "written"), ("YOUR ANSWER HERE", 0, "not attempted"), ("", None, "written")],
)
def test_a_written_answer_waits_for_a_person_unless_untouched(
    text: str, score: float | None, outcome: str, assignment: Assignment, starter: Starter
) -> None:
    found, questions, _ = grader(assignment, starter)(handed_in(double=DOUBLE, total=TOTAL, why=text))
    assert (questions["why"].score, questions["why"].outcome) == (score, outcome)
    assert found.score == 5


def test_a_code_answer_for_a_person_is_run_and_waits(mini_answers: None, starter: Starter) -> None:
    manual = new_code_cell("plan = 'mine'", id="plan", metadata=graded("plan", grade=True, solution=True, points=2))
    assignment = mini_assignment(source(more=(manual,)))
    notebook = handed_in(double=DOUBLE, total=TOTAL)
    own = new_code_cell("plan = 'own'\nprint(plan)\n1 / 0", id="plan", metadata=dict(manual.metadata))
    notebook.cells.append(own)
    _, questions, again = grader(assignment, starter)(notebook)
    assert (questions["plan"].score, questions["plan"].outcome) == (None, "written")
    assert outputs(again, "plan")[0].text == "own\n"


def test_the_stub_is_nbgraders() -> None:
    from nbgrader.preprocessors import ClearSolutions

    notebook = source()
    notebook.metadata.kernelspec = {"language": "python", "name": "python3"}
    texts = [stub(cell) for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    cleared, _ = ClearSolutions().preprocess(notebook, {})
    assert texts == [cell.source for cell in cleared.cells if cell.metadata.get("nbgrader", {}).get("solution")]
