"""What a task asks not to use: it is not kept from anybody, for the answer is right; the instructor is told."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable


def used(sources: Iterable[str], forbidden: Collection[str]) -> list[str]:
    """The forbidden names that a student's code mentions, as a name, an attribute, an import or a text.

    Code that does not parse mentions nothing: it did not run either.
    """
    words: set[str] = set()
    for source in sources:
        words |= _words(source)
    return [name for name in forbidden if name in words]


def _words(source: str) -> set[str]:
    code = "\n".join("pass" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    words: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)  # getattr(np, "spacing"), astype("float16")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            words |= {alias.name.rpartition(".")[2] for alias in node.names}
    return words
