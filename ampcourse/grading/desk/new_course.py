"""A course directory of one's own: sources, releases and settings, with room for submissions, outside the clone."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ampcourse.course import Course, UserError, load_course
from ampcourse.reproduce import files

_PARTS = ("course.toml", "nbgrader_config.py", "source", "release")


class NewCourseError(UserError):
    """The course directory cannot be made there."""


def new_course(folder: Path) -> Course:
    """Make a course directory with all lessons, whole or not at all.

    Raises:
        NewCourseError: if the folder is in use or cannot be written, or this is no clone, which holds the sources.
    """
    given = load_course()
    if missing := [name for name in _PARTS if not (given.root / name).exists()]:
        raise NewCourseError(
            f"'{given.root}' has no '{missing[0]}': a course directory is made from a clone of the course, "
            "which holds the sources; the installed package has only what learners need."
        )
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise NewCourseError(f"'{folder}' is there already and not empty: name a new folder.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name[:50]}-", dir=folder.parent) as inside:
            made = Path(inside) / "course"
            made.mkdir()
            for name in _PARTS:
                _copy(given.root / name, made / name)
            (made / "submitted").mkdir()
            made.replace(folder)
    except OSError as error:
        raise NewCourseError(files.explain(error, folder).replace("another output folder", "another folder")) from None
    return load_course(folder)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__"))
    else:
        shutil.copy(source, target)
