"""What nbgrader's converter calls to show a notebook: our feedback; and what comes before formgrader's own page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import Exporter
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from traitlets import default

from ampcourse.course import UserError, load_course
from ampcourse.grading import decisions
from ampcourse.grading.doors.clean import harmless
from ampcourse.grading.doors.hidden import Hidden, hidden_of
from ampcourse.grading.doors.page import Feedback, Mark, page
from ampcourse.grading.model import FAILED, MISSING, UNREADABLE
from ampcourse.grading.place import Place
from ampcourse.grading.records import DamagedRecord, Part, load_record


class FeedbackExporter(Exporter):
    """For `c.GenerateFeedback.exporter_class`: turns an autograded notebook into a student's feedback."""

    output_mimetype = "text/html"

    @default("file_extension")
    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(
        self, nb: NotebookNode, resources: Any | None = None, **options: Any
    ) -> tuple[str, dict[str, Any]]:
        """The page, from the notebook, the gradebook, the record and the decisions."""
        nb, resources = super().from_notebook_node(nb, resources, **options)
        place = Place(coursedir=self.parent.coursedir, config=self.config)
        about = resources["nbgrader"]
        feedback = read_feedback(place, about["assignment"], about["student"], about["notebook"], nb)
        return page(feedback, nb), resources


def read_feedback(place: Place, lesson: str, student: str, notebook: str, graded: NotebookNode | None) -> Feedback:
    """Everything that a student's page says about one notebook.

    Args:
        place: the course.
        lesson: nbgrader's assignment id.
        student: nbgrader's student id.
        notebook: the notebook's name.
        graded: the autograded notebook, whose cells give the questions' order; None if there is none.
    """
    part, marks, penalty = _part(place, lesson, student, notebook), *_marks(place, lesson, student, notebook)
    order = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in graded.cells] if graded else []
    names = sorted(marks, key=lambda name: order.index(name) if name in order else len(order))
    decided = decisions.load(place.root, lesson)
    found = {name: decisions.applying(decided, notebook, name) for name in names}
    lost = part is not None and part.status in (FAILED, UNREADABLE, MISSING)
    return Feedback(
        lesson=lesson,
        notebook=notebook,
        student=student,
        title=_title(place.root, lesson),
        status=(part.reason,) if part and part.reason else (),
        repairs=part.repairs if part else (),
        questions={q.grade_id: q for q in part.questions} if part else {},
        marks={} if lost and _untouched(marks) else {name: marks[name] for name in names},
        late_penalty=penalty,
        decisions={name: decisions.sentence(decision) for name, decision in found.items() if decision},
        hidden=_hidden(place, lesson, notebook, graded),
    )


def _untouched(marks: dict[str, Mark]) -> bool:
    """Whether no person has given any points yet."""
    return not any(mark.score for mark in marks.values())


def _part(place: Place, lesson: str, student: str, notebook: str) -> Part | None:
    try:
        record = load_record(place.root, lesson, student)
    except DamagedRecord:
        return None
    return next((part for part in record.parts if part.notebook == notebook), None) if record else None


def _marks(place: Place, lesson: str, student: str, notebook: str) -> tuple[dict[str, Mark], float]:
    """What the gradebook says of every cell, and the penalty for coming late."""
    with Gradebook(place.db_url, place.coursedir.course_id) as book:
        try:
            found = book.find_submission_notebook(notebook, lesson, student)
        except MissingEntry:
            return {}, 0.0
        said = {comment.name: comment.comment or "" for comment in found.comments}
        marks = {name: Mark(comment=text) for name, text in said.items()}
        for grade in found.grades:
            marks[grade.name] = Mark(
                float(grade.score or 0.0),
                float(grade.max_score),
                bool(grade.needs_manual_grade),
                said.get(grade.name, ""),
            )
        return marks, float(found.late_submission_penalty or 0.0)


def _title(root: Path, lesson: str) -> str:
    try:
        return load_course(root).lesson(lesson).title
    except UserError:
        return lesson


def _hidden(place: Place, lesson: str, notebook: str, graded: NotebookNode | None) -> Hidden:
    """What must not show: hidden parts of the graded notebook's own locked cells, and of the instructor's source."""
    notebooks = [graded] if graded else []
    path = place.source(lesson) / f"{notebook}.ipynb"
    if path.is_file():
        notebooks.append(nbformat.read(path, as_version=4))
    return hidden_of(*notebooks)


class Harmless(Preprocessor):
    """Before formgrader's template: leaves out what it would print without escaping."""

    enabled = True

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Show a copy that holds nothing that runs or loads."""
        return harmless(nb), resources
