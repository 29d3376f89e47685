"""Feedback for a lesson: one HTML page a student and notebook, by nbgrader's converter, as its own command does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampcourse.course import CourseError, load_course
from ampcourse.grading.model import GradingError
from ampcourse.grading.place import Place, open_place
from ampcourse.grading.records import load_records

__all__ = ["Made", "make_feedback"]


@dataclass(frozen=True)
class Made:
    """What came of making feedback.

    Attributes:
        pages: the pages that are there now, by student.
        problems: a sentence for each student without one.
    """

    pages: dict[str, tuple[Path, ...]]
    problems: tuple[str, ...] = ()


def make_feedback(
    course: Path | Place,
    lesson: str,
    students: Sequence[str] | None = None,
    tell: Callable[[str, str], None] | None = None,
) -> Made:
    """Write `feedback/STUDENT/LESSON/NOTEBOOK.html` for everybody who was graded.

    Args:
        course: the course directory.
        lesson: a lesson of the course by any of its names, or nbgrader's assignment id.
        students: these alone; everybody if None or empty.
        tell: called with a level and a sentence where something deserves a look.

    Raises:
        GradingError: if nobody was graded yet, or a named student was not.
    """
    place = course if isinstance(course, Place) else open_place(course)
    lesson = _name(place, lesson)
    graded = _graded(place, lesson)
    if not graded:
        raise GradingError(f"Nobody has been graded in '{lesson}': run `ampcourse grade {lesson}` first.")
    if unknown := [student for student in students or () if student not in graded]:
        names = ", ".join(f"'{student}'" for student in unknown)
        raise GradingError(f"There is nothing graded in '{lesson}' from {names}: run `ampcourse grade {lesson}` first.")
    pages, problems = {}, []
    for student in students or graded:
        made, problem = _convert(place, lesson, student)
        if problem:
            problems.append(f"{lesson}, {student}: {problem}")
            (tell or _quiet)("warning", problems[-1])
        else:
            pages[student] = made
    return Made(pages, tuple(problems))


def _name(place: Place, lesson: str) -> str:
    """nbgrader's assignment id: the slug of a lesson, or what was given, for a course without a course.toml."""
    try:
        return load_course(place.root).lesson(lesson).slug
    except CourseError:
        return lesson


def _graded(place: Place, lesson: str) -> list[str]:
    """Everybody who has a record or an autograded notebook, in order."""
    mark = "\N{OBJECT REPLACEMENT CHARACTER}"
    before, _, after = str(place.folder("autograded", mark, lesson)).partition(mark)
    folder = Path(before)
    names = {path.name for path in folder.glob("*") if Path(f"{path}{after}").is_dir()} if folder.is_dir() else set()
    return sorted(names | set(load_records(place.root, lesson)))


def _convert(place: Place, lesson: str, student: str) -> tuple[tuple[Path, ...], str]:
    """The pages of one student, or a sentence that says why there are none."""
    folder = place.folder("feedback", student, lesson)
    if not list(place.folder("autograded", student, lesson).glob("*.ipynb")):
        return _without_notebook(place, lesson, student, folder), ""
    said = _Last()
    log = logging.Logger("ampcourse-feedback", logging.WARNING)
    log.addHandler(said)
    try:
        _converter(place, lesson, student, log).start()
    except Exception as error:  # whatever one submission does to nbgrader's converter, the others get their pages
        return (), f"no feedback could be made: {said.line or ' '.join(str(error).split()) or type(error).__name__}"
    return tuple(sorted(folder.glob("*.html"))), ""


def _converter(place: Place, lesson: str, student: str, log: logging.Logger) -> Any:
    """nbgrader's converter, set for one student; a course without our configuration gets our pages as well."""
    from nbgrader.converters import GenerateFeedback
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    from ampcourse.grading.nbgrader_hooks import grade_with_ampcourse

    config = Config()
    grade_with_ampcourse(config)
    config.merge(place.config)
    config.GenerateFeedback.force = True
    coursedir = CourseDirectory(config=config, log=log, root=str(place.root), db_url=place.db_url)
    coursedir.assignment_id, coursedir.student_id = lesson, _literally(student)
    return GenerateFeedback(coursedir=coursedir, config=config, log=log)


def _literally(student: str) -> str:
    """A student's id as the pattern that fits it alone: nbgrader takes it for one."""
    import glob

    return glob.escape(student)


def _without_notebook(place: Place, lesson: str, student: str, folder: Path) -> tuple[Path, ...]:
    """Pages with nothing but the reason, where there is no graded notebook to show."""
    from ampcourse.grading.doors.exporter import read_feedback
    from ampcourse.grading.doors.page import page

    pages = []
    folder.mkdir(parents=True, exist_ok=True)
    for notebook in place.notebooks(lesson):
        path = folder / f"{notebook}.html"
        new = path.with_name(f".{path.name}.new")
        new.write_text(page(read_feedback(place, lesson, student, notebook, None), None), "utf-8")
        new.replace(path)
        pages.append(path)
    return tuple(pages)


class _Last(logging.Handler):
    """Keeps the last line that nbgrader logged as an error and that names an exception."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.line = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        lines = [line.strip() for line in record.getMessage().splitlines() if "Error" in line]
        self.line = lines[-1] if lines else self.line


def _quiet(level: str, sentence: str) -> None:
    """Says nothing."""
