"""Modules import downwards only: each part of the package knows the parts below it and none above."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ampcourse

PACKAGE = Path(ampcourse.__file__).parent
FLOORS = (
    {"numerics", "course", "quiet", "terminal"},
    {"faults", "data"},
    {"models"},
    {"plots", "reproduce"},
    {"amp"},
    {"clinic"},
    {"training"},
    {"bench", "claims"},
    {"exercises"},
    {"grading", "learner", "doctor"},
    {"commands"},
    {"cli"},
)
"""The parts of the package, from the ground up; parts of one floor do not know each other."""

GRADING = (
    {"settings", "cells", "files", "modules"},
    {"model", "rules", "placeholder", "reference_process"},
    {"place", "records", "rounds", "withhold", "document", "sandbox", "release"},
    {"decisions", "database", "boxes", "references", "template", "submission"},
    {"assignment", "entry", "gradebook", "variants"},
    {"batch"},
    {"doors"},
    {"nbgrader_hooks"},
    {"feedback", "desk"},
)
"""The floors inside `grading/`, which is large enough to have its own."""
UPWARDS = {("sandbox", "template")}
"""The one place that chooses between two ways of starting kernels looks up to the faster one, inside a function."""


def part(module: str) -> str:
    """The part that a dotted name belongs to, also where the package itself hands it on."""
    name = module.split(".")[1] if "." in module else ""
    target = ampcourse._LAZY.get(name, "")
    return target.partition(":")[0].split(".")[1] if target else name


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and part of everything of ours that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = node.module == "ampcourse"
            names = [f"ampcourse.{alias.name}" for alias in node.names] if inside else [node.module]
        yield from ((node.lineno, part(name)) for name in names if name.split(".")[0] == "ampcourse")


def test_imports_point_downwards_only() -> None:
    height = {name: number for number, floor in enumerate(FLOORS) for name in floor}
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        own = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        assert own in height, f"{own} stands on no floor: add it to FLOORS"
        for line, other in imports(file):
            if other in height and other != own and height[other] >= height[own]:
                wrong.append(f"{file.relative_to(PACKAGE)}:{line} imports {other}")
    assert not wrong


def test_the_test_sees_what_functions_import(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text("def f():\n    from ampcourse import check, plots\n    import ampcourse.cli\n")
    assert list(imports(file)) == [(2, "exercises"), (2, "plots"), (3, "cli")]


def test_observers_never_import_answers() -> None:
    for file in (PACKAGE / "exercises" / "observers").glob("*.py"):
        assert "answers" not in {
            piece
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom | ast.Import)
            for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            for piece in name.split(".")
        }


def test_grading_points_downwards_too() -> None:
    height = {name: number for number, floor in enumerate(GRADING) for name in floor}
    wrong = []
    for file in (PACKAGE / "grading").rglob("*.py"):
        own = file.relative_to(PACKAGE / "grading").parts[0].removesuffix(".py")
        if own in ("__init__", "placeholders"):  # the latter are texts for a student's process
            continue
        assert own in height, f"{own} stands on no floor of grading: add it to GRADING"
        for line, other in grading_imports(file):
            upwards = other != own and height[other] >= height[own]
            if upwards and (own, other) not in UPWARDS:
                wrong.append(f"{file.relative_to(PACKAGE)}:{line} imports {other}")
    assert not wrong


def grading_imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and part of everything of `grading/` that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = node.module == "ampcourse.grading"
            names = [f"{node.module}.{alias.name}" for alias in node.names] if inside else [node.module]
        yield from ((node.lineno, name.split(".")[2]) for name in names if name.startswith("ampcourse.grading."))
