"""Limits and times of grading: the table `[grading]` of course.toml, and what stands for what is not said there."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampcourse.course import CourseError

_WANTED = {
    bool: "true or false",
    str: "a path in quotes",
    int: "a whole number above 0",
    float: "a number above 0",
}


@dataclass(frozen=True)
class Settings:
    """What one submission may use. Times in seconds, sizes in MiB.

    Attributes:
        cell_seconds: for one cell of the notebook.
        start_seconds: for a kernel to answer, and for the first cells, which import.
        submission_seconds: for one submission, restarts included.
        restarts: how often a kernel is started anew for one submission.
        memory_mib: resident memory of all its processes together.
        processes: processes and threads at a time.
        cpu_seconds: processor time of one process.
        file_mib: the largest file that it can write.
        disk_mib: all that it can write, in memory (/tmp, its home and its working folder each).
        notebook_mib: the largest notebook, or other file, that is taken from a submission.
        output_kib: what is kept of one cell's outputs.
        output_lines: lines kept of one cell's text.
        gpu: whether the GPU's device nodes are let in.
        exercises: a private folder of exercises, seen from the course directory; empty for none.
    """

    cell_seconds: float = 60.0
    start_seconds: float = 60.0
    submission_seconds: float = 600.0
    restarts: int = 5
    memory_mib: int = 3072
    processes: int = 128
    cpu_seconds: int = 600
    file_mib: int = 64
    disk_mib: int = 256
    notebook_mib: int = 20
    output_kib: int = 100
    output_lines: int = 1000
    gpu: bool = False
    exercises: str = ""


def load_settings(course_root: Path) -> Settings:
    """The settings of a course.

    Raises:
        CourseError: if course.toml cannot be read, or its table [grading] holds something unknown or out of range.
    """
    path = Path(course_root) / "course.toml"
    try:
        table = tomllib.loads(path.read_text("utf-8")).get("grading", {})
    except FileNotFoundError:
        return Settings()  # a plain nbgrader course directory
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CourseError(f"'{path}' cannot be read: {error}.") from None
    if not isinstance(table, dict):
        raise CourseError(f"'{path}': grading is not a table: write [grading] above its entries.")
    kinds = {field.name: type(field.default) for field in dataclasses.fields(Settings)}
    return Settings(**{name: _value(path, name, value, kinds) for name, value in table.items()})


def exercises_folder(course_root: Path, given: Path | None = None) -> Path | None:
    """The private folder of exercises that counts: the one given, else the one that course.toml names, else none.

    Raises:
        CourseError: as `load_settings`.
    """
    named = "" if given is not None else load_settings(course_root).exercises
    return Path(course_root) / Path(named).expanduser() if named else given


def _value(path: Path, name: str, value: Any, kinds: dict[str, type]) -> Any:
    if name not in kinds:
        raise CourseError(f"'{path}': [grading] knows no '{name}'; choose from: {', '.join(kinds)}.")
    kind = kinds[name]
    if kind in (bool, str):
        good = isinstance(value, kind)
    else:
        numbers = (int, float) if kind is float else (int,)
        good = isinstance(value, numbers) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
        good = good and (value > 0 or name == "restarts")
    if not good:
        wanted = {
            bool: "true or false",
            str: "a path in quotes",
            int: "a whole number above 0",
            float: "a number above 0",
        }[kind]
        raise CourseError(f"'{path}': [grading] {name} is {value!r}: give {wanted}.")
    return kind(value)
