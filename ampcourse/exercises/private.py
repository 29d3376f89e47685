"""A private folder of exercises: an open course's solutions are public, a class's need not be.

The folder holds any of these::

    answers/<lesson>.py       a tuple EXERCISES, in the same form as in `ampcourse.exercises.answers` (or a package)
    observers/<name>.py       observers of its own, found as `ampcourse.exercises.observers.<name>`
    course_key                one line of text, this class's own; `variation` draws from it

An exercise with the id of a given one takes its place; one with a new id joins its lesson. A module may also hold a
dict TEXTS, from the id of a cell in the lesson's source notebook to the text that this class reads there instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ampcourse.course import UserError
from ampcourse.exercises import check, observers

KEY = "course_key"
_PACKAGE = "ampcourse_private"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_folder: Path | None = None


class PrivateError(UserError):
    """A private folder of exercises cannot be used; the sentence says which file and why."""


def use(directory: Path | str | None) -> None:
    """Let the exercises of a private folder count from now on, in this process; None: only the given ones.

    Raises:
        PrivateError: if the folder or one of its modules cannot be used; then only the given ones count.
    """
    global _folder
    _forget()
    if directory is None:
        return
    folder = Path(directory).expanduser().resolve()
    _complain_about(folder, Path(directory))
    package = types.ModuleType(_PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[_PACKAGE] = package
    observers.__path__.append(str(folder / "observers"))
    importlib.invalidate_caches()
    _folder = folder
    try:
        check.add_exercises({lesson: _exercises(folder, lesson) for lesson in _lessons(folder)})
    except BaseException:
        _forget()
        raise


@contextlib.contextmanager
def using(directory: Path | str | None) -> Iterator[None]:
    """As `use`, for a block; with None, whatever is in use stays."""
    if directory is None or _folder == Path(directory).expanduser().resolve():
        yield
        return
    before = _folder
    use(directory)
    try:
        yield
    finally:
        use(before)


def folder() -> Path | None:
    """The private folder in use."""
    return _folder


def course_key() -> str:
    """This class's own text, from the file `course_key` in the private folder.

    Raises:
        PrivateError: if there is no private folder, or no such file in it, or nothing in the file.
    """
    if _folder is None:
        raise PrivateError("No private folder of exercises is in use, and so there is no course key: give --exercises.")
    path = _folder / KEY
    try:
        key = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise PrivateError(f"'{path}' cannot be read ({reason}): write one line of your own into it.") from None
    if not key:
        raise PrivateError(f"'{path}' is empty: write one line of your own into it, and keep it to yourself.")
    return key


def variation(name: str) -> np.random.Generator:
    """A random generator that is the same for this class every time, and another one for every other class and name.

    Args:
        name: what varies, such as the exercise's id.

    Raises:
        PrivateError: if there is no course key.
    """
    digest = hashlib.sha256(f"{course_key()}\n{name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def texts(lesson: str) -> dict[str, str]:
    """What this class reads in a lesson's notebook in place of the given text: cell id to text.

    Raises:
        PrivateError: if TEXTS is not a dict of texts.
    """
    module = sys.modules.get(f"{_PACKAGE}.answers.{lesson}")
    found = getattr(module, "TEXTS", {})
    if not isinstance(found, dict) or not all(isinstance(t, str) for pair in found.items() for t in pair):
        where = getattr(module, "__file__", lesson)
        raise PrivateError(f"'{where}': TEXTS is no dict from a cell's id to its text.")
    return dict(found)


def observer_files(directory: Path | str | None) -> dict[str, bytes]:
    """The observers of a private folder, as files of the package that a student's process finds.

    Raises:
        PrivateError: if one cannot be read.
    """
    if directory is None:
        return {}
    inside, found = Path(directory).expanduser() / "observers", {}
    for path in sorted(inside.glob("*.py")):
        try:
            found[f"exercises/observers/{path.name}"] = path.read_bytes()
        except OSError as error:
            raise PrivateError(f"'{path}' cannot be read: {error.strerror}.") from None
    return found


def _complain_about(folder: Path, given: Path) -> None:
    if not folder.is_dir():
        raise PrivateError(f"'{given}' is no folder: give the private folder of exercises, with answers/ inside.")
    if not (folder / "answers").is_dir():
        raise PrivateError(f"'{given}' has no folder 'answers': put answers/<lesson>.py there.")
    known = set(Path(observers.__file__ or "").parent.glob("*.py"))
    for path in sorted((folder / "observers").glob("*.py")):
        if path.name in {k.name for k in known}:
            raise PrivateError(f"'{path}' has the name of an observer of the course: give it another name.")


def _lessons(folder: Path) -> list[str]:
    found = []
    for path in sorted((folder / "answers").iterdir()):
        module = path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").is_file())
        if not module or path.name.startswith(("_", ".")):
            continue
        if not _NAME.fullmatch(path.stem):
            raise PrivateError(f"'{path}' is not named after a lesson: use its slug without the number, in lower case.")
        found.append(path.stem)
    return found


def _exercises(folder: Path, lesson: str) -> tuple[Any, ...]:
    place = folder / "answers" / lesson
    where = f"'{place if place.is_dir() else place.with_suffix('.py')}'"
    try:
        found = importlib.import_module(f"{_PACKAGE}.answers.{lesson}").EXERCISES
    except PrivateError:
        raise
    except AttributeError as error:
        if "EXERCISES" not in str(error):
            raise PrivateError(f"{where} cannot be used ({_short(error)}).") from None
        raise PrivateError(f"{where} has no tuple EXERCISES: put its exercises into one.") from None
    except (Exception, SystemExit) as error:
        raise PrivateError(f"{where} cannot be used ({_short(error)}).") from None
    if not isinstance(found, tuple | list):
        raise PrivateError(f"{where}: EXERCISES is no tuple: write EXERCISES = (one, other).")
    names: set[str] = set()
    for one in found:
        if not isinstance(one, check.Exercise):
            raise PrivateError(f"{where}: EXERCISES holds {type(one).__name__}, not an Exercise.")
        if one.lesson != lesson or one.id in names:
            problem = "is there twice" if one.id in names else f"does not begin with '{lesson}.'"
            raise PrivateError(f"{where}: the id '{one.id}' {problem}.")
        names.add(one.id)
    return tuple(found)


def _short(error: BaseException) -> str:
    line = (str(error).splitlines() or [""])[0][:200]
    where = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
    return f"{type(error).__name__}{where}: {line}" if line else type(error).__name__


def _forget() -> None:
    """Only the given exercises count again."""
    global _folder
    if _folder is not None:
        mine = str(_folder / "observers")
        for path in Path(mine).glob("*.py"):
            sys.modules.pop(f"{observers.__name__}.{path.stem}", None)
            if hasattr(observers, path.stem):
                delattr(observers, path.stem)
        while mine in observers.__path__:
            observers.__path__.remove(mine)
    for name in [name for name in sys.modules if name.split(".")[0] == _PACKAGE]:
        del sys.modules[name]
    _folder = None
    check.add_exercises({})
