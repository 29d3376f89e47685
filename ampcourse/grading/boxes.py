"""What a student's process finds of this package: a generated copy with what a lesson needs and nothing that answers.

What is in it is a list of what may be there, not of what may not: the half that observes, what the lesson's given cells
import and what that imports in turn, less everything that would answer one of the lesson's exercises.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

import ampcourse
from ampcourse.exercises import check, private
from ampcourse.exercises.model import Exercise
from ampcourse.grading.cells import about, checked_exercise
from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.modules import ROOT, below, folder, imported, names, offered, parents
from ampcourse.grading.modules import module as read_module
from ampcourse.grading.withhold import OBSERVING, SWITCHED_OFF, answering, code_cells, never, parsed

_PLACEHOLDERS = Path(__file__).with_name("placeholders")
_HEAVY = {
    "tensorflow": "tensorflow",
    "keras": "keras",
    "keras_hub": "keras_hub",
    "tf_keras": "tf_keras",
    "jax": "jax",
    "torch": "torch",
    "numpy": "numpy",
    "scipy": "scipy",
    "pandas": "pandas",
    "sklearn": "sklearn",
    "matplotlib": "matplotlib.pyplot",
    "seaborn": "seaborn",
    "PIL": "PIL.Image",
    "ml_dtypes": "ml_dtypes",
}
"""Libraries that take long to import, and the module of each that is worth loading once for all."""


def make_box(lesson: str, source: NotebookNode | bytes, exercises_dir: Path | None = None) -> Box:
    """The package that the submissions of a lesson find.

    Args:
        lesson: the assignment's slug.
        source: the instructor's notebook.
        exercises_dir: a private folder of exercises; its observers come along.

    Raises:
        GradingError: if the source is no notebook, or an exercise names something that is not there.
    """
    notebook = read_source(lesson, source)
    exercises = asked_exercises(lesson, notebook, exercises_dir)
    withheld = answering(name for exercise in exercises for name in exercise.asks_for)
    out = withheld | never()
    given = _given_imports(notebook)
    inside, met = _reach({*OBSERVING, *_observer_modules(exercises), *given}, out)
    absent = {name: _because(name, withheld) for name in met | (withheld - never())}
    package = {read_module(name).path: _bytes(read_module(name).path) for name in inside - {ROOT}}
    package |= {read_module(name).path: _withheld_text(says) for name, says in absent.items()}
    package |= _fixed(inside | absent.keys()) | private.observer_files(exercises_dir)
    return Box(
        lesson=lesson,
        package=dict(sorted(package.items())),
        withheld=tuple(sorted(absent)),
        preload=_preload(notebook, inside),
        data="ampcourse.data" in inside,
    )


def read_source(lesson: str, source: NotebookNode | bytes) -> NotebookNode:
    """An instructor's notebook, read if it is still bytes.

    Raises:
        GradingError: if it is none.
    """
    if isinstance(source, NotebookNode):
        return source
    try:
        return nbformat.reads(bytes(source).decode("utf-8"), as_version=4)
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise GradingError(f"The source notebook of '{lesson}' cannot be read: {first.rstrip('.')}.") from None


def lesson_name(slug: str) -> str:
    """The first half of the ids of a lesson's exercises: its slug without the number."""
    number, _, name = slug.partition("_")
    return name if number.isdecimal() and name else slug


def checked(notebook: NotebookNode) -> list[str]:
    """The ids of the exercises that a notebook's graded cells check, in order."""
    graded = (cell for cell in notebook.cells if cell.cell_type == "code" and about(cell).get("grade"))
    return list(dict.fromkeys(name for cell in graded if (name := checked_exercise(cell.source))))


def asked_exercises(lesson: str, notebook: NotebookNode, exercises_dir: Path | None = None) -> list[Exercise]:
    """The exercises that a lesson's process must not find answered: its own, and whatever else its cells check."""
    names = {lesson_name(lesson), *(name.partition(".")[0] for name in checked(notebook))}
    with private.using(exercises_dir):
        return [exercise for name in sorted(names & set(check.lessons())) for exercise in check.exercises(name)]


def _given_imports(notebook: NotebookNode) -> set[str]:
    """The modules that the given cells import, also those that they get from a package's table as `package.name`."""
    known, found, bound = names(), set(), {}
    trees = [parsed(cell.source) for cell, given in code_cells(notebook) if given]
    for node in (node for tree in trees for node in ast.walk(tree)):
        for name, target in imported(node, "__main__", False, known):
            module, _, attribute = target.partition(":")
            if module in known and not (module == ROOT and attribute in SWITCHED_OFF):
                bound[name] = offered(module, attribute) if attribute else module
                found |= {module, bound[name]}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in bound:
            found.add(offered(bound[node.value.id], node.attr))
    return found - {ROOT}


def _observer_modules(exercises: Iterable[Exercise]) -> set[str]:
    return {exercise.observer.__module__ for exercise in exercises} & names()


def _reach(roots: set[str], out: Collection[str]) -> tuple[set[str], set[str]]:
    """What these modules need, themselves included, and what of it is left out."""
    inside: set[str] = set()
    met: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in inside or name in met or name == ROOT:
            continue
        waiting += parents(name)
        if name in out:
            met.add(name)
            continue
        inside.add(name)
        waiting += read_module(name).needs
    return inside | {ROOT}, met


def _because(name: str, withheld: Collection[str]) -> str:
    if name not in withheld:
        return f"{name} is not there while grading."
    return f"{name} is withheld while grading, because it would answer an exercise: write it yourself."


def _bytes(path: str) -> bytes:
    return (folder() / path).read_bytes()


def _withheld_text(says: str) -> bytes:
    return _filled("withheld.py.txt", says=repr(says))


def _filled(name: str, **values: str) -> bytes:
    text = (_PLACEHOLDERS / name).read_text("utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text.encode("utf-8")


def _fixed(there: Collection[str]) -> dict[str, bytes]:
    """The root, which offers only what is there, and what stands for checks and for things withheld."""
    own = {name: f"{ROOT}.switched_off:{name}" for name in SWITCHED_OFF}
    table = {k: v for k, v in read_module(ROOT).offers.items() if v.partition(":")[0] in there} | own
    listed = "{" + ", ".join(f"{k!r}: {v!r}" for k, v in sorted(table.items())) + "}"
    return {
        "__init__.py": _filled("root.py.txt", version=repr(ampcourse.__version__), lazy=listed),
        "switched_off.py": (_PLACEHOLDERS / "switched_off.py").read_bytes(),
        "absent.py": (_PLACEHOLDERS / "absent.py").read_bytes(),
    }


def _preload(notebook: NotebookNode, inside: Collection[str]) -> tuple[str, ...]:
    """The heavy libraries that the given cells import, and matplotlib where the course's own pictures are there."""
    found: dict[str, None] = {}
    for cell, given in code_cells(notebook):
        for node in ast.walk(parsed(cell.source)) if given else ():
            for name in _imported_names(node):
                if (heavy := _HEAVY.get(name.partition(".")[0])) is not None:
                    found[heavy] = None
    if any(name in inside for name in below("ampcourse.plots")):
        found[_HEAVY["matplotlib"]] = None
    return tuple(found)


def _imported_names(node: ast.AST) -> Sequence[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def write_package(package: Mapping[str, bytes], target: Path) -> None:
    """Write a box's package below a folder, as `target/ampcourse/...`."""
    for path, content in package.items():
        place = Path(target) / ROOT / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
