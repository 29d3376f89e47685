"""Make the learners' notebooks from the sources, through nbgrader's own converter, and refuse what gives too much away.

The converter is the one that `nbgrader generate_assignment` runs, with the course's own `nbgrader_config.py`; it works
in a temporary folder and without the step that writes to a gradebook, so an instructor's gradebook is never touched.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from ampcourse.course import Course, Lesson, load_course
from ampcourse.grading.rules import ReleaseError, check_release, check_source

__all__ = ["ReleaseError", "is_current", "release"]

_CONFIG = "nbgrader_config.py"


def release(lessons: Sequence[str] | None = None, course_root: Path | None = None) -> list[Path]:
    """Make `release/` from `source/`. The same source gives the same bytes; what has not changed is not written.

    Args:
        lessons: slugs, names or numbers; all lessons of the course if None or empty.
        course_root: the folder with `course.toml`; this course's own if None.

    Returns:
        The released notebooks, in the course's order.

    Raises:
        ReleaseError: if a lesson cannot be released; then no lesson's old release has changed.
        CourseError: if the course or a lesson of it is not there.
    """
    course = load_course(course_root)
    wanted = {course.lesson(str(name)).slug for name in lessons or [lesson.slug for lesson in course.lessons]}
    chosen = [lesson for lesson in course.lessons if lesson.slug in wanted]
    sources = [_source(course, lesson) for lesson in chosen]
    with tempfile.TemporaryDirectory(prefix="ampcourse-release-") as scratch:
        made = _generate(course, chosen, Path(scratch).resolve())
        for lesson, source, folder in zip(chosen, sources, made, strict=True):
            check_release(lesson, source, nbformat.read(folder / f"{lesson.slug}.ipynb", as_version=4))
        try:
            _replace(course, made)
        except OSError as error:
            raise ReleaseError(f"The release cannot be written ({error}); the old one is as it was.") from None
    return [course.release(lesson) for lesson in chosen]


def is_current(lesson: str, course_root: Path | None = None) -> bool:
    """Whether a lesson's `release/` is what its source gives now; nothing is written.

    Raises:
        ReleaseError: if the lesson could not be released at all.
        CourseError: if the course or the lesson is not there.
    """
    course = load_course(course_root)
    chosen = course.lesson(lesson)
    source = _source(course, chosen)
    with tempfile.TemporaryDirectory(prefix="ampcourse-release-") as scratch:
        (folder,) = _generate(course, [chosen], Path(scratch).resolve())
        check_release(chosen, source, nbformat.read(folder / f"{chosen.slug}.ipynb", as_version=4))
        return _content(folder) == _content(course.release(chosen).parent)


def _source(course: Course, lesson: Lesson) -> Any:
    path = course.source(lesson)
    if not path.is_file():
        raise ReleaseError(f"'{path}' is not there: releases are made in a clone, which holds the source notebooks.")
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:
        raise ReleaseError(f"'{path}' is not a valid notebook: {_line(str(error))}.") from None
    check_source(lesson, notebook)
    for file in path.parent.rglob("*"):
        if file.suffix == ".ipynb" and file != path and ".ipynb_checkpoints" not in file.parts:
            raise ReleaseError(f"'{file}' would be released too: keep one notebook, '{path.name}', in its folder.")
        if not (file.name.isascii() and file.name.replace(".", "").replace("-", "").replace("_", "").isalnum()):
            raise ReleaseError(f"'{file}' has an awkward name: use letters, digits, '.', '_' and '-'.")
    return notebook


def _generate(course: Course, lessons: Sequence[Lesson], scratch: Path) -> list[Path]:
    """The folders of the released lessons, in a scratch copy of the course."""
    try:
        from nbgrader.converters import GenerateAssignment
        from nbgrader.converters.base import NbGraderException
        from nbgrader.coursedir import CourseDirectory
        from nbgrader.preprocessors import SaveCells
    except ImportError:
        raise ReleaseError("nbgrader is not installed here: pip install 'ampcourse[grading]'.") from None
    config = _config(course.root / _CONFIG)
    config.CourseDirectory.root = str(scratch)
    config.GenerateAssignment.no_database = True
    steps = config.GenerateAssignment.get("preprocessors", GenerateAssignment.preprocessors.default())
    config.GenerateAssignment.preprocessors = [step for step in steps if step is not SaveCells]
    for lesson in lessons:
        folder = course.source(lesson).parent
        ignored = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
        shutil.copytree(folder, scratch / "source" / lesson.slug, ignore=ignored)
        log, said = _silent_log()
        directory = CourseDirectory(config=config, assignment_id=lesson.slug, log=log)
        try:
            GenerateAssignment(coursedir=directory, config=config, log=log).start()
        except (NbGraderException, SystemExit, OSError) as error:
            reason = next((line for line in reversed(said.errors) if "Error" in line), str(error))
            raise ReleaseError(f"nbgrader cannot release '{lesson.slug}': {_line(reason)}.") from None
    return [scratch / "release" / lesson.slug for lesson in lessons]


def _config(path: Path) -> Any:
    from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

    try:
        return PyFileConfigLoader(path.name, path=str(path.parent)).load_config()
    except ConfigFileNotFound:
        raise ReleaseError(f"'{path}' is not there: a course needs it beside its course.toml.") from None
    except (Exception, SystemExit) as error:
        raise ReleaseError(f"'{path}' cannot be used: {_line(f'{type(error).__name__}: {error}')}.") from None


class _Errors(logging.Handler):
    """Keeps the lines that nbgrader logs as errors, tracebacks among them, so that a sentence can name the reason."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record's lines."""
        self.errors += [line for line in record.getMessage().splitlines() if line.strip()]


def _silent_log() -> tuple[logging.Logger, _Errors]:
    log, said = logging.Logger("ampcourse.release", logging.ERROR), _Errors()
    log.addHandler(said)
    return log, said


def _replace(course: Course, made: Sequence[Path]) -> None:
    """Put the new folders in place of the old ones, all of them or none.

    Raises:
        OSError: if a folder cannot be written or moved; the old ones are back in their places then.
    """
    changed = [folder for folder in made if _content(folder) != _content(course.root / "release" / folder.name)]
    if not changed:
        return
    (course.root / "release").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=course.root) as inside:
        new, old = Path(inside) / "new", Path(inside) / "old"
        old.mkdir()
        for folder in changed:  # a full disk shows here, while the old release is still in place
            shutil.copytree(folder, new / folder.name)
        moved: list[str] = []
        try:
            for name in [folder.name for folder in changed]:
                place = course.root / "release" / name
                if place.exists():
                    place.rename(old / name)
                moved.append(name)
                (new / name).rename(place)
        except BaseException:
            for name in moved:
                _restore(old / name, course.root / "release" / name)
            raise


def _restore(old: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    if old.exists():
        old.rename(place)


def _content(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and ".ipynb_checkpoints" not in file.parts)
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def _line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
    return first.rstrip(".") if len(first) <= 300 else first[:299] + "…"
