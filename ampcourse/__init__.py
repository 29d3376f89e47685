"""A course on TensorFlow automatic mixed precision: number formats, loss scaling, exercises and their checkers.

Everything is imported on first use, so that `import ampcourse` stays fast and silent: TensorFlow alone takes seconds
and writes to stderr, which costs points in a graded cell.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_LAZY = {
    "check": "ampcourse.exercises.check:check",
    "hint": "ampcourse.exercises.check:hint",
    "quietly": "ampcourse.quiet:quietly",
    "record": "ampcourse.reproduce.record:record",
    "numerics": "ampcourse.numerics",
    "plots": "ampcourse.plots",
    "data": "ampcourse.data",
    "amp": "ampcourse.amp",
}
__all__ = ["__version__", "amp", "check", "data", "hint", "numerics", "plots", "quietly", "record"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ampcourse' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    loaded = importlib.import_module(module)
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
