"""The lessons of this course, and processes that find nothing of it but a box's package."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ampcourse.course import course_root, load_course
from ampcourse.grading.boxes import make_box, write_package
from ampcourse.grading.model import Box

LESSONS = [lesson.slug for lesson in load_course().lessons]
HEAVY = [slug for slug in LESSONS if slug not in ("00_start_here", "01_fp16_range", "02_loss_scaling", "11_nan_clinic")]
EACH = [pytest.param(slug, marks=pytest.mark.full if slug in HEAVY else ()) for slug in LESSONS]
CHILD = Path(__file__).with_name("in_the_box.py")


@functools.cache
def source_of(slug: str) -> nbformat.NotebookNode:
    """The instructor's notebook of a lesson."""
    return nbformat.read(course_root() / "source" / slug / f"{slug}.ipynb", as_version=4)


@functools.cache
def box_of(slug: str) -> Box:
    """The lesson's box."""
    return make_box(slug, source_of(slug))


@pytest.fixture
def inside(tmp_path: Path) -> Callable[..., Any]:
    """`inside(box, do, ...)`: what a process finds that has a box's package and nothing else of the course."""

    def child(box: Box, do: str, **task: Any) -> Any:
        folder = tmp_path / "a box é"
        write_package(box.package, folder)
        if box.data:
            (folder / "data").symlink_to(course_root().parent / "data")
        environment = {**os.environ, "AMPCOURSE_PROFILE": "grade", "CUDA_VISIBLE_DEVICES": "-1"}
        done = subprocess.run(
            [sys.executable, "-P", str(CHILD)],
            input=json.dumps({"folder": str(folder), "do": do, **task}),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    return child
