"""The instructors' page: everything on it runs, in the order in which it stands there, for a small class."""

from __future__ import annotations

import contextlib
import copy
import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell

PAGE = Path(__file__).parents[2] / "docs" / "instructors.md"
SLUG = "01_fp16_range"
CANVAS = f"""\
Student,ID,SIS User ID,SIS Login ID,Section,{SLUG} (4711)
    Points Possible,,,,,25
"Lovelace, Ada",1001,S1,ada@example.edu,Lab 1,
"Turing, Alan",1002,S2,alan@example.edu,Lab 1,
"Noether, Emmy",1003,S3,emmy@example.edu,Lab 1,11
"Hopper, Grace",1004,S4,grace@example.edu,Lab 1,
"""
COLUMNS = "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,Last modified (grade)"


def _pages() -> ModuleType:
    spec = util.spec_from_file_location("grading_pages", Path(__file__).with_name("pages.py"))
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


pages = _pages()


def hand_in(folder: Path, name: str, notebook: nbformat.NotebookNode | bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = notebook if isinstance(notebook, bytes) else nbformat.writes(notebook).encode()
    (folder / name).write_bytes(content)


def the_class(lesson: Any) -> dict[str, Any]:
    """What five students hand in: right, half right, one wrong, a login page, an attack that ends its kernel."""
    hostile = copy.deepcopy(lesson.released)
    first = next(answer for answer, _, _ in lesson.checks().values())
    hostile.cells.insert(3, new_code_cell("import ampcourse\ncheck = ampcourse.check = lambda *_: 100.0", id="forge"))
    for cell in hostile.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == first:
            cell.source = "def decode(bits):\n    import os\n    os._exit(0)"
    wrong = {first: "def decode(bits):\n    return bits * 0.5"}
    return {
        "ada": lesson.right(),
        "grace": lesson.half()[0],
        "alan": lesson.filled(lambda name: wrong.get(name) or lesson.solutions().get(name)),
        "emmy": b"<!DOCTYPE html><html><body>Please log in</body></html>",
        "mallory": hostile,
    }


class Steps:
    """What happens between the page's commands: students hand in, platforms export."""

    def __init__(self, course: Path, lesson: Any) -> None:
        self.course, self.lesson = course, lesson

    def download(self) -> None:
        for student, notebook in the_class(self.lesson).items():
            hand_in(self.course / "downloaded" / SLUG / "archive", f"{student}_{SLUG}.ipynb", notebook)

    def before(self, what: str) -> None:
        if what == "ada hands in again":
            notebook = self.lesson.right()
            notebook.cells.append(new_code_cell("print('one more')", id="more"))
            hand_in(self.course / "submitted" / "ada" / SLUG, f"{SLUG}.ipynb", notebook)
        elif what == "from-canvas.csv":
            (self.course / what).write_text(CANVAS, "utf-8")
        elif what == "worksheet.csv":
            names = ["Ada Lovelace", "Alan Turing", "Emmy Noether", "Grace Hopper", "Mallory Malory"]
            rows = [
                f"Participant {i},{name},{name.split()[0].lower()}@example.edu,Submitted,,25.00,Yes,-"
                for i, name in enumerate(names, 77)
            ]
            (self.course / what).write_text("\n".join([COLUMNS, *rows]) + "\n", "utf-8")
        else:
            raise AssertionError(f"nobody knows how to do '{what}'")


def follow(folder: Path, lesson: Any, wanted: set[str], **environment: str) -> tuple[Path, list[str]]:
    """Run the page's blocks; the course directory, and what was not printed as shown."""
    home = folder / "home"
    home.mkdir(parents=True)
    work = folder / "new"
    work.mkdir()
    shell, course, wrong = pages.Shell(work, home, **environment), work / "amp-course", []
    steps = Steps(course, lesson)
    for block in pages.blocks(PAGE):
        if "not run" in block.marks or block.marks.get("needs", "") not in {"", *wanted}:
            continue
        if "before" in block.marks:
            steps.before(block.marks["before"])
        if "zip_collect" in block.script:
            steps.download()
        printed = shell.run(block.script, block.code)
        wrong += [f"line {block.line}: {line}\n{printed}" for line in pages.missing(block.shown, printed)]
    return course, wrong


@pytest.fixture
def lesson(lesson_of: Any) -> Any:
    return lesson_of(PAGE.parents[1] / "notebooks", SLUG)


pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the page is part of the clone only")


@pytest.mark.sandbox
def test_every_command_on_the_page_runs_and_prints_what_it_shows(tmp_path: Path, lesson: Any) -> None:
    course, wrong = follow(tmp_path / "kurs für alle", lesson, set())
    assert not wrong, "\n\n".join(wrong)
    with (course / "grades.csv").open(newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file) if row["lesson"] == SLUG}
    assert {name: row["score"] for name, row in rows.items()} == {
        "ada": "22",
        "alan": "19",
        "emmy": "",
        "grace": "13",  # less a point for being late
        "mallory": "0",
    }
    assert (course / "feedback" / "ada" / SLUG / f"{SLUG}.html").is_file()
    with (course / "canvas.csv").open(newline="") as file:
        canvas = {row["ID"]: row[f"{SLUG} (4711)"] for row in csv.DictReader(file) if row["ID"]}
    assert canvas == {"1001": "22", "1002": "19", "1003": "11", "1004": "13"}
    assert not list((course / "grading").rglob("*.tmp"))


@pytest.mark.full
@pytest.mark.sandbox
def test_the_part_on_clusters(tmp_path: Path, lesson: Any) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        _, wrong = follow(tmp_path / "kurs", lesson, {"cluster"}, SCHEDULER=cluster.scheduler_address)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.full
@pytest.mark.sandbox
@pytest.mark.postgresql
def test_the_part_on_postgresql(tmp_path: Path, lesson: Any) -> None:
    with postgresql() as url:
        _, wrong = follow(tmp_path / "kurs", lesson, {"postgresql"}, DATABASE=url)
    assert not wrong, "\n\n".join(wrong)


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """A server of our own on a Unix socket; root may not run one, so another user does."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not places:
        pytest.skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        folder, programs, other = Path(name), places[-1].parent, []
        if os.getuid() == 0:
            os.chown(folder, 65534, 65534)
            other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        data = folder / "data"
        settings = f"-k {folder} -c listen_addresses=''"
        control = [*other, str(programs / "pg_ctl"), "-D", str(data), "-w"]
        log = ["-l", str(folder / "log"), "-o", settings]
        subprocess.run(
            [*other, str(programs / "initdb"), "-D", str(data), "-U", "amp", "-A", "trust"],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        subprocess.run([*control, *log, "start"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            yield f"postgresql://amp@/postgres?host={folder}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, cwd=folder, stdout=subprocess.DEVNULL)


def test_the_page_names_every_command_of_the_desk() -> None:
    scripts = "\n".join(block.script for block in pages.blocks(PAGE))
    for command in ("course", "verify", "grade", "status", "explain", "full-points", "similar", "feedback", "export"):
        assert f"ampcourse {command} " in scripts, command


def test_a_line_that_is_not_printed_is_found() -> None:
    printed = "a  1\nthe end of it\nb 2\n"
    assert pages.missing("a 1\nthe …\nb 2\n", printed) == []
    assert pages.missing("b 2\na 1\n", printed) == ["a 1"]
    assert pages.missing("a 1.\n", printed) == ["a 1."]
