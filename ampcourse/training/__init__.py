"""Training of picture classifiers in mixed precision: one configuration, and two loops that do the same.

Everything is imported on first use: importing `ampcourse.training` imports neither Keras nor TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import Any

# No module has the name of a function: importing the one would hide the other.
_HOMES = {
    "Config": "config",
    "Result": "result",
    "TrainingError": "errors",
    "models": "catalogue",
    "train": "run",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
