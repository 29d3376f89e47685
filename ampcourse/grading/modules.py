"""Which module of this package needs which, read from the source text without importing anything.

Imports inside functions count like all others, and so do the tables from which packages import on first use.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = "ampcourse"
_FOLDER = Path(__file__).resolve().parents[1]
_LEFT_OUT = {"__pycache__", "_bundled"}


@dataclass(frozen=True)
class Module:
    """One module as its text says.

    Attributes:
        name: with dots, from "ampcourse" on.
        path: below the package folder, with slashes.
        package: whether it is a package's `__init__`.
        needs: modules that it imports somewhere, without their parent packages.
        offers: names that it has from elsewhere, by import or by table, and where from: "module" or "module:name".
        lazy: modules that only its table leads to.
        defines: names that it binds itself.
    """

    name: str
    path: str
    package: bool
    needs: frozenset[str]
    offers: Mapping[str, str]
    lazy: frozenset[str]
    defines: frozenset[str]


def parents(name: str) -> list[str]:
    """The packages above a module, the root first."""
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


@functools.cache
def folder() -> Path:
    """Where the package's files are."""
    return _FOLDER


@functools.cache
def names() -> frozenset[str]:
    """The names of all modules of the package; none is read for that."""
    return frozenset(_paths())


@functools.cache
def module(name: str) -> Module:
    """One module, read when it is asked for."""
    return _read(name, _paths()[name], names())


@functools.cache
def modules() -> Mapping[str, Module]:
    """All modules of the package by name."""
    return {name: module(name) for name in _paths()}


@functools.cache
def _paths() -> Mapping[str, Path]:
    return {_dotted(path): path for path in sorted(_python_files())}


def below(name: str) -> set[str]:
    """A module and, if it is a package, everything in it."""
    return {m for m in names() if m == name or m.startswith(f"{name}.")}


def home(dotted: str) -> str | None:
    """The module of a name such as "ampcourse.numerics.FLOAT16.round"; itself for a module; None if there is none."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        found = ".".join(parts[:length])
        if found in names():
            return found if length == len(parts) else _defining(found, parts[length], set())
    return None


def offered(package: str, name: str) -> str:
    """The module that one gets to by `from package import name`: a submodule, what the table says, else itself."""
    if f"{package}.{name}" in names():
        return f"{package}.{name}"
    found = module(package)
    target = found.offers.get(name, "").partition(":")[0]
    return target if target in found.lazy else package


def _defining(package: str, name: str, seen: set[str]) -> str | None:
    if f"{package}.{name}" in names():
        return f"{package}.{name}"
    found = module(package)
    if name not in found.offers:
        return package if name in found.defines else None
    target, _, attribute = found.offers[name].partition(":")
    if not attribute or target in seen:
        return target
    return _defining(target, attribute, seen | {package})


def _python_files() -> Iterator[Path]:
    for path in _FOLDER.rglob("*.py"):
        if not _LEFT_OUT & set(path.relative_to(_FOLDER).parts):
            yield path


def _dotted(path: Path) -> str:
    parts = [ROOT, *path.relative_to(_FOLDER).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, path: Path, known: frozenset[str]) -> Module:
    tree = ast.parse(path.read_text("utf-8"))
    package = path.name == "__init__.py"
    table = _table(name, tree, known) if package else {}
    needs, offers = set() if table else set(_built(tree, known)), dict(table)
    at_once = {id(node) for node in _outside_functions(tree)}
    for node in _that_run(tree):
        for bound, target in imported(node, name, package, known):
            needs.add(target.partition(":")[0])
            if id(node) in at_once:
                offers[bound] = target
    lazy = {target.partition(":")[0] for target in table.values()} - {name}
    relative = path.relative_to(_FOLDER).as_posix()
    return Module(name, relative, package, frozenset(needs - {name}), offers, frozenset(lazy), _defined(tree))


def _that_run(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker sees."""
    yield node
    typing = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    for child in node.orelse if typing else ast.iter_child_nodes(node):
        yield from _that_run(child)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _outside_functions(child)


def imported(node: ast.AST, importer: str, package: bool, known: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The names of ours that an import binds, and where each comes from: "module" or "module:name"."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] == ROOT:
                yield (alias.asname or ROOT), alias.name
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = importer.split(".")[: len(importer.split(".")) - node.level + package]
            base = ".".join([*above, *([base] if base else [])])
        if base.partition(".")[0] != ROOT:
            return
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            yield alias.asname or alias.name, whole if whole in known else f"{base}:{alias.name}"


def _built(tree: ast.AST, known: frozenset[str]) -> Iterator[str]:
    """Modules whose names are put together: everything in the package that the text names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            begin = str(node.values[0].value)
            if begin.startswith(f"{ROOT}.") and begin.endswith(".") and begin[:-1] in known:
                yield from (name for name in known if name.startswith(begin) and "." not in name[len(begin) :])


def _table(package: str, tree: ast.Module, known: frozenset[str]) -> dict[str, str]:
    """The names that a package imports on first use, from tables of texts beside its `__getattr__`."""
    if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body):
        return {}
    found: dict[str, str] = {}
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Dict):
            entries = [(k, v) for k, v in zip(value.keys, value.values, strict=True) if _text(k) and _text(v)]
        elif isinstance(value, ast.Tuple):
            entries = [(v, v) for v in value.elts if _text(v)]
        else:
            continue
        for key, entry in entries:
            if target := _target(package, _text(key), _text(entry), known):
                found[_text(key)] = target
    return found


def _target(package: str, name: str, entry: str, known: frozenset[str]) -> str:
    module, _, attribute = entry.partition(":")
    if module in known:  # with nothing behind it, the module itself in the root's table, and the name in others'
        return f"{module}:{attribute}" if attribute else module if package == ROOT else f"{module}:{name}"
    inner = f"{package}.{module}"
    return "" if inner not in known else inner if name == module else f"{inner}:{name}"


def _text(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _defined(tree: ast.Module) -> frozenset[str]:
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(names)
