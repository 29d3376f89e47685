"""What of the course would answer a lesson's exercises, and what its given cells can still run without that."""

from __future__ import annotations

import ast
import contextlib
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ampcourse.grading.cells import about
from ampcourse.grading.model import GradingError
from ampcourse.grading.modules import ROOT, below, home, imported, modules, names, offered

OBSERVING = (
    "ampcourse.exercises",
    "ampcourse.exercises.observe",
    "ampcourse.exercises.wire",
    "ampcourse.exercises.facts",
    "ampcourse.exercises.frames",
    "ampcourse.exercises.observers",
    "ampcourse.quiet",
    "ampcourse.reproduce",
    "ampcourse.reproduce.record",
)
"""What is always there: the half that observes, and what every lesson calls."""
SWITCHED_OFF = ("check", "hint")
"""Names of the package itself that are there all the same, and say that they do nothing."""
_NEVER = ("ampcourse.grading", "ampcourse.learner", "ampcourse.commands", "ampcourse.cli")


def never() -> set[str]:
    """Modules that no student's process may hold: everything that judges, grades or remembers."""
    judging = {m for m in below("ampcourse.exercises") if not m.startswith("ampcourse.exercises.observers")}
    return (judging - set(OBSERVING)).union(*(below(name) for name in _NEVER))


def answering(asks_for: Iterable[str]) -> set[str]:
    """The modules that hold these names, and every module that imports one of them, directly or through others.

    Raises:
        GradingError: if a name is not there, so that a renamed function cannot slip out of the list.
    """
    found: set[str] = set()
    for name in asks_for:
        module = home(name)
        if module is None:
            raise GradingError(f"An exercise asks for '{name}', which the package does not have: correct its asks_for.")
        found |= below(module)
    if there := found & set(OBSERVING):
        raise GradingError(f"An exercise asks for something in '{min(there)}', without which nothing can be observed.")
    return _with_importers(found) if found else found


def _with_importers(found: set[str]) -> set[str]:
    found = set(found)
    while more := {m.name for m in modules().values() if m.name not in found and m.name != ROOT and m.needs & found}:
        found |= more
    return found - set(OBSERVING)


_STAND_IN = '{name} = __import__("ampcourse.absent").absent.left_out("{name}")'


def code_cells(source: Any) -> Iterator[tuple[Any, bool]]:
    """The code cells of an instructor's notebook, and whether each is given: neither an answer nor graded."""
    for cell in source.cells:
        if cell.cell_type == "code":
            yield cell, not (about(cell).get("solution") or about(cell).get("grade"))


def parsed(text: str) -> ast.Module:
    """A cell's code; magics become calls; empty where it is no Python (another language's cell magic, a slip)."""
    from IPython.core.inputtransformer2 import TransformerManager

    with warnings.catch_warnings(), contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        warnings.simplefilter("ignore")
        return ast.parse(TransformerManager().transform_cell(text))
    return ast.Module([], [])


def runs_instead(source: Any, withheld: Collection[str]) -> dict[str, str]:
    """The given cells that use something withheld, and what is run instead of each.

    A cell runs without the statements that need it, directly or through names that other such statements would have
    bound. Imports and definitions always run: a withheld thing can be imported, only not used. Names that would have
    been new stand for something that says why it is not there.

    Args:
        source: the instructor's notebook. Nothing is decided by what students wrote.
        withheld: modules that are not there, as `Box.withheld` names them.

    Returns:
        The cell's text without white space around it, and the text that is run in its place; empty if nothing is.
    """
    if not withheld:
        return {}
    names, runs = _Names(frozenset(withheld)), {}
    for cell, given in code_cells(source):
        tree = parsed(cell.source)
        if not given:
            for statement in tree.body:
                names.written(statement)
            continue
        kept = [names.instead(statement) for statement in tree.body]
        whole, text = all(part is None for part in kept), cell.source.strip()
        parts = ([statement] if part is None else part for statement, part in zip(tree.body, kept, strict=True))
        lines = [line for part in parts for line in part]
        runs.setdefault(text, []).append(text if whole else ast.unparse(ast.Module(lines, [])))
    # The same text may stand in several places: then it runs as far as it can in one of them.
    return {text: max(parts, key=len) for text, parts in runs.items() if text not in parts}


@dataclass
class _Names:
    """Which of a notebook's names lead to something withheld, after the statements seen so far."""

    withheld: frozenset[str]
    missing: set[str] = field(default_factory=set)
    ours: dict[str, str] = field(default_factory=dict)
    libraries: set[str] = field(default_factory=set)
    there: set[str] = field(default_factory=set)

    def instead(self, statement: ast.stmt) -> list[ast.stmt] | None:
        """What runs in the place of a statement of a given cell, or None for itself; remembers what it binds."""
        if self._runs(statement):
            return None
        new = sorted(_uses(statement)[0] - self.there - {"_"})
        return [line for name in new for line in ast.parse(_STAND_IN.format(name=name)).body]

    def _runs(self, statement: ast.stmt) -> bool:
        bound, now, later = _uses(statement)
        imports = self._imports(statement)
        sick = bool(now & self.missing) or self._reaches(statement, deferred=False)
        doubtful = sick or bool(later & self.missing) or self._reaches(statement, deferred=True)
        for name in bound:
            self.ours.pop(name, None)
            (self.missing.add if doubtful else self.missing.discard)(name)
        self.libraries |= {_bound_as(alias) for node in ast.walk(statement) for alias in _aliases(node)}
        if sick:  # what it would have filled stays empty
            self.missing |= set(_changed(statement)) - self.libraries
        for name, target in imports.items():
            self.ours[name] = target
            (self.missing.add if target in self.withheld else self.missing.discard)(name)
        if not sick:
            self.there |= bound
        return not sick

    def written(self, statement: ast.stmt) -> None:
        """Note what the answer in this place binds: it is the student's own, and runs."""
        bound, _, _ = _uses(statement)
        self.missing -= bound
        self.there |= bound
        for name in bound:
            self.ours.pop(name, None)
        self.ours.update(self._imports(statement))

    def _imports(self, statement: ast.stmt) -> dict[str, str]:
        known = names()
        found: dict[str, str] = {}
        for node in ast.walk(statement):
            for name, target in imported(node, "__main__", False, known):
                module, _, attribute = target.partition(":")
                if module in known and not (module == ROOT and attribute in SWITCHED_OFF):
                    found[name] = offered(module, attribute) if attribute else module
        return found

    def _reaches(self, statement: ast.stmt, deferred: bool) -> bool:
        """Whether `package.name` somewhere in it is the name of something withheld."""
        nodes = ast.walk(statement) if deferred else _run_now(statement)
        return any(
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and (package := self.ours.get(node.value.id)) is not None
            and offered(package, node.attr) in self.withheld
            for node in nodes
        )


def _changed(statement: ast.stmt) -> Iterator[str]:
    """The names whose objects a statement changes: `x[0] = 1`, `x.y = 1`, `x.append(1)`."""
    for node in ast.walk(statement):
        place: ast.AST | None = None
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            place = node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            place = node.value.func.value if isinstance(node.value.func, ast.Attribute) else None
        while isinstance(place, ast.Subscript | ast.Attribute):
            place = place.value
        if isinstance(place, ast.Name):
            yield place.id


def _aliases(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []


def _bound_as(alias: ast.alias) -> str:
    return (alias.asname or alias.name).partition(".")[0]


@dataclass(frozen=True)
class _Event:
    """One name, read or bound, in the order in which a statement does it.

    Attributes:
        binds: bound, not read.
        later: in the body of a function, which runs when that is called.
        inner: bound only inside a function, a lambda or a comprehension.
    """

    name: str
    binds: bool
    later: bool
    inner: bool


def _uses(statement: ast.stmt) -> tuple[set[str], set[str], set[str]]:
    """The names that a statement binds, those that it needs from before when it runs, and those its functions need."""
    events = list(_events(statement, False, False))
    bound = {e.name for e in events if e.binds and not e.inner}
    return bound, _needed(e for e in events if not e.later), _needed(e for e in events if e.later)


def _needed(events: Iterable[_Event]) -> set[str]:
    first: dict[str, bool] = {}
    for event in events:
        first.setdefault(event.name, event.binds)
    return {name for name, binds in first.items() if not binds}


def _events(node: ast.AST, later: bool, inner: bool) -> Iterator[_Event]:
    if isinstance(node, ast.Name):
        yield _Event(node.id, not isinstance(node.ctx, ast.Load), later, inner)
    elif isinstance(node, ast.arg):
        yield _Event(node.arg, True, later, inner)
    elif isinstance(node, ast.alias):
        yield _Event(_bound_as(node), True, later, inner)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            yield from _events(part, later, inner)
        yield _Event(node.name, True, later, inner)
        for part in (*_arguments(node.args), *node.body):
            yield from _events(part, True, True)
    else:
        inner = inner or isinstance(node, ast.Lambda | _COMPREHENSIONS)
        for part in _in_order(node):
            yield from _events(part, later, inner)
        if isinstance(node, ast.ClassDef):
            yield _Event(node.name, True, later, inner)
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield _Event(node.name, True, later, inner)


_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def _in_order(node: ast.AST) -> Iterable[ast.AST]:
    """A node's parts in the order in which they run, where that is not the order in which they are written."""
    if isinstance(node, ast.Assign):
        return node.value, *node.targets
    if isinstance(node, ast.AugAssign):  # it reads what it binds
        return node.value, *_as_read(node.target), node.target
    if isinstance(node, ast.AnnAssign | ast.NamedExpr):
        return *filter(None, (node.value,)), node.target
    if isinstance(node, ast.For | ast.AsyncFor):
        return node.iter, node.target, *node.body, *node.orelse
    if isinstance(node, ast.comprehension):
        return node.iter, node.target, *node.ifs
    if isinstance(node, _COMPREHENSIONS):
        elements = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        return *node.generators, *elements
    if isinstance(node, ast.Lambda):
        return *node.args.defaults, *filter(None, node.args.kw_defaults), *_arguments(node.args), node.body
    return ast.iter_child_nodes(node)


def _as_read(target: ast.AST) -> Iterator[ast.AST]:
    if isinstance(target, ast.Name):
        yield ast.Name(target.id, ast.Load())


def _run_now(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement without the bodies of the functions that it defines."""
    yield node
    function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in (*node.decorator_list, node.args) if function else ast.iter_child_nodes(node):
        yield from _run_now(child)


def placed(texts: Mapping[str, str], text: str) -> str:
    """What runs in the place of a cell's text: itself, unless `runs_instead` says something else."""
    return texts.get(text.strip(), text)
