"""Tools that show what mixed precision does to a model, each useful without the course.

Everything is imported on first use: importing `ampcourse.amp` is fast and does not import TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import Any

# No module has the name of a function: importing the one would hide the other.
_HOMES = {
    "GradientMonitor": "monitor",
    "audit": "auditing",
    "dtype_table": "dtypes",
    "hardware": "machine",
    "hlo": "xla",
    "kept_for_backward": "memory",
    "parity": "paired",
    "rewritten_graph": "graph",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
