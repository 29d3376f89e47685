"""The learner's commands as real processes."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from ampcourse.course import Course

from .conftest import solution

# The command line with another course than this package's own.
CODE = """
import sys, pathlib, ampcourse.course
ampcourse.course.course_root = lambda: pathlib.Path(sys.argv[1])
import ampcourse.exercises.answers
ampcourse.exercises.answers.__path__.append(sys.argv[2])
from ampcourse.cli import main
main(sys.argv[3:], prog_name="ampcourse")
"""


@pytest.fixture
def command(small_course: Course, answers: Path, tiny: NotebookNode) -> list[str]:
    return [sys.executable, "-c", CODE, str(small_course.root), str(answers)]


def call(command: list[str], *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


def test_from_start_to_all_right(command: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "my lessons"
    started = call(command, "start", str(folder))
    assert (started.returncode, started.stderr) == (0, "")
    assert "2 new" in started.stdout

    path = folder / "01_tiny.ipynb"
    checked = call(command, "check", str(path))
    assert (checked.returncode, checked.stderr) == (1, "")
    assert "still open: tiny.double, tiny.square" in checked.stdout

    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        if cell.id in ("double", "square"):
            cell.source = solution(cell.id, {"double": "    return x + x", "square": "    return x**2"}[cell.id]).source
    nbformat.write(notebook, path)
    checked = call(command, "check", str(path))
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "every exercise is right, 3 of 3 points" in checked.stdout
    assert "\x1b" not in checked.stdout

    assert "3 of 3" not in call(command, "progress").stdout
    assert "is up to date" in call(command, "start", str(folder)).stdout


def test_what_is_no_lesson_ends_with_1_and_one_sentence(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "page.ipynb").write_text("<html>log in</html>")
    done = call(command, "check", str(tmp_path / "page.ipynb"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_names_that_the_terminal_cannot_show_are_no_error(command: list[str], tmp_path: Path) -> None:
    done = call(command, "start", str(tmp_path / "köln 気温"), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "köln 気温" / "01_tiny.ipynb").is_file()


def test_ctrl_c_ends_the_check_and_its_kernel(command: list[str], tiny: NotebookNode, tmp_path: Path) -> None:
    notebook = copy.deepcopy(tiny)
    marker = tmp_path / "pid"
    endless = f"import os, pathlib\npathlib.Path({str(marker)!r}).write_text(str(os.getpid()))\nwhile True: pass"
    notebook.cells.append(nbformat.v4.new_code_cell(endless))
    (tmp_path / "mine.ipynb").write_text(json.dumps(notebook))
    process = subprocess.Popen(
        [*command, "check", str(tmp_path / "mine.ipynb")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 60
    while not (marker.exists() and marker.read_text()) and time.monotonic() < end:
        time.sleep(0.1)
    kernel = int(marker.read_text())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.split() == ["Interrupted."]
    assert out == ""
    end = time.monotonic() + 10
    while Path(f"/proc/{kernel}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(kernel, 0)
