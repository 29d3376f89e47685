"""The solutions of a lesson that anybody can read: those of its source notebook, and the known alternatives.

The answers' modules are read as text and never imported: some of them import TensorFlow.
"""

from __future__ import annotations

import ast
import importlib.util
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from ampcourse.grading.cells import BEGIN, END, about, checked_exercise

_ANSWERS = "ampcourse.exercises.answers"


def published(source: NotebookNode) -> dict[str, list[str]]:
    """For each answer cell of a source notebook, by grade id, the published texts: first the source's own."""
    found: dict[str, list[str]] = defaultdict(list)
    answer = ""
    for cell in source.cells:
        marks = about(cell)
        if marks.get("solution"):
            answer = str(marks.get("grade_id", ""))
            lines = cell.source.split("\n")
            found[answer].append("\n".join(line for line in lines if BEGIN not in line and END not in line))
        elif answer and marks.get("grade") and cell.cell_type == "code":
            exercise = checked_exercise(cell.source)
            found[answer] += _alternatives(exercise) if exercise else []
    return dict(found)


def _alternatives(exercise: str) -> list[str]:
    """The texts of the right answers that the exercise's module names, as far as they are whole functions."""
    texts: list[str] = []
    for path in _modules(exercise.partition(".")[0]):
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        known = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and _says(call, "id") == [ast.dump(ast.Constant(exercise))]:
                names = [node.id for field in ("right", "also_right") for node in _field(call, field)]
                texts += [ast.unparse(known[name]) for name in names if name in known]
    return texts


def _modules(lesson: str) -> list[Path]:
    spec = importlib.util.find_spec(_ANSWERS)
    for folder in map(Path, (spec.submodule_search_locations or []) if spec else []):
        if (folder / f"{lesson}.py").is_file():
            return [folder / f"{lesson}.py"]
        if (folder / lesson).is_dir():
            return sorted((folder / lesson).glob("*.py"))
    return []


def _says(call: ast.Call, field: str) -> list[str]:
    return [ast.dump(keyword.value) for keyword in call.keywords if keyword.arg == field]


def _field(call: ast.Call, field: str) -> Iterator[ast.Name]:
    for keyword in call.keywords:
        if keyword.arg == field:
            yield from (node for node in ast.walk(keyword.value) if isinstance(node, ast.Name))
