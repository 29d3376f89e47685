"""Answers as rows of tokens in which layout, comments and the names of variables no longer count."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Iterable, Sequence

from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Name, Number, String, Text, Whitespace

from ampcourse.grading.document.code import parsed

_BUILTINS = frozenset(dir(builtins))
_WORD = re.compile(r"\w+")
_FIRST, _SURROGATES = 0x100, range(0xD800, 0xE000)
_LONGEST = 20_000  # characters of one answer that are read


def code_tokens(text: str, given: str = "", known: Iterable[str] = ()) -> list[str]:
    """The tokens of an answer without those of the given code at its head.

    Names that the answer itself binds are all alike, so renaming them changes nothing; so are all texts. Names of
    libraries and attributes, numbers, operators and keywords stay. Docstrings and comments are left out.

    Args:
        text: the cell.
        given: the cell as it was released.
        known: names that stay what they are where the code does not parse and nobody can tell what it binds.
    """
    names = frozenset(known)
    tokens, (released, head) = _tokens(text, names), _given(given, names)
    if tokens == released:
        return []
    for start in range(len(tokens) - len(head) + 1 if head else 0):
        if tokens[start : start + len(head)] == head:
            return tokens[:start] + tokens[start + len(head) :]
    return tokens


def prose_tokens(text: str, given: str = "") -> list[str]:
    """The words of a written answer, without capitals; those of the released text are left out."""
    words = [word.casefold() for word in _WORD.findall(text[:_LONGEST])]
    released = [word.casefold() for word in _WORD.findall(given)]
    return words[len(released) :] if words[: len(released)] == released else words


def names_in(text: str) -> set[str]:
    """All names in a piece of code."""
    return {value for kind, value in PythonLexer().get_tokens(text[:_LONGEST]) if kind in Name}


class Alphabet:
    """Turns rows of tokens into strings of one letter for each token, as fast comparison wants them."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def spelt(self, tokens: Sequence[str]) -> str:
        """The tokens as a string; the same token is always the same letter."""
        return "".join(self._letters.get(token) or self._new(token) for token in tokens)

    def _new(self, token: str) -> str:
        code = _FIRST + len(self._letters)
        code += len(_SURROGATES) if code >= _SURROGATES.start else 0
        letter = chr(code) if code < 0x110000 else "\N{REPLACEMENT CHARACTER}"
        self._letters[token] = letter
        return letter


def _tokens(text: str, known: frozenset[str]) -> list[str]:
    text = text[:_LONGEST]
    tree = parsed(text)
    own = _bound_anywhere(tree) if tree is not None else None
    text = _plain(tree) or text if tree is not None else text
    kept, found, before = known | _BUILTINS, [], ""
    for kind, value in PythonLexer().get_tokens(text):
        if kind in Comment or kind in String.Doc or kind in Text or kind in Whitespace or not value.strip():
            continue
        if kind in String:
            if found[-1:] != ["text"]:
                found.append("text")  # a text comes in several pieces
        elif kind in Number:
            found.append(value.lower().replace("_", ""))
        elif kind in Name and before != ".":
            mine = value in own if own is not None else value not in kept
            found.append("name" if mine and value not in _BUILTINS else value)
        else:
            found += value if len(value) > 1 and not value.isidentifier() and kind not in Name else [value]
        before = value
    return found


def _plain(tree: ast.Module) -> str:
    """The code as Python itself would write it, without docstrings: one way to lay out, quote and bracket it."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    try:
        return ast.unparse(tree)
    except (RecursionError, ValueError):
        return ""


def _bound_anywhere(tree: ast.Module) -> frozenset[str]:
    """All names that code binds, in whatever scope: variables, parameters, functions, classes."""
    names: set[str] = set()
    try:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
    except RecursionError:
        return frozenset()
    return frozenset(names)


@functools.lru_cache(maxsize=256)
def _given(given: str, known: frozenset[str]) -> tuple[list[str], list[str]]:
    """The tokens of a stub, and those before its line that raises NotImplementedError. A class has the same ones."""
    released = _tokens(given, known)
    lines = given.splitlines()
    stop = next((n for n, line in enumerate(lines) if line.strip().startswith("raise NotImplementedError")), None)
    if stop is None:
        return released, released
    indent = lines[stop][: len(lines[stop]) - len(lines[stop].lstrip())]
    return released, _tokens("\n".join([*lines[:stop], f"{indent}pass"]), known)[:-1]
