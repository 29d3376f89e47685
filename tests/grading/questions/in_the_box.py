"""Runs in a process that finds a box's package and nothing else of the course, and says as JSON what came of it.

It tries to reach what must not be there, or runs a notebook's cells and observes its answers.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def only(folder: str) -> None:
    """Nothing of the course but what is below this folder."""
    sys.path[:] = [folder, *(p for p in sys.path if p and not (Path(p) / "ampcourse" / "__init__.py").is_file())]
    sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
    for name in [name for name in sys.modules if name.split(".")[0] == "ampcourse"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def says(attempt: Any) -> str:
    """What comes of an attempt to get at something and use it: "got it: ..." or the error."""
    try:
        found = attempt()
        for use in (lambda: found.__code__, lambda: found.__dict__, lambda: found(), lambda: found.anything()):
            try:
                use()
            except ImportError as error:
                return f"{type(error).__name__}: {error}"
            except Exception:
                continue
        return f"got it: {found!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def by_attributes(dotted: str) -> Any:
    """As `import ampcourse; ampcourse.a.b`."""
    first, *rest = dotted.split(".")
    found = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


def by_module(dotted: str) -> Any:
    """As `from longest.module.there.is import name`."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        if length == 1 and len(parts) > 1:
            break
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(dotted)


def everything_loaded(folder: str) -> None:
    """Import every module of the box that can be imported."""
    for path in sorted(Path(folder).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        try:
            importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        except ImportError:
            continue


def reach(folder: str, names: list[str]) -> dict[str, Any]:
    """What comes of reaching for each name; every name defined in a loaded module of ours; every file."""
    ways = (by_attributes, by_module)
    tried = {name: [says(lambda n=name, way=way: way(n)) for way in ways] for name in names}
    everything_loaded(folder)
    alive = [thing for thing in gc.get_objects() if callable(thing) and hasattr(type(thing), "__name__")]
    defined = set()
    for thing in alive:
        try:
            module, name = thing.__module__, thing.__qualname__
        except BaseException:
            continue
        if isinstance(module, str) and module.split(".")[0] == "ampcourse":
            defined.add(f"{module}.{name}")
    there = sorted(m for m in sys.modules if m.split(".")[0] == "ampcourse")
    return {"tried": tried, "defined": sorted(defined), "modules": there}


def run(cells: list[str], asked: dict[str, Any]) -> dict[str, Any]:
    """Run cells as a notebook would, then observe each answer."""
    from IPython.core.interactiveshell import InteractiveShell

    shell, errors = InteractiveShell.instance(), []
    for number, text in enumerate(cells):
        done = shell.run_cell(text, store_history=False)
        if error := done.error_before_exec or done.error_in_exec:
            errors.append([number, "".join(traceback.format_exception(error)[-3:])])
    from ampcourse.exercises.observe import observe

    seen = {}
    for name, one in asked.items():
        answer = eval(one["answer"], shell.user_ns)
        seen[name] = observe(one["observer"], one["packed"].encode("ascii"), answer, 120.0).decode("ascii")
    return {"errors": errors, "seen": seen}


def functions(folder: str) -> dict[str, Any]:
    """Every function, class and ready-made object's method that a student can get hold of in the box, by name."""
    everything_loaded(folder)
    found: dict[str, Any] = {}
    for module in [m for name, m in sorted(sys.modules.items()) if name.split(".")[0] == "ampcourse"]:
        for name, thing in sorted(vars(module).items()):
            if type(thing).__name__ == "Absent" or name.startswith("__"):
                continue
            if callable(thing) and getattr(thing, "__module__", "").startswith("ampcourse"):
                found[f"{module.__name__}.{name}"] = thing
            if type(thing).__module__.startswith("ampcourse"):
                for method in dir(type(thing)):
                    if not method.startswith("__") and callable(getattr(type(thing), method)):
                        found[f"{module.__name__}.{name}.{method}"] = getattr(thing, method)
    return {name: thing for name, thing in found.items() if not name.startswith("ampcourse.exercises.")}


def try_each(folder: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What each function of the box looks like as the answer to each question."""
    from ampcourse.exercises.observe import observe

    seen: dict[str, Any] = {name: {} for name in asked}
    for function, answer in functions(folder).items():
        for name, one in asked.items():
            packed = one["packed"].encode("ascii")
            seen[name][function] = observe(one["observer"], packed, answer, 5.0).decode("ascii")
    return seen


if __name__ == "__main__":
    task = json.loads(sys.stdin.read())
    only(task["folder"])
    out = os.dup(1)
    os.dup2(2, 1)
    if task["do"] == "reach":
        result = reach(task["folder"], task["names"])
    elif task["do"] == "try each":
        result = try_each(task["folder"], task["asked"])
    else:
        result = run(task["cells"], task["asked"])
    with os.fdopen(out, "w") as file:
        json.dump(result, file)
