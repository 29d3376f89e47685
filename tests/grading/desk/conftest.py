"""A class whose scores are written without running anything: what the desk reads is what grading leaves behind."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ampcourse.grading import records
from ampcourse.grading.database import open_gradebook
from ampcourse.grading.entry import enter_assignment
from ampcourse.grading.gradebook import Book, Result
from ampcourse.grading.model import FAILED, GRADED, MISSING, PARTLY, QuestionResult
from ampcourse.grading.place import Place, open_place

MINI = "07_mini"
POINTS = {"double-check": 2.0, "total-check": 3.0, "own-test": 1.0, "why": 2.0}


def questions(**scores: float) -> tuple[QuestionResult, ...]:
    """Every graded cell of the mini lesson; written answers wait, what is not named is full."""
    given = {name.replace("_", "-"): score for name, score in scores.items()}
    found = []
    for name, points in POINTS.items():
        kind = {"why": "written", "own-test": "test"}.get(name, "judged")
        score = None if name == "why" else given.get(name, points)
        outcome = "written" if name == "why" else "right" if score == points else "wrong"
        exercise = f"mini.{name.partition('-')[0]}" if kind == "judged" else ""
        found.append(QuestionResult(name, kind, points, score, outcome, exercise))
    return tuple(found)


class Desk:
    """A course whose submissions, records and gradebook the test makes by hand."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def hand_in(self, *students: str) -> None:
        for student in students:
            folder = self.place.folder("submitted", student, MINI)
            folder.mkdir(parents=True)
            (folder / f"{MINI}.ipynb").write_text("{}")

    def grade(self, student: str, status: str = GRADED, reason: str = "", late: float = 0.0, **scores: float) -> None:
        """Hand in and write what a run of grading writes; `late` in seconds."""
        if not self.place.folder("submitted", student, MINI).exists():
            self.hand_in(student)
        asked = questions(**scores) if status in (GRADED, PARTLY) else ()
        due = datetime.datetime(2026, 6, 1)
        from ampcourse.grading import decisions

        decided = decisions.load(self.place.root, MINI)
        with open_gradebook(self.place) as book:
            enter_assignment(self.place, book, MINI)
            book.find_assignment(MINI).duedate = due
            book.db.commit()
            if status not in (MISSING, FAILED):
                result = Result(MINI, status, reason, asked, {})
                stamp = due + datetime.timedelta(seconds=late)
                Book(self.place, book, MINI).write(student, [result], stamp, decided)
        part = records.Part(MINI, status, reason, questions=asked)
        record = records.Record(student, MINI, (part,), "key", student, "assignment", "2026-06-02T00:00:00+00:00")
        records.save_record(self.place.root, record)

    def mark(self, student: str, cell: str, points: float) -> None:
        """Give points by hand, as formgrader does."""
        with open_gradebook(self.place) as book:
            grade = book.find_grade(cell, MINI, MINI, student)
            grade.manual_score, grade.needs_manual_grade = points, False
            book.db.commit()

    def grades(self, student: str) -> dict[str, tuple[float | None, float | None, bool]]:
        """Automatic points, points by hand, whether a person must look, by cell."""
        with open_gradebook(self.place) as book:
            (notebook,) = book.find_submission(MINI, student).notebooks
            return {g.name: (g.auto_score, g.manual_score, g.needs_manual_grade) for g in notebook.grades}

    def penalty(self, student: str) -> float:
        with open_gradebook(self.place) as book:
            return book.find_submission(MINI, student).late_submission_penalty

    def students(self, *names: str) -> None:
        with open_gradebook(self.place) as book:
            for name in names:
                book.add_student(name)


@pytest.fixture
def desk(mini: Path) -> Desk:
    return Desk(open_place(mini))


@pytest.fixture
def commands(desk: Desk, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """A command of the desk, as typed: exit code, what it printed, what it told on stderr."""
    from ampcourse.cli import Commands
    from ampcourse.commands import desk as module

    group = Commands("ampcourse")
    for command in (module.export, module.status, module.full_points, module.verify, module.explain, module.course):
        group.add_command(command)

    def run(*words: Any, course: bool = True) -> tuple[int, str, str]:
        capsys.readouterr()
        place = ["--course", str(desk.place.root)] if course else []
        with pytest.raises(SystemExit) as end:
            group.main([*map(str, words), *place], prog_name="ampcourse")
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return run
