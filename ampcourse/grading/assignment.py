"""One notebook of one lesson in one grading round, with all that a worker needs to grade a submission of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from nbformat import NotebookNode

from ampcourse.course import UserError, load_course
from ampcourse.exercises import check, private
from ampcourse.exercises.model import Exercise
from ampcourse.exercises.recorded import RecordedQuestion, observer_name
from ampcourse.exercises.wire import pack
from ampcourse.grading.boxes import checked, make_box, read_source
from ampcourse.grading.cells import about, checked_exercise
from ampcourse.grading.model import Asked, Assignment, Box, GradingError
from ampcourse.grading.references import Tell, judging_sources, questions
from ampcourse.grading.rounds import Round, load_round
from ampcourse.grading.rules import check_source
from ampcourse.grading.settings import Settings, exercises_folder, load_settings

SOURCE = "source"
_LEFT_OUT = {".ipynb_checkpoints", "__pycache__"}


def make_assignment(
    course_root: Path,
    lesson: str,
    notebook: str | None = None,
    settings: Settings | None = None,
    exercises_dir: Path | None = None,
    jobs: int = 1,
    tell: Tell | None = None,
) -> Assignment:
    """An assignment's notebook, ready for grading.

    Args:
        course_root: a course directory of this package, or a plain one of nbgrader.
        lesson: nbgrader's assignment id; here the slug.
        notebook: its name without suffix; not needed where the assignment has only one.
        settings: limits and times; those of `course.toml` if None.
        exercises_dir: a private folder of exercises; by default the one that course.toml names.
        jobs: processes at a time for working out what is right.
        tell: told in a sentence what takes a while, and what deserves a look.

    Raises:
        UserError: if there is no such assignment, or something in it does not fit; the sentence says what.
        BrokenExercise: if a right answer fails: nobody's score may be written then.
    """
    names = notebooks(course_root, lesson)
    if notebook is None and len(names) > 1:
        raise GradingError(f"'{lesson}' has several notebooks ({', '.join(names)}): say which.")
    if notebook is not None and notebook not in names:
        raise GradingError(f"'{lesson}' has no notebook '{notebook}'; there are: {', '.join(names)}.")
    chosen = notebook or names[0]
    return _made(Path(course_root), lesson, [chosen], settings, exercises_dir, jobs, tell)[0]


def assignments(
    course_root: Path,
    lesson: str,
    settings: Settings | None = None,
    exercises_dir: Path | None = None,
    jobs: int = 1,
    tell: Tell | None = None,
) -> tuple[Assignment, ...]:
    """All notebooks of an assignment, in the order of their names; see `make_assignment`."""
    names = notebooks(course_root, lesson)
    return tuple(_made(Path(course_root), lesson, names, settings, exercises_dir, jobs, tell))


def notebooks(course_root: Path, lesson: str) -> list[str]:
    """The names of an assignment's notebooks.

    Raises:
        GradingError: if the assignment is not there, or holds none.
    """
    folder = Path(course_root) / SOURCE / lesson
    if not lesson or lesson != Path(lesson).name or lesson.startswith("."):
        raise GradingError(f"'{lesson}' is no name of an assignment: give a folder's name in '{folder.parent}'.")
    if not folder.is_dir():
        there = sorted(p.name for p in folder.parent.glob("*") if p.is_dir() and not p.name.startswith("."))
        known = f"there are: {', '.join(there)}" if there else "there is none yet"
        raise GradingError(f"'{folder}' is not there: the instructor's notebooks are needed for grading; {known}.")
    found = sorted(p.stem for p in folder.glob("*.ipynb") if p.is_file())
    if not found:
        raise GradingError(f"'{folder}' holds no notebook: put the instructor's notebook there.")
    return found


def _made(
    root: Path,
    lesson: str,
    names: Iterable[str],
    settings: Settings | None,
    exercises_dir: Path | None,
    jobs: int,
    tell: Tell | None,
) -> list[Assignment]:
    settings = settings if settings is not None else load_settings(root)
    made, files = [], _files(root / SOURCE / lesson)
    exercises_dir = exercises_folder(root, exercises_dir)
    with private.using(exercises_dir):
        for name in names:
            content = _bytes(root / SOURCE / lesson / f"{name}.ipynb")
            notebook = read_source(lesson, content)
            _check(root, lesson, notebook)
            box = make_box(lesson, notebook, exercises_dir)
            exercises = [check.exercise(one) for one in checked(notebook)]
            asked: dict[str, Asked] = {}
            round_ = None
            if exercises:
                round_ = load_round(root, lesson)
                asked = _asked(questions(root, round_, exercises, jobs, tell, settings.gpu), exercises, settings)
            digest = _digest(content, files, asked, box, settings, round_)
            made.append(Assignment(lesson, name, content, files, asked, box, settings, digest))
    return made


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise GradingError(f"'{path}' cannot be read: {error.strerror}.") from None


def _files(folder: Path) -> dict[str, bytes]:
    """What lies beside the notebooks, by relative path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part in _LEFT_OUT or part.startswith(".") for part in relative.parts)
        if path.is_file() and path.suffix != ".ipynb" and not hidden:
            found[relative.as_posix()] = _bytes(path)
    return found


def _check(root: Path, lesson: str, notebook: NotebookNode) -> None:
    """Whether the source fits the course, its exercises and itself.

    Raises:
        UserError: at the first thing that does not.
    """
    for name in checked(notebook):
        try:
            check.exercise(name)
        except check.ExerciseError as error:
            own = "" if private.folder() else " If it is of your own, give its folder with --exercises."
            raise GradingError(f"'{lesson}' checks something unknown. {error}{own}") from None
    lessons = load_course(root).lessons if _lists_lessons(root / "course.toml") else ()
    if (listed := next((one for one in lessons if one.slug == lesson), None)) is not None:
        check_source(listed, notebook)
        return
    seen: set[str] = set()
    for cell in notebook.cells:
        name = about(cell).get("grade_id")
        if not name:
            continue
        if name in seen:
            raise GradingError(f"'{lesson}': the grade_id '{name}' is there twice: rename one.")
        seen.add(name)
        if about(cell).get("grade") and cell.cell_type == "code" and (asked := checked_exercise(cell.source)):
            worth, points = check.exercise(asked).max_score, about(cell).get("points", 0)
            if not isinstance(points, int | float) or not math.isclose(points, worth):
                raise GradingError(
                    f"'{lesson}', cell '{name}' gives {points} points, but '{asked}' is worth {worth:g}: "
                    "make both agree."
                )


def _lists_lessons(path: Path) -> bool:
    """Whether this is a course of this package; a plain directory of nbgrader may have limits in course.toml too."""
    try:
        return "lesson" in tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True  # reading it as a course says what is wrong


def _asked(
    found: Mapping[str, tuple[RecordedQuestion, ...]], exercises: Iterable[Exercise], settings: Settings
) -> dict[str, Asked]:
    asked = {}
    for exercise in exercises:
        seconds = settings.cell_seconds if exercise.trains else min(check.SECONDS, settings.cell_seconds)
        asked[exercise.id] = Asked(exercise.id, observer_name(exercise), found[exercise.id], seconds)
    return asked


def _digest(
    content: bytes,
    files: Mapping[str, bytes],
    asked: Mapping[str, Asked],
    box: Box,
    settings: Settings,
    round_: Round | None,
) -> str:
    """Changes whenever a score could: the notebook, what is asked and right, what is there, how it is judged."""
    parts = [("notebook", content), ("settings", json.dumps(dataclasses.asdict(settings)).encode("ascii"))]
    parts.append(("round", f"{round_.number} {round_.seed_id}".encode() if round_ is not None else b""))
    parts += [(f"file {name}", data) for name, data in sorted(files.items())]
    parts += [(f"box {name}", data) for name, data in sorted(box.package.items())]
    parts += [(f"judged by {name}", data) for name, data in judging_sources()]
    for name, one in sorted(asked.items()):
        judged = one.questions[0].exercise
        says = [name, one.observer, one.seconds, dict(judged.points), judged.rtol, judged.atol, judged.dtype]
        parts.append(("asked", json.dumps([*says, [m.says for m in judged.mistakes]]).encode("ascii")))
        for question in one.questions:
            parts += [("packed", question.packed), ("want", pack({k: dict(v) for k, v in question.want.items()}))]
    total = hashlib.sha256()
    for name, data in parts:
        total.update(f"{name} {len(data)}\n".encode())
        total.update(data)
    return total.hexdigest()


__all__ = ["Assignment", "UserError", "assignments", "make_assignment", "notebooks"]
