"""Opening nbgrader's gradebook, SQLite or PostgreSQL, and one sentence for everything that a database can refuse."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from ampcourse.grading.model import GradingError
from ampcourse.grading.place import Place, find_alembic, open_place, silent_log

LOCK_SECONDS = 120.0
"""How long a gradebook that another program holds is waited for."""
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_CONNECT_SECONDS = "10"
_SQLITE_SECONDS = "1"  # for one try, after which somebody is told; SQLite's own is 5
_Given = TypeVar("_Given")


class Locked(Exception):
    """Another program holds the gradebook; for what does not raise SQLAlchemy's own errors."""


class RefusedSubmission(GradingError):
    """One submission cannot be entered; others can."""


def database_url(course_root: Path, db: str | None = None) -> str:
    """The URL of a course's gradebook: as given, else as its configuration says, else `gradebook.db` in it."""
    return open_place(course_root, db).db_url


@contextlib.contextmanager
def reading(course_root: Path, db: str | None = None) -> Iterator[Any]:
    """nbgrader's Gradebook of a course, for reading; asking creates nothing.

    Raises:
        GradingError: if there is none yet, or it cannot be opened.
    """
    place = open_place(course_root, db)
    file = place.database_file
    if file is not None and not file.is_file():
        raise GradingError(f"There is no gradebook yet: '{file}' is made by the first 'ampcourse grade'.")
    with open_gradebook(place) as gradebook:
        yield gradebook


@contextlib.contextmanager
def open_gradebook(place: Place, tell: Callable[[str], None] | None = None) -> Iterator[Any]:
    """nbgrader's Gradebook, made if it is not there; a new SQLite file appears whole or not at all.

    Raises:
        GradingError: if it cannot be opened, in one sentence without the password.
    """
    from nbgrader.api import Gradebook

    find_alembic()
    url = connectable(place.db_url)

    def opened() -> Any:
        file = place.database_file
        if file is not None and not file.exists():
            _make_sqlite(file, place.coursedir.course_id)
        gradebook = Gradebook(url, place.coursedir.course_id)
        _enter_course(gradebook, place.coursedir.course_id)
        return gradebook

    with _quiet_nbgrader():
        gradebook = patiently(opened, place, tell)
        try:
            yield gradebook
        finally:
            with contextlib.suppress(
                Exception
            ):  # a lost connection cannot be closed, and that changes nothing any more
                gradebook.close()


@contextlib.contextmanager
def _quiet_nbgrader() -> Iterator[None]:
    """nbgrader's database code logs tracebacks of errors that it raises as well; ours are sentences."""
    from nbgrader import api

    before, api.app_log = api.app_log, silent_log()
    try:
        yield
    finally:
        api.app_log = before


def _enter_course(gradebook: Any, course_id: str) -> None:
    """nbgrader enters a course only if it has a name, but its assignments refer to it all the same.

    SQLite does not mind; PostgreSQL refuses the first assignment.
    """
    from nbgrader.api import Course

    if gradebook.db.get(Course, course_id) is None:
        gradebook.db.add(Course(id=course_id))
    gradebook.db.commit()


def _make_sqlite(file: Path, course_id: str) -> None:
    """Beside its place first: a program that is killed half-way must not leave a gradebook without a version."""
    from nbgrader.api import Gradebook

    if not file.parent.is_dir():
        raise GradingError(f"The gradebook '{file}' cannot be made: its folder does not exist.")
    half = file.with_name(f".{file.name}.new-{os.getpid()}")
    try:
        half.unlink(missing_ok=True)
        Gradebook(f"sqlite:///{half}", course_id).close()
        half.rename(file)
    finally:
        half.unlink(missing_ok=True)


def connectable(url: str) -> str:
    """The URL with a time limit for a server that does not answer."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except ArgumentError:
        raise GradingError(
            "The gradebook's URL cannot be read: write sqlite:////path/gradebook.db or "
            "postgresql://user:password@host/database."
        ) from None
    if parsed.get_backend_name() == "sqlite" and parsed.database and "timeout" not in parsed.query:
        parsed = parsed.update_query_dict({"timeout": _SQLITE_SECONDS})
    if parsed.get_backend_name() == "postgresql":
        if "connect_timeout" not in parsed.query:
            parsed = parsed.update_query_dict({"connect_timeout": _CONNECT_SECONDS})
        if parsed.drivername == "postgresql":  # which driver that means is another matter in every SQLAlchemy
            there = (driver for driver in ("psycopg", "psycopg2") if find_spec(driver))
            parsed = parsed.set(drivername=f"postgresql+{next(there, 'psycopg2')}")
    return parsed.render_as_string(hide_password=False)


def shown(url: str) -> str:
    """A database's URL for people: without its password."""
    from sqlalchemy.engine import make_url

    try:
        parsed = make_url(url)
    except Exception:
        return "the gradebook"
    if parsed.get_backend_name() == "sqlite":
        return f"the gradebook '{parsed.database}'"
    return f"the gradebook '{parsed.set(query={}).render_as_string(hide_password=True)}'"


def patiently(
    work: Callable[[], _Given],
    place: Place,
    tell: Callable[[str], None] | None = None,
    undo: Callable[[], None] | None = None,
    seconds: float | None = None,
) -> _Given:
    """Do something with the database; while another program holds it, wait and try again.

    Args:
        work: may be done several times.
        place: whose gradebook it is.
        tell: is told once that it is being waited for.
        undo: is called after every failure.
        seconds: how long to wait; `LOCK_SECONDS` if None.

    Raises:
        GradingError: if it cannot be done, in one sentence.
    """
    from nbgrader.api import InvalidEntry
    from sqlalchemy.exc import SQLAlchemyError

    patience = LOCK_SECONDS if seconds is None else seconds
    started, tries = time.monotonic(), 0
    while True:
        try:
            return work()
        except (SQLAlchemyError, InvalidEntry, Locked, ImportError, OSError) as wrapped:
            # nbgrader wraps some of SQLAlchemy's errors into its own, and drops what they say
            error = wrapped.__context__ if isinstance(wrapped.__context__, SQLAlchemyError) else wrapped
            if isinstance(wrapped, SQLAlchemyError):
                error = wrapped
            if undo is not None:
                undo()
            waited = time.monotonic() - started
            if not _locked(error):
                alone = type(error).__name__ in ("DataError", "IntegrityError", "StatementError")
                raise (RefusedSubmission if alone else GradingError)(sentence(error, place.db_url)) from error
            if waited >= patience:
                raise GradingError(
                    f"{_capital(shown(place.db_url))} was locked by another program for {waited:.0f} s (formgrader, "
                    "another nbgrader command, or a database browser): close it and run this again; what was graded "
                    "before stays."
                ) from None
            if tell is not None and tries == 0:
                tell(f"{_capital(shown(place.db_url))} is locked by another program; waiting for it.")
            time.sleep(min(_PAUSES[min(tries, len(_PAUSES) - 1)], max(0.01, patience - waited)))
            tries += 1
        except BaseException:
            if undo is not None:
                undo()
            raise


def _locked(error: BaseException) -> bool:
    """SQLite says it in words, PostgreSQL by a code: lock not available, deadlock, serialization failure."""
    if isinstance(error, Locked):
        return True
    original = getattr(error, "orig", None)
    if _postgresql_code(original) in ("55P03", "40P01", "40001"):
        return True
    return getattr(original, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _postgresql_code(original: Any) -> str:
    """Of an error of psycopg2, which calls it pgcode, or psycopg."""
    return str(getattr(original, "pgcode", None) or getattr(original, "sqlstate", None) or "")


def sentence(error: BaseException, url: str) -> str:
    """What a database's refusal means, and what to do."""
    book, original = _capital(shown(url)), getattr(error, "orig", None) or error
    code = str(getattr(original, "sqlite_errorname", "")) + _postgresql_code(original)
    said = " ".join(str(original).split()).rstrip(".")
    if isinstance(error, ImportError):
        return f"{book} needs a database driver that is not installed: pip install 'ampcourse[postgresql]'."
    if type(error).__name__ == "NoSuchModuleError":
        return f"{book} is of an unknown kind: use sqlite:///... or postgresql://..."
    if code.startswith("SQLITE_FULL") or code in ("53100", "53200"):
        return f"{book} could not be written because its disk is full: free some space and run this again."
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return f"{book} cannot be written ({said}): change its permissions, or those of its folder."
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return f"{book} is damaged, or no gradebook ({said}): put a backup in its place."
    if "no such column" in said or "no such table" in said or code in ("42703", "42P01"):
        return f"{book} was made by an older nbgrader: back it up, then run 'nbgrader db upgrade'."
    if isinstance(error, OSError):
        return f"{book} cannot be written ({os.strerror(error.errno) if error.errno else said})."
    if type(error).__name__ in ("OperationalError", "InterfaceError"):
        return f"{book} cannot be reached ({said}): is the server running, and are the URL and the password right?"
    return f"{book} refused ({said})."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
