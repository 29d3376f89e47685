"""Run a repaired notebook in a kernel that is not trusted, and give every graded cell its outcome."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

import nbformat
from nbformat import NotebookNode

from ampcourse.exercises.frames import clean
from ampcourse.grading import withhold
from ampcourse.grading.cells import PARAMETERS, about, checked_exercise, graded_parameters, tags
from ampcourse.grading.document import Repaired
from ampcourse.grading.model import Asked, Assignment, QuestionResult, Starter
from ampcourse.grading.submission import judged as j
from ampcourse.grading.submission import outputs as out
from ampcourse.grading.submission.forbidden import used
from ampcourse.grading.submission.observed import Observed, answer_in, observe
from ampcourse.grading.submission.runner import NOT_RUN, Runner, Step
from ampcourse.grading.submission.session import DIED, FLOODED, TIMEOUT, Reply, Session
from ampcourse.grading.submission.tests_inside import BEGIN_HIDDEN, parts, read_outcome, without_hidden
from ampcourse.grading.submission.written import read_written

LEFT_OUT = "[while grading, what would answer an exercise is not there, so this cell, or a part of it, was not run]\n"
_NOTED = {j.TIMED_OUT, j.DIED, j.FLOODED, j.NO_CELL}


@dataclass(frozen=True)
class Ran:
    """What came of running one notebook.

    Attributes:
        notebook: with the outputs from which nbgrader reads the scores.
        questions: every graded cell, in order.
        notes: what the instructor should see.
        partly: what deserves a look, as one sentence; empty if nothing does.
        log: what happened when.
        restarts: how often the kernel was started anew.
        seconds: wall time.
    """

    notebook: NotebookNode
    questions: tuple[QuestionResult, ...]
    notes: tuple[str, ...] = ()
    partly: str = ""
    log: tuple[str, ...] = ()
    restarts: int = 0
    seconds: float = 0.0


def run_notebook(
    repaired: Repaired,
    assignment: Assignment,
    starter: Starter,
    *,
    files: Mapping[str, bytes] | None = None,
    examples: bool = True,
) -> Ran:
    """Run a notebook that has the source's structure, and judge it.

    Args:
        repaired: the submission; the outputs of its notebook are set.
        assignment: what is asked.
        starter: starts the kernels.
        files: the submission's other files; the assignment's own win.
        examples: whether feedback may show the input on which an answer fails, and what was printed there.

    Raises:
        GradingError: if no kernel can be started.
        BrokenExercise: if an exercise is at fault, which is nobody's zero.
    """
    runner = Runner(starter, {**(files or {}), **assignment.files}, assignment.settings)
    try:
        return Run(repaired, assignment, runner, examples).all()
    finally:
        runner.close()


class Run:
    """One pass through the cells."""

    def __init__(self, repaired: Repaired, assignment: Assignment, runner: Runner, examples: bool) -> None:
        self.notebook, self.assignment, self.runner, self.examples = repaired.notebook, assignment, runner, examples
        self.missing = frozenset(repaired.missing)
        self.settings = assignment.settings
        source, self.instead = _prepared(assignment.source, assignment.box.withheld)
        given = [source.cells[at] if at is not None else None for at in repaired.origins]
        self.given = dict(zip(map(id, self.notebook.cells), given, strict=True))
        self.room = out.Room(self.settings)
        self.number = 0
        self.early = True
        """Before the first answer: these cells import, and have the time that starting has."""
        self.answer: NotebookNode | None = None
        self.troubles: dict[str, tuple[str, str]] = {}
        """How the cell of an answer, or the cell that defines a name, went wrong: outcome and sentence."""
        self.questions: list[QuestionResult] = []
        self.own: list[str] = []
        """The student's code so far: answers and cells of their own."""
        self.against: list[str] = []
        """Which answers use what their task asks not to use, one sentence each."""
        self.remarks: list[str] = []
        """Cells that did not come to their end, one sentence each."""

    def all(self) -> Ran:
        """Every cell, in order."""
        for place, cell in enumerate(self.notebook.cells):
            self.cell(cell, f"cell {place + 1}{_named(cell)}")
        inside = sum(q.kind == "test" for q in self.questions)
        notes = [f"{inside} test {_cells(inside)} graded inside the student's process."] if inside else []
        notes += self.against
        noted = [*self.remarks, *(f"'{q.grade_id}': {q.outcome}." for q in self.questions if q.outcome in _NOTED)]
        return Ran(
            self.notebook,
            tuple(self.questions),
            tuple(notes),
            " ".join(noted),
            tuple(self.runner.log),
            self.runner.restarts,
            self.runner.seconds(),
        )

    def cell(self, cell: NotebookNode, name: str) -> None:
        """One cell, by its kind."""
        graded, solution = bool(about(cell).get("grade")), bool(about(cell).get("solution"))
        if solution:
            self.early, self.answer = False, cell
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if solution or self.given[id(cell)] is None:
                self.own.append(cell.source)
            asked = self._asked(cell) if graded and not solution else None
            if asked is not None:
                self.judged(cell, name, asked)
            elif graded and not solution:
                self.test(cell, name)
            else:
                self.ordinary(cell, name)
        elif not solution and not about(cell).get("task"):
            return
        if (graded and (solution or cell.cell_type != "code")) or about(cell).get("task"):
            missing = about(cell)["grade_id"] in self.missing
            self.questions.append(read_written(cell, self.given[id(cell)], missing))

    # ------------------------------------------------------------------ kinds of cells

    def ordinary(self, cell: NotebookNode, name: str) -> None:
        """A cell whose outputs are only shown."""
        if PARAMETERS in tags(cell) and not about(cell).get("grade_id"):
            cell.source = graded_parameters(cell.source)
        texts = [text for text in self._texts(cell) if text.strip()]
        if not cell.source.strip():
            return
        outputs, endings = self._outputs(cell), []
        for text in texts:
            reply = self.runner.run(Step(name, text, self._seconds()), outputs.take)
            endings += self._ending(cell, name, reply)
        cell.outputs = [*outputs.stored(), *endings]
        if texts != [cell.source]:
            cell.outputs.append(out.stream(LEFT_OUT))

    def test(self, cell: NotebookNode, name: str) -> None:
        """The instructor's own test, run inside the student's process."""
        replies, collected, ran = [], [], []
        number = self._count(cell)
        for part in parts(cell.source):
            outputs = out.Outputs(self.settings, self.room, number, calm=True)
            step = Step(name, part.code, self._seconds(), {"store_history": False})
            replies.append(self.runner.run(step, outputs.take))
            collected.append(outputs)
            ran.append(part)
            if replies[-1].status != "ok":
                break
        found = read_outcome(cell, replies, collected, ran, number)
        if replies[-1].status == NOT_RUN:
            found = _replaced(found, self._why_over(), self.runner.over)
            cell.outputs = [out.error("NotRun", self.runner.over)]
        if BEGIN_HIDDEN in cell.source:
            cell.source = without_hidden(cell.source)
        self.questions.append(found)

    def judged(self, cell: NotebookNode, name: str, asked: Asked) -> None:
        """A check: nothing of it is executed; the answer is observed there and judged here."""
        grade_id, points, number = about(cell)["grade_id"], float(about(cell)["points"]), self._count(cell)
        exercise = asked.questions[0].exercise
        seen = self.look(name, asked, answer_in(cell.source))
        trouble = self._trouble(seen)
        if trouble is not None:
            one = j.told(grade_id, points, exercise, *trouble, number)
        elif seen is None:
            one = j.told(grade_id, points, exercise, self._why_over(), self.runner.over, number)
        else:
            why = self.runner.died_of if seen.trouble == DIED else ""
            one = j.judged(grade_id, points, asked, seen, number, self.examples, why)
        if one.result.outcome == j.NOT_ATTEMPTED and self._missing():
            one = j.told(grade_id, points, exercise, j.NO_CELL, "The answer's cell was not in the notebook.", number)
        writes = [text for text in self.own if answer_in(cell.source) in bound(text)] if exercise.forbids else []
        if one.result.score and (names := used(writes, exercise.forbids)):
            self.against.append(f"'{grade_id}': the answer uses {' and '.join(names)}, which its task asks not to use.")
        cell.outputs = list(one.outputs)
        self.questions.append(one.result)

    def look(self, name: str, asked: Asked, expression: str) -> Observed | None:
        """Observe an answer; None if there is no kernel any more."""

        def question(session: Session, left: float) -> Observed:
            return observe(session, asked, expression, left)

        return self.runner.ask(name, question)

    # ------------------------------------------------------------------ helpers

    def _asked(self, cell: NotebookNode) -> Asked | None:
        exercise = checked_exercise(cell.source)
        return self.assignment.asked.get(exercise) if exercise else None

    def _texts(self, cell: NotebookNode) -> list[str]:
        """What is run for a cell: its text, or, where that needs something withheld, what the source allows.

        A given cell that the student has changed runs after that: it may define what their answers need.
        """
        given = self.given[id(cell)]
        if given is None or about(cell).get("solution") or given.source.strip() not in self.instead:
            return [cell.source]
        allowed = self.instead[given.source.strip()]
        return [allowed] if cell.source.strip() == given.source.strip() else [allowed, cell.source]

    def _seconds(self) -> float:
        return max(self.settings.cell_seconds, self.settings.start_seconds if self.early else 0)

    def _count(self, cell: NotebookNode) -> int:
        self.number += 1
        cell.execution_count = self.number
        return self.number

    def _outputs(self, cell: NotebookNode) -> out.Outputs:
        return out.Outputs(self.settings, self.room, self._count(cell))

    def _ending(self, cell: NotebookNode, name: str, reply: Reply) -> list[NotebookNode]:
        """What is added to the outputs of a cell that did not end well; also remembered for its answer."""
        names = [*bound(cell.source), about(cell).get("grade_id", "")]
        if reply.status == "error":
            trouble = (j.RAISED, f"Its cell stopped with {_said(reply)}.")
        elif reply.status == TIMEOUT:
            trouble = (j.TIMED_OUT, f"Its cell was still running after {self._seconds():g} seconds.")
        elif reply.status == FLOODED:
            trouble = (j.FLOODED, "Its cell sent more output than anybody reads.")
        elif reply.status == DIED:
            why = f": {self.runner.died_of}" if self.runner.died_of else ""
            trouble = (j.DIED, f"Its cell ended the process that it ran in{why}.")
        elif reply.status == NOT_RUN:
            trouble = (self._why_over(), self.runner.over)
        else:
            return []
        self.troubles |= {name: trouble for name in names if name}
        if reply.status == "error":
            return []
        self.remarks.append(f"{name}: {trouble[1].replace('Its cell', 'it')}")
        return [out.error("Stopped", trouble[1].replace("Its cell", "This cell"))]

    def _trouble(self, seen: Observed | None) -> tuple[str, str] | None:
        """Why a name is missing, if its cell is known to have gone wrong."""
        if seen is None or not seen.missing:
            return None
        answer = about(self.answer)["grade_id"] if self.answer is not None else ""
        found = self.troubles.get(seen.missing) or self.troubles.get(answer)
        return (found[0], f"The name `{seen.missing}` is not defined. {found[1]}") if found else None

    def _missing(self) -> bool:
        return self.answer is not None and about(self.answer)["grade_id"] in self.missing

    def _why_over(self) -> str:
        return j.TIMED_OUT if "longer than" in self.runner.over else j.DIED


@functools.lru_cache(maxsize=8)
def _prepared(source: bytes, withheld: tuple[str, ...]) -> tuple[NotebookNode, dict[str, str]]:
    """The instructor's notebook, and what is run in the place of some of its cells; neither is changed."""
    notebook = nbformat.reads(source.decode("utf-8"), as_version=4)
    return notebook, withhold.runs_instead(notebook, withheld)


def bound(source: str) -> set[str]:
    """The names that a cell's own statements define; none where it cannot be read."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


def _said(reply: Reply) -> str:
    """The error with which a cell stopped, in a few words."""
    kind, text = (clean(str(reply.content.get(key, "")), 200) for key in ("ename", "evalue"))
    if kind == "StdinNotImplementedError":
        return "input(), which nobody can answer while grading"
    text = _CELL_FILE.sub("(", text)
    return (f"{kind}: {text}" if text else kind).rstrip(".") or "an error"


_CELL_FILE = re.compile(r"\(\d+\.py, ")
"""IPython's name for a cell, which nobody knows."""


def _named(cell: NotebookNode) -> str:
    name = about(cell).get("grade_id")
    return f" ('{name}')" if name else ""


def _cells(count: int) -> str:
    return "cell was" if count == 1 else "cells were"


def _replaced(found: QuestionResult, outcome: str, reason: str) -> QuestionResult:
    return QuestionResult(found.grade_id, found.kind, found.points, 0.0, outcome, reason=reason)
