"""The entry of an assignment in the gradebook: its graded cells and their points, from the instructor's source.

It is made by nbgrader's own converter, as `nbgrader generate_assignment` does, but the notebook for learners that comes
of it is thrown away, so that `release/` is never touched.
"""

from __future__ import annotations

import copy
import json
import logging
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampcourse.grading.database import Locked, connectable, patiently
from ampcourse.grading.model import GradingError
from ampcourse.grading.place import Place


@dataclass(frozen=True)
class _Cell:
    """What the gradebook and the source must agree on."""

    points: float | None
    cell_type: str
    solution: bool


def enter_assignment(place: Place, gradebook: Any, lesson: str, tell: Callable[[str], None] | None = None) -> bool:
    """Enter an assignment, or bring its entry up to date with the source; whether anything was done.

    Raises:
        GradingError: if there is no source, nbgrader cannot read it, or graded cells were added or removed although
            submissions are in the gradebook, which nbgrader does not allow.
    """
    wanted = {name: _cells(place.source(lesson) / f"{name}.ipynb") for name in place.notebooks(lesson)}
    known = patiently(lambda: _entered(gradebook, lesson), place, tell, gradebook.db.rollback)
    if known is not None and known[0] == wanted:
        return False
    if known is not None and known[1]:
        _refuse_other_cells(lesson, wanted, known[0])
    patiently(lambda: _generate(place, lesson), place, tell, undo=gradebook.db.rollback)
    gradebook.db.expire_all()
    return True


def _cells(path: Path) -> dict[str, _Cell]:
    """The cells of a source notebook that nbgrader keeps grades or comments for."""
    try:
        cells = json.loads(path.read_bytes())["cells"]
        about = [(cell["cell_type"], cell["metadata"].get("nbgrader")) for cell in cells]
        return {
            of["grade_id"]: _Cell(
                float(of["points"]) if of.get("grade") or of.get("task") else None, kind, bool(of.get("solution"))
            )
            for kind, of in about
            if of and (of.get("grade") or of.get("solution") or of.get("task"))
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GradingError(f"The source '{path}' cannot be read as a notebook of nbgrader's: {error!r}.") from None


def _entered(gradebook: Any, lesson: str) -> tuple[dict[str, dict[str, _Cell]], bool] | None:
    """The cells in the gradebook, by notebook, and whether there are submissions; None if there is no entry."""
    from nbgrader.api import MissingEntry

    try:
        assignment = gradebook.find_assignment(lesson)
    except MissingEntry:
        return None
    finally:
        gradebook.db.rollback()
    notebooks = {}
    for notebook in assignment.notebooks:
        graded = {cell.name: cell for cell in [*notebook.grade_cells, *notebook.task_cells]}
        answers = {cell.name for cell in notebook.solution_cells}
        kinds = {cell.name: cell.cell_type for cell in notebook.source_cells}
        notebooks[notebook.name] = {
            name: _Cell(
                float(graded[name].max_score) if name in graded else None,
                kinds.get(name) or graded[name].cell_type,
                name in answers,
            )
            for name in {**graded, **dict.fromkeys(answers)}
        }
    submitted = bool(assignment.num_submissions)
    gradebook.db.rollback()
    return notebooks, submitted


def _refuse_other_cells(lesson: str, wanted: dict[str, dict[str, _Cell]], known: dict[str, dict[str, _Cell]]) -> None:
    def names(notebooks: dict[str, dict[str, _Cell]]) -> set[str]:
        return {f"{notebook}: {cell}" for notebook, cells in notebooks.items() for cell in cells}

    added, removed = sorted(names(wanted) - names(known)), sorted(names(known) - names(wanted))
    if added or removed:
        says = [f"added: {', '.join(added)}"] * bool(added) + [f"removed: {', '.join(removed)}"] * bool(removed)
        raise GradingError(
            f"Graded cells of '{lesson}' have changed since submissions were entered ({'; '.join(says)}), which "
            "nbgrader does not allow: put the old cells back, or take the assignment out of the gradebook with "
            f"'nbgrader db assignment remove {lesson} --force', which also removes points given by hand."
        )


def _generate(place: Place, lesson: str) -> None:
    """Run nbgrader's converter on a copy of the source, with the real gradebook."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory

    config = copy.deepcopy(place.config)
    config.CourseDirectory.db_url = connectable(place.db_url)
    config.GenerateAssignment.no_database = False
    config.GenerateAssignment.create_assignment = True
    config.CourseDirectory.course_id = place.coursedir.course_id
    log, said = _listening_log()
    with tempfile.TemporaryDirectory(prefix="ampcourse-entry-") as scratch:
        config.CourseDirectory.root = str(Path(scratch).resolve())
        directory = CourseDirectory(config=config, assignment_id=lesson, log=log)
        target = Path(directory.format_path(directory.source_directory, ".", lesson))
        shutil.copytree(place.source(lesson), target, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        try:
            GenerateAssignment(coursedir=directory, config=config, log=log).start()
        except (NbGraderException, SystemExit, RuntimeError, OSError, ValueError) as error:
            reason = next((line for line in reversed(said) if "Error" in line), str(error))
            if any("database is locked" in line or "LockNotAvailable" in line for line in said):
                raise Locked from None
            raise GradingError(f"nbgrader cannot enter '{lesson}': {' '.join(reason.split()).rstrip('.')}.") from None


def _listening_log() -> tuple[logging.Logger, list[str]]:
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.extend(record.getMessage().splitlines())

    log = logging.Logger("ampcourse-entry")
    log.addHandler(Listener(logging.ERROR))
    log.propagate = False
    return log, said
