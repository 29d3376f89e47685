"""A course with things worth stealing, a listening server, and what must be true after every submission."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import psutil
from attack import Attack
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ampcourse.course import course_root
from ampcourse.grading.model import Graded

HERE = Path(__file__).parent
SLUG = "77_target"
CANARIES = (
    "canary-in-the-answers",
    "canary-in-the-source",
    "canary-in-a-hidden-test",
    "canary-of-another-student",
    "canary-in-the-gradebook",
    "canary-in-the-environment",
    "canary-in-the-references",
)
COURSE_TOML = f"""
[course]
title = "Target"

[grading]
cell_seconds = 3
start_seconds = 12
submission_seconds = 90
memory_mib = 700
processes = 60
disk_mib = 32
file_mib = 16

[[lesson]]
slug = "{SLUG}"
title = "Target"
summary = "Two exercises, a test of the instructor's own, a question."
objectives = ["hold"]
minutes = 5
points = 8
cpu_seconds = 10
gpu_seconds = 10
"""


def _graded(name: str, **kind: Any) -> dict[str, Any]:
    plain = {"grade": False, "solution": False, "locked": False, "schema_version": 3, "grade_id": name}
    return {"nbgrader": plain | kind}


def _answer(name: str, line: str) -> nbformat.NotebookNode:
    text = f"def {name}(x):\n    ### BEGIN SOLUTION\n    {line}  # canary-in-the-source\n    ### END SOLUTION"
    return new_code_cell(text, id=name, metadata=_graded(name, solution=True))


def _check(name: str, points: int) -> nbformat.NotebookNode:
    kind = _graded(f"{name}-check", grade=True, locked=True, points=points)
    return new_code_cell(f'check("target.{name}", {name})', id=f"{name}-check", metadata=kind)


def source() -> nbformat.NotebookNode:
    """The instructor's notebook."""
    test = (
        "assert triple(2) == 6\n### BEGIN HIDDEN TESTS\nassert triple(7) == 21, 'canary-in-a-hidden-test'\n"
        "### END HIDDEN TESTS"
    )
    why = "Because. canary-in-the-source"
    cells = [
        new_markdown_cell("# Target", id="title"),
        new_code_cell('profile = "cpu"\nseed = 0', id="parameters", metadata={"tags": ["parameters"]}),
        new_code_cell("import numpy as np\nfrom ampcourse import check", id="imports"),
        _answer("double", "return 2 * x"),
        _check("double", 2),
        _answer("total", "return np.sum(x)"),
        _check("total", 3),
        _answer("triple", "return 3 * x"),
        new_code_cell(test, id="test", metadata=_graded("triple-test", grade=True, locked=True, points=1)),
        new_markdown_cell(why, id="why", metadata=_graded("why", grade=True, solution=True, points=2)),
    ]
    metadata = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}}
    return new_notebook(cells=cells, metadata=metadata)


@dataclass
class Scene:
    """The course, where the exercises are, and the server that nobody may reach."""

    root: Path
    exercises: Path
    port: int
    address: str
    reached: list[Any] = field(default_factory=list)
    marker: str = f"hostile-{os.getpid()}"

    def text(self, code: str) -> str:
        """Code with the places of this scene in it."""
        clone = Path(course_root()).parent
        places = {
            "course": self.root,
            "clone": clone,
            "exercises": self.exercises,
            "port": self.port,
            "address": self.address,
            "marker": self.marker,
        }
        for name, value in places.items():
            code = code.replace("{" + name + "}", str(value))
        return code

    def submission(self, attack: Attack) -> nbformat.NotebookNode:
        """The released notebook, filled in by an attacker."""
        notebook = nbformat.read(self.root / "release" / SLUG / f"{SLUG}.ipynb", as_version=4)
        texts = {"double": attack.double, **attack.others}
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in texts:
                cell.source = self.text(texts[name]).strip("\n")
        at = next(
            i for i, cell in enumerate(notebook.cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == "double"
        )
        if attack.first:
            notebook.cells.insert(at, new_code_cell(self.text(attack.first).strip("\n"), id="own"))
        if attack.last:
            notebook.cells.append(new_code_cell(self.text(attack.last).strip("\n"), id="last"))
        return notebook

    def fingerprint(self) -> dict[str, str]:
        """Every file of the course, so that a change shows."""
        return {
            str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }

    def survivors(self) -> list[str]:
        """Processes that a submission left behind."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            if self.marker in (process.info["cmdline"] or ()):
                found.append(" ".join(process.info["cmdline"])[:80])
        return found


def told(graded: Graded) -> str:
    """Everything that grading says to anybody: the notebook with its outputs, reasons, repairs, notes, log."""
    cells = nbformat.reads(graded.notebook.decode(), as_version=4).cells if graded.notebook else []
    outputs = [json.dumps(cell.get("outputs", ())) for cell in cells]
    given = [cell.source for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")]
    return "\n".join(
        [*outputs, *given, graded.reason, *graded.repairs, *graded.notes, *graded.log, repr(graded.questions)]
    )


def shown(graded: Graded) -> str:
    """What a browser would take as HTML of all that grading stores."""
    cells = nbformat.reads(graded.notebook.decode(), as_version=4).cells if graded.notebook else []
    data = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    return "\n".join(str(text) for entry in data for kind, text in entry.items() if kind != "text/plain")


def make(folder: Path) -> Path:
    """The course directory, with another student's work, a gradebook and a release."""
    from ampcourse.exercises import private
    from ampcourse.grading.release import release

    (folder / "source" / SLUG).mkdir(parents=True)
    (folder / "course.toml").write_text(COURSE_TOML, "utf-8")
    shutil.copy(course_root() / "nbgrader_config.py", folder)
    nbformat.write(source(), folder / "source" / SLUG / f"{SLUG}.ipynb")
    with private.using(HERE / "exercises"):
        release(course_root=folder)
    other = folder / "submitted" / "other" / SLUG
    other.mkdir(parents=True)
    (other / f"{SLUG}.ipynb").write_text('{"cells": [], "canary": "canary-of-another-student"}', "utf-8")
    (folder / "gradebook.db").write_bytes(b"SQLite format 3\x00 canary-in-the-gradebook")
    return folder


@contextmanager
def listening() -> Iterator[tuple[int, list[Any]]]:
    """A server on all addresses of this machine that notes who comes."""
    reached: list[Any] = []
    server = socket.create_server(("0.0.0.0", 0))

    def serve() -> None:
        while True:
            try:
                link, who = server.accept()
            except OSError:
                return
            reached.append(who)
            link.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1], reached
    finally:
        server.close()
