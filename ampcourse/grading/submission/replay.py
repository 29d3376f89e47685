"""One question of one submission asked again for the instructor: with right values and the smallest failing input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from ampcourse.course import UserError
from ampcourse.exercises import view, wire
from ampcourse.exercises.check import exercise as known_exercise
from ampcourse.exercises.compare import problem, read
from ampcourse.exercises.engine import Question, judge
from ampcourse.exercises.example import explained
from ampcourse.exercises.model import BrokenExercise, Exercise, Verdict
from ampcourse.exercises.shrink import Failure
from ampcourse.grading.cells import about, checked_exercise
from ampcourse.grading.document import Repaired, Unreadable, repair
from ampcourse.grading.model import Asked, Assignment, GradingError, QuestionResult, Starter, Submission
from ampcourse.grading.submission.grade import instructors
from ampcourse.grading.submission.judged import NO_CELL, NOT_ATTEMPTED
from ampcourse.grading.submission.observed import Observed, ask, observe
from ampcourse.grading.submission.run import Run
from ampcourse.grading.submission.runner import Runner
from ampcourse.grading.submission.session import Session


@dataclass(frozen=True)
class Shown:
    """One criterion on one of the round's inputs.

    Attributes:
        question: the number of the question within the round, from 1.
        criterion: its name.
        passed: whether the answer was right there.
        says: what was wrong.
        given, returned, expected: in words, as the instructor may see them.
    """

    question: int
    criterion: str
    passed: bool
    says: str
    given: str
    returned: str
    expected: str


@dataclass(frozen=True)
class Explanation:
    """Why one question got its points.

    Attributes:
        exercise: the id.
        grade_id: nbgrader's name of the cell.
        result: as it is when graded now.
        verdict: with right values and the smallest failing input; None if nothing could be observed.
        text: all of it as text.
        shown: every criterion on every input of the round.
        log: what happened when.
    """

    exercise: str
    grade_id: str
    result: QuestionResult
    verdict: Verdict | None
    text: str
    shown: tuple[Shown, ...] = ()
    log: tuple[str, ...] = ()


def replay(submission: Submission, assignment: Assignment, starter: Starter, exercise: str) -> Explanation:
    """Run a submission up to one question and ask that again, with the stored round's inputs.

    Args:
        submission: what was handed in.
        assignment: what was asked.
        starter: starts the kernel.
        exercise: the exercise's id.

    Raises:
        GradingError: if the assignment does not ask this, the submission cannot be read, or no kernel can be started.
        BrokenExercise: if the exercise is at fault.
    """
    if exercise not in assignment.asked:
        known = ", ".join(assignment.asked) or "nothing"
        raise GradingError(f"'{assignment.lesson}' does not ask '{exercise}'; it asks: {known}.")
    if submission.notebook is None or submission.refused:
        raise GradingError(submission.refused or f"{submission.student} handed in no '{assignment.notebook}.ipynb'.")
    try:
        repaired = repair(submission.notebook, instructors(assignment.source))
    except Unreadable as error:
        raise GradingError(str(error)) from None
    runner = Runner(starter, {**submission.files, **assignment.files}, assignment.settings)
    try:
        return _Replay(repaired, assignment, runner, exercise).explained()
    finally:
        runner.close()


class _Replay(Run):
    """A pass that ends at one question; other questions are not asked."""

    def __init__(self, repaired: Repaired, assignment: Assignment, runner: Runner, exercise: str) -> None:
        super().__init__(repaired, assignment, runner, examples=True)
        self.exercise = exercise
        self.verdict: Verdict | None = None
        self.shown: tuple[Shown, ...] = ()

    def explained(self) -> Explanation:
        """Run what comes before, ask, and put it together."""
        for place, cell in enumerate(self.notebook.cells):
            wanted = cell.cell_type == "code" and checked_exercise(cell.source) == self.exercise
            if about(cell).get("grade") and not about(cell).get("solution") and not wanted:
                continue
            self.cell(cell, f"cell {place + 1}")
            if wanted:
                return self._together(cell)
        raise GradingError(f"The notebook has no cell that checks '{self.exercise}'.")

    def _together(self, cell: NotebookNode) -> Explanation:
        result = self.questions[-1]
        text = cell.outputs[0].data["text/plain"]
        if self.verdict is not None and result.outcome not in (NO_CELL, NOT_ATTEMPTED):
            asked = self.assignment.asked[self.exercise]
            text = view.text(asked.questions[0].exercise, self.verdict)
        log = tuple(self.runner.log)
        return Explanation(self.exercise, result.grade_id, result, self.verdict, text, self.shown, log)

    def look(self, name: str, asked: Asked, expression: str) -> Observed | None:
        """Observe as when grading, then, with the kernel still there, find the smallest failing input."""

        def question(session: Session, left: float) -> Observed:
            seen = observe(session, asked, expression, left)
            if not (seen.trouble or seen.missing or seen.stopped):
                self.shown = tuple(_shown(seen))
                self.verdict = self._revealed(session, asked, expression, seen)
            return seen

        return self.runner.ask(name, question)

    def _revealed(self, session: Session, asked: Asked, expression: str, seen: Observed) -> Verdict:
        real = _real(asked.exercise)
        if real is None or real.trains:
            return judge(seen.questions, seen.observations, None, reveal=True)
        lost = False

        def observe_again(packed: bytes) -> bytes:
            nonlocal lost
            one = Observed() if lost else ask(session, asked.observer, expression, packed, AGAIN)
            lost = lost or one.lost
            return one.observations[0] if one.observations else b""

        return judge([_live(real, q) for q in seen.questions], seen.observations, observe_again, reveal=True)


AGAIN = 1.0
"""Seconds for observing each smaller input."""


def _real(exercise: str) -> Exercise | None:
    """The exercise with its right answer, which is needed to judge inputs that are not the round's own."""
    try:
        return known_exercise(exercise)
    except (UserError, BrokenExercise):
        return None


def _live(real: Exercise, question: Question) -> Question:
    """A question of the round that can also be asked other inputs."""
    live = Question(real, question.seed)
    live.__dict__.update(packed=question.packed, want=question.want, mistakes=question.mistakes)
    return live


def _shown(seen: Observed) -> Iterator[Shown]:
    for number, (question, observation) in enumerate(zip(seen.questions, seen.observations, strict=True), 1):
        exercise, found = question.exercise, read(observation)
        for name, arguments in wire.unpack(question.packed).items():
            got, want = found[name], question.want[name]
            example = explained(exercise, name, Failure(arguments, got, want), reveal=True)
            says = problem(exercise, got, want)
            yield Shown(number, name, not says, says, example.given, example.returned, example.expected)
