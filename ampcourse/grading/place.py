"""Where a course lies for nbgrader: its configuration, its folders, its students' submissions, its gradebook's URL."""

from __future__ import annotations

import datetime
import errno
import glob
import logging
import os
import stat
import sys
import sysconfig
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ampcourse.course import course_root
from ampcourse.grading.model import GradingError

CONFIG = "nbgrader_config"
STAMP, SECRET = "timestamp.txt", "submission_secret.txt"
"""What nbgrader's exchange puts beside a submission."""
_NOTE_BYTES = 1000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Place:
    """A course directory as nbgrader sees it.

    Attributes:
        coursedir: nbgrader's CourseDirectory, which knows the folders' names and the database.
        config: nbgrader's whole configuration.
    """

    coursedir: Any
    config: Any
    log: logging.Logger = field(default_factory=lambda: silent_log())

    @cached_property
    def root(self) -> Path:
        """The course directory."""
        return Path(self.coursedir.root)

    @cached_property
    def db_url(self) -> str:
        """The gradebook's URL; a relative SQLite path is meant from the course directory, as for nbgrader there."""
        url = str(self.coursedir.db_url)
        head, slashes, path = url.partition(":///")
        if head.partition("+")[0] == "sqlite" and path and not path.startswith(("/", ":")):
            return f"{head}{slashes}{self.root.resolve() / path}"
        return url

    @property
    def database_file(self) -> Path | None:
        """The file of an SQLite gradebook."""
        head, _, path = self.db_url.partition(":///")
        return Path(path.partition("?")[0]) if head.partition("+")[0] == "sqlite" and path else None

    def folder(self, step: str, student: str, lesson: str) -> Path:
        """The folder of one student and lesson; `step` is "source", "submitted", "autograded" ..."""
        return Path(self.coursedir.format_path(getattr(self.coursedir, f"{step}_directory"), student, lesson))

    def source(self, lesson: str) -> Path:
        """The instructor's folder of a lesson."""
        return self.folder("source", ".", lesson)

    def notebooks(self, lesson: str) -> list[str]:
        """The names, without suffix, of the notebooks of a lesson's source.

        Raises:
            GradingError: if there is no source, or no notebook in it.
        """
        folder = self.source(lesson)
        names = sorted(path.stem for path in folder.glob("*.ipynb")) if folder.is_dir() else []
        if not names:
            there = sorted(path.parent.name for path in self.folder("source", ".", "_").parent.glob("*/*.ipynb"))
            known = f"; there are: {', '.join(dict.fromkeys(there))}" if there else ""
            raise GradingError(f"'{folder}' holds no notebook, and grading goes by the instructor's source{known}.")
        return names

    def students(self, lesson: str) -> list[str]:
        """Everybody who has a folder, or anything in the place of one, for this lesson in `submitted/`."""
        mark = "\N{OBJECT REPLACEMENT CHARACTER}"
        before, _, after = str(self.folder("submitted", mark, lesson)).partition(mark)
        found = glob.glob(f"{glob.escape(before)}*{glob.escape(after)}")  # noqa: PTH207  a Path cannot take this pattern
        excluded = {name.strip() for name in str(self.coursedir.student_id_exclude).split(",")}
        students = {path[len(before) : len(path) - len(after)] for path in found}
        return sorted(student for student in students - excluded if student and os.sep not in student)

    def timestamp(self, student: str, lesson: str) -> tuple[datetime.datetime | None, str]:
        """When the work was handed in, in UTC without a zone, as nbgrader reads it; and a remark, if any."""
        try:
            content = self.note(student, lesson, STAMP)
        except OSError as error:
            return None, f"'{STAMP}' cannot be read ({error.strerror}), so no time was taken from it."
        text = (content or b"").decode("utf-8", "replace").strip()
        return _time(text) if text else (None, "")

    def note(self, student: str, lesson: str, name: str) -> bytes | None:
        """The beginning of a small file that nbgrader keeps beside a submission; None if it is not there.

        Students can write it where they hand in folders, so it is never followed and never trusted to be small.

        Raises:
            OSError: if it is a link, no file, or cannot be read.
        """
        folder, opened = self.folder("submitted", student, lesson), []
        try:
            # Neither the folder nor the student's folder above it may be a link to another student's.
            opened.append(os.open(folder.parent, _DIRECTORY))
            opened.append(os.open(folder.name, _DIRECTORY, dir_fd=opened[-1]))
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=opened[-1])
        except (FileNotFoundError, NotADirectoryError):
            return None
        finally:
            for one in opened:
                os.close(one)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "it is not a file", name)
            return file.read(_NOTE_BYTES)


def _time(text: str) -> tuple[datetime.datetime | None, str]:
    from nbgrader.utils import parse_utc

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_utc(text), ""
    except Exception:  # dateutil raises many kinds for what a student may have written
        return None, f"'{STAMP}' holds no time that can be read, so none was taken from it."


def default_root() -> Path:
    """The course directory that a command means if none is named: the folder one is in, if it is one, else ours."""
    here = Path.cwd()
    return here if (here / f"{CONFIG}.py").is_file() and (here / "source").is_dir() else course_root()


def open_place(course_root: Path, db: str | None = None) -> Place:
    """Read a course's configuration as `nbgrader` does when it is called in that folder.

    Args:
        course_root: the course directory.
        db: the gradebook's URL, if it is not what the configuration says.

    Raises:
        GradingError: if there is no such folder, nbgrader is missing, or the configuration cannot be read.
    """
    root = Path(course_root).resolve()
    if not root.is_dir():
        raise GradingError(f"'{course_root}' is not a folder: name the course directory, which holds source/.")
    try:
        from nbgrader.coursedir import CourseDirectory
    except ImportError:
        raise GradingError("nbgrader is not installed here: pip install 'ampcourse[grading]'.") from None
    find_alembic()
    config = read_config(root)
    config.CourseDirectory.root = str(root)
    if db:
        config.CourseDirectory.db_url = db
    log = silent_log()
    return Place(CourseDirectory(config=config, log=log), config, log)


def read_config(root: Path) -> Any:
    """nbgrader's configuration: that of the machine and of the user, and over it the course's own.

    Raises:
        GradingError: if a configuration file cannot be read or ends the program.
    """
    from nbgrader.apps.baseapp import NbGrader
    from traitlets.config.loader import ConfigFileNotFound

    class Reader(NbGrader):
        """Loads, from the folders that nbgrader looks into, and from the course directory in place of the current."""

        name = "nbgrader"
        load_cwd_config = False

    reader = Reader(log=silent_log())
    reader.raise_config_file_errors = True  # traitlets would print a traceback and go on without
    try:
        reader.load_config_file(suppress_errors=False)
        _load_course(reader, root)
    except ConfigFileNotFound:
        pass
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise GradingError(f"nbgrader's configuration for '{root}' cannot be read: {said.rstrip('.')}.") from None
    return reader.config


def _load_course(reader: Any, root: Path) -> None:
    """traitlets' own loading of one name from one folder, which takes both the .py and the .json file."""
    from traitlets.config import Application

    Application.load_config_file(reader, CONFIG, str(root))


def find_alembic() -> None:
    """Let nbgrader find `alembic`, which it calls when it makes a gradebook, beside the Python that runs this.

    Without an activated environment it is not on PATH, and a gradebook without a version would stay behind.
    """
    from sqlalchemy.exc import SAWarning

    places = [str(Path(sys.executable).parent), sysconfig.get_path("scripts")]
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys([*places, *path]))
    warnings.filterwarnings("ignore", category=SAWarning)  # about nbgrader's own use of its database


def silent_log() -> logging.Logger:
    """A log that goes nowhere, for nbgrader's parts, whose lines are for its own commands."""
    log = logging.Logger("ampcourse-grading")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    return log
