"""What can be told about a cell's code without running it. Student code is only ever parsed here, and only if short."""

from __future__ import annotations

import ast
import contextlib
import re
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

PARSED = 100_000
"""Characters up to which code is parsed; Python's parser can be brought down by far longer texts."""

PARSED_IN_ALL = 3_000_000
"""Characters that are parsed for one notebook, the same ones again included: 10 s at worst, with no kernel's limit on
them. An honest notebook needs a hundredth."""
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)

_DEFINES = re.compile(r"(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)", re.MULTILINE)
_RUNS_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun")  # cell magics whose cell is Python all the same
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INSIDE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@contextlib.contextmanager
def sparingly() -> Iterator[None]:
    """Parse no more than `PARSED_IN_ALL` within the block; what comes later counts as too long to tell."""
    token = _left.set([PARSED_IN_ALL])
    try:
        yield
    finally:
        _left.reset(token)


def normalised(text: str) -> str:
    """A text without what editors change by themselves: white space at the ends of lines, and of the text."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def parsed(text: str) -> ast.Module | None:
    """The syntax tree of a cell, magics set aside; None if it is not Python, or too long to tell."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    if len(text) > PARSED or (first.startswith("%%") and first.split()[0] not in _RUNS_PYTHON):
        return None
    if (left := _left.get()) is not None:
        left[0] -= len(text)
        if left[0] < 0:
            return None
    code = "\n".join(_without_magic(line) for line in lines)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python dislikes in a student's code is not for who grades
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _without_magic(line: str) -> str:
    bare = line.lstrip()
    return line[: len(line) - len(bare)] + "pass" if bare.startswith(("%", "!")) else line


def made(text: str) -> frozenset[str]:
    """The functions, classes and variables that a cell makes; of code that does not parse, functions and classes."""
    tree = parsed(text)
    if tree is None:
        return frozenset(_DEFINES.match(line).group(1) for line in text.splitlines() if _DEFINES.match(line))
    return frozenset(name for name, imported in _bound(tree) if not imported)


def bound(text: str) -> frozenset[str]:
    """All names that a cell binds, imported ones included; none if it does not parse."""
    tree = parsed(text)
    return frozenset(name for name, _ in _bound(tree)) if tree else frozenset()


def imports(text: str) -> bool:
    """Whether a cell imports anything."""
    tree = parsed(text)
    return tree is not None and any(imported for _, imported in _bound(tree))


def only_sets(text: str, names: frozenset[str]) -> bool:
    """Whether a cell does nothing but assign plain values to some of these names."""
    tree = parsed(text)
    if tree is None or not tree.body:
        return False
    return all(
        isinstance(line, ast.Assign)
        and isinstance(line.value, ast.Constant)
        and all(isinstance(target, ast.Name) and target.id in names for target in line.targets)
        for line in tree.body
    )


def same_code(one: str, other: str) -> bool:
    """Whether two cells differ in comments and layout at most."""
    trees = parsed(one), parsed(other)
    try:
        return None not in trees and ast.dump(trees[0]) == ast.dump(trees[1])  # type: ignore[arg-type]
    except RecursionError:
        return False


def _bound(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Names bound at the top level, each with whether it was imported. Not recursive: code may be nested deeply."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, _SCOPES):
            yield node.name, False
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name.partition(".")[0], True) for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, False
        elif not isinstance(node, _INSIDE):
            waiting += ast.iter_child_nodes(node)


def has_conflict(text: str) -> bool:
    """Whether git left its marks of a conflict in a text."""
    starts = {line[:7] for line in text.splitlines()}
    return "<<<<<<<" in starts and ">>>>>>>" in starts


def strings(value: object) -> str | None:
    """A text given as JSON gives it, whole or as a list of lines; None if it is neither."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return None
