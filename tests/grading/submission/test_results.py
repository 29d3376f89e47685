"""What a submission's result holds: nothing secret, exactly one number for nbgrader, and why points are missing."""

from __future__ import annotations

import dataclasses
import json
import time

import nbformat
import pytest
from submission_samples import DOUBLE, SHORT, TOTAL, Grade, grader, handed_in, mini_assignment, outputs

from ampcourse.exercises.engine import Question
from ampcourse.exercises.model import BrokenExercise
from ampcourse.grading.model import Assignment, GradingError, Starter, Submission
from ampcourse.grading.settings import Settings
from ampcourse.grading.submission import grade_submission, replay
from ampcourse.grading.submission import outputs as out

SIGNLESS = "import numpy as np\ndef double(x):\n    return 2 * np.abs(x)"


def test_feedback_names_the_mistake_and_tells_no_right_value(grade: Grade, assignment: Assignment) -> None:
    wrong = "import numpy as np\ndef total(x):\n    return np.float64(123.0)"
    graded, questions, notebook = grade(handed_in(double=SIGNLESS, total=wrong))
    assert (questions["double-check"].score, questions["double-check"].says) == (1, ("The sign is lost.",))
    assert [c.passed for c in questions["double-check"].criteria] == [True, False]
    shown = json.dumps([outputs(notebook, "total-check"), [dataclasses.asdict(q) for q in graded.questions]])
    assert "expected:" not in shown
    totals = [
        f"{float(parts['value']):.4g}" for q in assignment.asked["mini.total"].questions for parts in q.want.values()
    ]
    assert not [value for value in totals if value in shown]


def test_each_judged_cell_ends_with_its_score_as_a_number(grade: Grade) -> None:
    _, questions, notebook = grade(handed_in(double=SIGNLESS, total=TOTAL))
    for name in ("double-check", "total-check"):
        *_, last = outputs(notebook, name)
        results = [o for o in outputs(notebook, name) if o.output_type == "execute_result"]
        assert results == [last] and last.data["text/plain"] == repr(float(questions[name].score))
        assert "text/html" in outputs(notebook, name)[0].data


def test_examples_can_be_left_out(assignment: Assignment, starter: Starter) -> None:
    noisy = "import numpy as np\ndef double(x):\n    print('given', x)\n    return 2 * np.abs(x)"
    raw = nbformat.writes(handed_in(double=noisy, total=TOTAL)).encode()
    texts = [
        grade_submission(Submission("ada", raw), assignment, starter, examples=shown).notebook.decode()
        for shown in (True, False)
    ]
    assert ["It fails, for example" in text for text in texts] == [True, False]
    assert ["given [" in text for text in texts] == [True, False]


def test_no_name_of_the_grader_is_among_the_students(grade: Grade) -> None:
    lists = "print(sorted(n for n in globals() if not n.startswith('__')), 'ampcourse' in str(In))"
    _, _, notebook = grade(handed_in(double=lists, total=TOTAL))
    text = outputs(notebook, "double")[0].text
    assert "observe" not in text and "install" not in text and "grading" not in text and "names" not in text


def test_given_files_win_over_the_students(mini_answers: None, starter: Starter) -> None:
    assignment = dataclasses.replace(mini_assignment(), files={"data.txt": b"given"})
    reads = "print(open('data.txt').read(), open('own/mine.txt').read())"
    files = {"data.txt": b"forged", "own/mine.txt": b"own"}
    _, _, notebook = grader(assignment, starter)(handed_in(double=reads, total=TOTAL), files=files)
    assert outputs(notebook, "double")[0].text == "given own\n"


def test_a_broken_exercise_is_nobodys_zero(mini_answers: None, starter: Starter) -> None:
    assignment = mini_assignment()
    asked = assignment.asked["mini.double"]
    broken = dataclasses.replace(asked.questions[0].exercise, right=lambda x: 1 / 0)
    asked = {**assignment.asked, "mini.double": dataclasses.replace(asked, questions=(Question(broken, 1),))}
    raw = nbformat.writes(handed_in(double=DOUBLE, total=TOTAL)).encode()
    with pytest.raises(BrokenExercise):
        grade_submission(Submission("ada", raw), dataclasses.replace(assignment, asked=asked), starter)


def test_no_kernel_is_the_graders_own_fault(assignment: Assignment) -> None:
    class Refuses:
        name = "refuses"

        def start(self, files: object, profile: str = "grade") -> None:
            raise GradingError("There is no room here.")

        def close(self) -> None: ...

    raw = nbformat.writes(handed_in()).encode()
    graded = grade_submission(Submission("ada", raw), assignment, Refuses())
    assert (graded.status, graded.reason, graded.score) == ("failed", "There is no room here.", None)


@pytest.mark.parametrize(
    ("submission", "status"),
    [
        (Submission("ada", b"<html>log in</html>"), "unreadable"),
        (Submission("ada", None, refused="It is a link."), "unreadable"),
        (Submission("ada", None), "missing"),
    ],
)
def test_what_is_no_notebook_has_no_score(
    submission: Submission, status: str, assignment: Assignment, starter: Starter
) -> None:
    graded = grade_submission(submission, assignment, starter)
    assert (graded.status, graded.score, graded.notebook) == (status, None, b"") and graded.reason


def test_the_whole_has_a_limit_of_its_own(mini_answers: None, starter: Starter) -> None:
    settings = dataclasses.replace(SHORT, cell_seconds=60, submission_seconds=SHORT.cell_seconds)
    _, questions, _ = grader(mini_assignment(settings=settings), starter)(
        handed_in(double=DOUBLE, total="import time\ntime.sleep(1000)")
    )
    assert (questions["double-check"].score, questions["total-check"].score) == (2, 0)
    assert questions["total-check"].outcome == "timed out"


@pytest.mark.usefixtures("mini_answers")
def test_the_grader_itself_needs_little_time(grade: Grade) -> None:
    notebook = handed_in(double=DOUBLE, total=TOTAL)
    grade(notebook)
    used = []
    for _ in range(3):
        before = time.process_time()
        grade(notebook)
        used.append(time.process_time() - before)
    assert min(used) < 0.15


# ---------------------------------------------------------------------- replay


def test_replay_shows_inputs_right_values_and_the_smallest_failing_input(
    assignment: Assignment, starter: Starter
) -> None:
    raw = nbformat.writes(handed_in(double=SIGNLESS, total=TOTAL)).encode()
    found = replay(Submission("ada", raw), assignment, starter, "mini.double")
    assert (found.grade_id, found.result.score, found.verdict.says) == ("double-check", 1, ("The sign is lost.",))
    assert found.verdict.example.given.count("-") == 1 and found.verdict.example.expected
    assert found.verdict.example.given in found.text
    assert [(s.question, s.criterion, s.passed) for s in found.shown[:2]] == [
        (1, "positive", True),
        (1, "negative", False),
    ]
    assert len(found.shown) == 6 and all(s.given and s.returned and s.expected for s in found.shown)


def test_replay_of_what_cannot_be_observed_says_why(assignment: Assignment, starter: Starter) -> None:
    raw = nbformat.writes(handed_in(double="import os\nos._exit(0)", total=TOTAL)).encode()
    found = replay(Submission("ada", raw), assignment, starter, "mini.double")
    assert found.verdict is None and found.result.outcome == "died" and "exit code 0" in found.text


def test_replay_of_something_not_asked_is_one_sentence(assignment: Assignment, starter: Starter) -> None:
    with pytest.raises(GradingError, match=r"does not ask 'mini\.other'; it asks: mini\.double, mini\.total"):
        replay(Submission("ada", b"{}"), assignment, starter, "mini.other")


# ---------------------------------------------------------------------- outputs


def test_outputs_are_valid_whatever_the_kernel_sends() -> None:
    settings = Settings()
    collected = out.Outputs(settings, out.Room(settings), 3)
    for kind in ("stream", "display_data", "execute_result", "update_display_data", "error", "clear_output", "other"):
        for content in (
            {},
            {"text": 5, "name": [], "data": [], "traceback": {}, "ename": None, "transient": 5},
            {"data": {"text/plain": ["a", "b"], "text/html": 5, "application/json": {"x": float("nan")}, "": "\ud800"}},
            {"text": "\ud800\x00", "ename": "\udfff", "evalue": ["x"], "traceback": [1, "\ud800"]},
            {"data": {"image/png": "A" * 10_000_000}, "transient": {"display_id": {}}},
        ):
            collected.take(kind, content)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=collected.stored())])
    nbformat.validate(notebook)
    nbformat.writes(notebook).encode("utf-8")
    assert collected.cut


def test_a_display_can_be_updated_from_a_later_cell(grade: Grade) -> None:
    first = DOUBLE + "\nfrom IPython.display import display\nhandle = display('before', display_id=True)"
    _, _, notebook = grade(handed_in(double=first, total=TOTAL + "\nhandle.update('after')"))
    assert outputs(notebook, "double")[0].data["text/plain"] == "'after'"


def test_what_is_cleared_or_updated_makes_room_again() -> None:
    settings = Settings(notebook_mib=1, output_kib=100)
    room = out.Room(settings)
    collected = out.Outputs(settings, room, 1)
    for _ in range(50):
        collected.take("clear_output", {"wait": True})
        collected.take("display_data", {"data": {"image/png": "A" * 500_000}, "transient": {"display_id": "x"}})
    for letter in "BCDEF" * 10:
        data = {"image/png": letter * 500_000}
        collected.take("update_display_data", {"data": data, "transient": {"display_id": "x"}})
    assert [node.data["image/png"][:1] for node in collected.nodes] == ["F"]
    assert sum(map(len, room.displays.values())) == 1  # what is gone is not kept for being updated
    assert not collected.cut and room.left == (1 << 20) - 500_000


def test_all_cells_together_are_limited(mini_answers: None) -> None:
    settings = Settings(notebook_mib=1, output_kib=100)
    room = out.Room(settings)
    kept = 0
    for number in range(50):
        collected = out.Outputs(settings, room, number)
        collected.take("stream", {"name": "stdout", "text": "x" * 100_000})
        kept += sum(len(node.text) for node in collected.nodes)
    assert kept <= (1 << 20) + 100_000 and collected.cut
