"""A class's own texts in its own course: what a private folder of exercises says, written into the source notebooks."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ampcourse.exercises import check, private
from ampcourse.exercises.private import PrivateError
from ampcourse.grading.boxes import lesson_name, read_source
from ampcourse.grading.cells import about
from ampcourse.grading.files import write_atomically
from ampcourse.grading.model import GradingError


def varied(notebook: NotebookNode, texts: dict[str, str], where: str) -> NotebookNode:
    """A copy of a source notebook with other texts in some of its cells, named by their id or grade_id.

    Raises:
        PrivateError: if there is no such cell, or it is not the only one.
    """
    made = nbformat.from_dict(notebook)
    for name, text in texts.items():
        cells = [cell for cell in made.cells if name in (cell.get("id"), about(cell).get("grade_id"))]
        if len(cells) != 1:
            found = "no cell" if not cells else f"{len(cells)} cells"
            raise PrivateError(f"TEXTS names '{name}', but '{where}' has {found} with this id.")
        cells[0].source = text.strip("\n")
    return made


def vary_course(course_root: Path, exercises_dir: Path) -> list[Path]:
    """Write a private folder's texts into the source notebooks of a course; doing it again changes nothing.

    Returns:
        The notebooks that changed.

    Raises:
        UserError: if the folder or a notebook cannot be used; then none has changed.
    """
    if not (Path(course_root) / "source").is_dir():
        raise GradingError(
            f"'{course_root}' has no folder 'source': give a course directory with its source notebooks."
        )
    waiting: list[tuple[Path, bytes]] = []
    with private.using(exercises_dir):
        for path in sorted((Path(course_root) / "source").glob("*/*.ipynb")):
            name = lesson_name(path.parent.name)
            if name not in check.lessons() or not (texts := private.texts(name)):
                continue
            notebook = read_source(path.parent.name, path.read_bytes())
            text = nbformat.writes(varied(notebook, texts, str(path))) + "\n"
            if text.encode("utf-8") != path.read_bytes():
                waiting.append((path, text.encode("utf-8")))
    for path, content in waiting:
        try:
            mode = path.stat().st_mode & 0o777
            write_atomically(path, content)
            path.chmod(mode)
        except OSError as error:
            raise GradingError(f"'{path}' cannot be written: {error.strerror}.") from None
    return [path for path, _ in waiting]
