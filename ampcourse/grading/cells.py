"""How to read a cell of a course notebook: its tags, nbgrader's metadata, what it checks. Needs nothing installed."""

from __future__ import annotations

import ast
import re
from typing import Any

BEGIN, END = "BEGIN SOLUTION", "END SOLUTION"
HIDDEN = "BEGIN HIDDEN TESTS"
PARAMETERS, INTERPRETATION = "parameters", "interpretation"

_PROFILE_LINE = re.compile(r"^profile\s*=.*$", re.MULTILINE)


def about(cell: Any) -> dict[str, Any]:
    """nbgrader's metadata of a cell; empty for an ordinary cell."""
    return cell.metadata.get("nbgrader", {})


def tags(cell: Any) -> set[str]:
    """A cell's tags; whatever is not a list of texts is no tags."""
    found = cell.metadata.get("tags", [])
    return {tag for tag in found if isinstance(tag, str)} if isinstance(found, list) else set()


def checked_exercise(source: str) -> str | None:
    """The exercise id in a cell that is just `check("<exercise>", <answer>)`; None for any other cell."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check" and call.args):
        return None
    name = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    return name if isinstance(name, str) else None


def raises_not_implemented(source: str) -> bool:
    """Whether code, once magics are set aside, parses and holds `raise NotImplementedError`."""
    code = "\n".join("pass" if line.startswith(("%", "!")) else line for line in source.splitlines())
    try:
        raises = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Raise)]
    except (SyntaxError, ValueError):
        return False
    raised = [node.exc.func if isinstance(node.exc, ast.Call) else node.exc for node in raises]
    return any(isinstance(name, ast.Name) and name.id == "NotImplementedError" for name in raised)


def graded_parameters(source: str) -> str:
    """The text of a parameters cell with the profile set to "grade"; everything else stays."""
    line = 'profile = "grade"'
    return _PROFILE_LINE.sub(line, source) if _PROFILE_LINE.search(source) else f"{source}\n{line}".lstrip("\n")
