"""Tiny courses without TensorFlow, made on the spot, so that a whole run takes seconds."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ampcourse.reproduce.results import NotebookResult, Report
from ampcourse.reproduce.run import run_course

PARAMETERS = 'profile = "cpu"\nseed = 0'
LESSON = """
[[lesson]]
slug = "{slug}"
title = "Lesson {slug}"
summary = ""
objectives = []
minutes = 1
points = 0
cpu_seconds = {seconds}
gpu_seconds = {seconds}
"""


def notebook(cells: Sequence[str], parameters: str | None = PARAMETERS) -> dict[str, Any]:
    """A notebook of code cells; a cell that begins with "# " is Markdown. The first has the tag `parameters`."""
    made = []
    for number, source in enumerate(([] if parameters is None else [parameters]) + list(cells)):
        cell: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": source}
        if source.startswith("# "):
            cell["cell_type"] = "markdown"
        else:
            cell |= {"cell_type": "code", "outputs": [], "execution_count": None}
        if number == 0 and parameters is not None:
            cell["metadata"]["tags"] = ["parameters"]
        made.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": made}


def make_course(
    root: Path,
    lessons: Mapping[str, Any],
    seconds: Mapping[str, float] | None = None,
    results: Mapping[str, str] | None = None,
) -> Path:
    """A course folder. A lesson is a list of cells, a whole notebook, a text for its file, or None for no file."""
    toml = '[course]\ntitle = "Tiny"\n'
    for slug, content in lessons.items():
        toml += LESSON.format(slug=slug, seconds=(seconds or {}).get(slug, 60)) + (results or {}).get(slug, "")
        if content is None:
            continue
        folder = root / "source" / slug
        folder.mkdir(parents=True, exist_ok=True)
        made = notebook(content) if isinstance(content, list) else content
        text = made if isinstance(made, str) else json.dumps(made)
        (folder / f"{slug}.ipynb").write_text(text, "utf-8")
    root.mkdir(exist_ok=True)
    (root / "course.toml").write_text(toml, "utf-8")
    return root


def expects(name: str, low: float, high: float) -> str:
    """A lesson's expected result, in course.toml's words."""
    return f'[[lesson.result]]\nname = "{name}"\nlow = {low}\nhigh = {high}\n'


def run(course: Path, out: Path, **options: Any) -> tuple[Report, str]:
    """Run a course, and what it printed."""
    printed = io.StringIO()
    console = Console(file=printed, width=200)
    return run_course(course_root=course, out=out, console=console, **options), printed.getvalue()


def row(report: Report, slug: str) -> NotebookResult:
    """A lesson's row."""
    return next(one for one in report.notebooks if one.lesson == slug)


def executed_cells(report: Report, slug: str) -> list[tuple[str, str]]:
    """The code cells of an executed notebook that papermill keeps account of, each with its status."""
    content = json.loads((report.out / "executed" / f"{slug}.ipynb").read_text("utf-8"))
    return [
        ("".join(cell["source"]).splitlines()[0], cell["metadata"]["papermill"]["status"])
        for cell in content["cells"]
        if cell["metadata"].get("papermill")
    ]


@pytest.fixture(scope="session")
def tiny() -> SimpleNamespace:
    """The helpers above; test modules cannot import from here."""
    return SimpleNamespace(
        notebook=notebook,
        make_course=make_course,
        expects=expects,
        run=run,
        row=row,
        executed_cells=executed_cells,
    )


@pytest.fixture(autouse=True)
def _usual_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMPCOURSE_PATIENCE", "1")
