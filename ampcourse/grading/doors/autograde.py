"""`nbgrader autograde` and formgrader's button, graded as `ampcourse grade` does: by the same function.

nbgrader's own way writes half-done files into `autograded/`, commits cell by cell and deletes what was there when a
submission fails, so that old scores could not stay. Its options keep their meaning here.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from nbgrader.converters.base import NbGraderException
from traitlets import Bool, Integer
from traitlets.config import Configurable

from ampcourse.course import UserError
from ampcourse.exercises.model import BrokenExercise
from ampcourse.grading.model import FAILED, UNREADABLE
from ampcourse.grading.place import Place

UNSAFE = "AMPCOURSE_UNSAFE_NO_SANDBOX"
_T = TypeVar("_T")


class AmpGrade(Configurable):
    """What nbgrader_config.py can say about grading: `c.AmpGrade.jobs = 4`."""

    enabled = Bool(False, help="Grade as `ampcourse grade` does; `hooks.grade_with_ampcourse(c)` sets it.").tag(
        config=True
    )
    unsafe_no_sandbox = Bool(
        False, help="Run students' code without isolation. It can read and change everything that you can."
    ).tag(config=True)
    jobs = Integer(0, min=0, help="Submissions at a time; 0: as many as the machine carries.").tag(config=True)

    @property
    def unsafe(self) -> bool:
        """Whether somebody asked for grading without isolation, here or in the environment."""
        return self.unsafe_no_sandbox or os.environ.get(UNSAFE) == "1"


def autograde(converter: Any) -> None:
    """Grade what nbgrader's converter was asked to grade.

    Args:
        converter: an `Autograde` of nbgrader with its course directory and options.

    Raises:
        NbGraderException: if nobody could be graded, or at the end, if a submission has no score; the message is a
            sentence for each. nbgrader's commands turn it into exit code 1.
    """
    converter.ampcourse_said = []
    try:
        problems = _grade(converter)
    except UserError as error:
        problems = [str(error)]
    except BrokenExercise as error:
        problems = [f"An exercise of the course is broken, so nothing is graded: {error}"]
    if problems:
        converter.ampcourse_said = problems
        for problem in problems:
            converter.log.error("%s", problem)
        raise NbGraderException("\n".join(problems)) from None


def _grade(converter: Any) -> list[str]:
    """A sentence for each submission without a score."""
    log, coursedir, asked = converter.log, converter.coursedir, AmpGrade(config=converter.config)
    for sentence in _unused(converter):
        log.warning("%s", sentence)
    if converter.config.get("Execute", {}).get("enabled", True) is False:
        return ["Nothing was graded: --no-execute would give full points to whoever hands in cells without outputs."]
    place, lesson = Place(coursedir=coursedir, config=converter.config), coursedir.assignment_id
    students = _students(place, lesson)
    if not students:
        return [f"Nothing was graded: no submission of '{lesson}' matches '{coursedir.student_id}' in 'submitted'."]
    if missing := _notebooks(place, lesson):
        return [missing]
    converter.run_pre_convert_hook()
    summary = _outside_the_loop(lambda: _lesson(converter, asked, place, lesson, students))
    converter.run_post_convert_hook()
    return [line for result in summary.results if (line := _told(log, lesson, result))]


def _lesson(converter: Any, asked: AmpGrade, place: Place, lesson: str, students: list[str]) -> Any:
    from ampcourse.grading.batch import grade_lesson

    levels = {"error": converter.log.warning, "warning": converter.log.warning}  # errors stand at the end, once

    def tell(level: str, sentence: str) -> None:
        levels.get(level, converter.log.info)("%s", sentence)

    return grade_lesson(
        place,
        lesson,
        students=students,
        jobs=1 if len(students) == 1 else asked.jobs or None,
        unsafe=asked.unsafe,
        fresh=bool(converter.force),
        create_students=bool(converter.create_student),
        tell=tell,
    )


def _told(log: Any, lesson: str, result: Any) -> str:
    """Say that a submission was up to date; the sentence that says why there is no score, if there is none."""
    whose = f"{lesson}, {result.student}"
    if result.status in (FAILED, UNREADABLE):
        return f"{whose}: {result.reason}"
    if not result.graded:
        log.info("Skipping existing assignment: %s: nothing has changed since it was graded", whose)
    return ""


def _students(place: Place, lesson: str) -> list[str]:
    """Those whom nbgrader's option --student, which may be a pattern, means."""
    known, wanted = place.students(lesson), str(place.coursedir.student_id)
    return [wanted] if wanted in known else [name for name in known if fnmatch.fnmatchcase(name, wanted)]


def _notebooks(place: Place, lesson: str) -> str:
    """A sentence if nbgrader's option --notebook fits no notebook. All of an assignment are graded together."""
    wanted, names = str(place.coursedir.notebook_id), place.notebooks(lesson)
    if wanted == "*" or fnmatch.filter(names, wanted) or wanted in names:
        return ""
    return f"Nothing was graded: '{lesson}' has no notebook '{wanted}'; there are: {', '.join(names)}."


def _unused(converter: Any) -> Iterator[str]:
    """What an instructor's configuration says, and what does not count here."""
    config = converter.config
    steps = [name for name in ("sanitize_preprocessors", "autograde_preprocessors") if name in config.Autograde]
    if steps:
        yield f"c.Autograde.{' and c.Autograde.'.join(steps)} are not used: ampcourse grades without preprocessors."
    if "timeout" in config.get("Execute", {}):
        yield "c.Execute.timeout is not used: set cell_seconds in the table [grading] of course.toml."


def _outside_the_loop(work: Callable[[], _T]) -> _T:
    """Do the work in a thread if this one runs an event loop, as Jupyter's server does; nothing in it may meet that."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
