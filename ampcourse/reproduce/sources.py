"""The source notebooks: whether they can be run with the given parameters, and whether they changed since last time."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import ampcourse
from ampcourse.course import Course, Lesson, UserError
from ampcourse.reproduce import executed, machine

_PACKAGE = Path(ampcourse.__file__).resolve().parent
_DECISIVE = ("python", "tensorflow", "keras", "numpy", "ml_dtypes")


class SourceError(UserError):
    """A notebook cannot be run as asked."""


def check(course: Course, lesson: Lesson, parameters: Mapping[str, Any]) -> str:
    """One sentence that says why a lesson's notebook cannot be run with these parameters, or "" if it can.

    Papermill itself only warns of an unknown parameter, and runs the notebook without it.
    """
    path = course.source(lesson)
    if not path.is_file():
        return f"'{path}' does not exist: the notebook of {lesson.slug} with its solutions is missing."
    notebook = executed.load(path)
    if notebook is None:
        return f"'{path}' is not a notebook that can be read: restore it from the repository."
    known = _parameters(notebook)
    if known is None:
        return f"'{path}' has no cell tagged 'parameters': add one that sets {' and '.join(parameters)}."
    if unknown := [name for name in parameters if name not in known]:
        has = ", ".join(known) or "none"
        return f"'{path}' has no parameter '{unknown[0]}' in the cell tagged 'parameters'; it has: {has}."
    return ""


def check_clone(course: Course, lessons: tuple[Lesson, ...]) -> None:
    """A package installed without the clone has no notebooks with solutions, so there is nothing to run.

    Raises:
        SourceError: if not one of the lessons has its source.
    """
    if not any(course.source(lesson).is_file() for lesson in lessons):
        raise SourceError(
            f"There are no notebooks with solutions under '{course.root / 'source'}': "
            "they come with a clone of the repository, not with the installed package; run this in a clone."
        )


def _parameters(notebook: dict[str, Any]) -> list[str] | None:
    """The names that the parameters cell sets, or None if there is no such cell."""
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code" and "parameters" in cell.get("metadata", {}).get("tags", ()):
            try:
                tree = ast.parse("".join(cell.get("source", "")))
            except SyntaxError:
                return []
            targets = [
                target
                for line in tree.body
                for target in (line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)])
            ]
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return None


def fingerprint(course: Course, lesson: Lesson, parameters: Mapping[str, Any]) -> str:
    """A digest of all that decides a notebook's results: itself, its parameters, our code and data, the versions."""
    digest = hashlib.sha256(course.source(lesson).read_bytes())
    versions = machine.versions()
    decisive = {name: versions[name] for name in _DECISIVE}
    digest.update(json.dumps([dict(parameters), decisive, _own_code()], sort_keys=True, default=str).encode())
    return digest.hexdigest()


@cache
def _own_code() -> str:
    """A digest of the package and its data, but not of the notebooks that travel in a wheel."""
    digest = hashlib.sha256()
    data = next((one for one in (_PACKAGE.parent / "data", _PACKAGE / "_bundled" / "data") if one.is_dir()), None)
    files = [*_PACKAGE.rglob("*.py"), *(data.glob("*.npz") if data else ())]
    for path in sorted(files):
        digest.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
