"""The benchmark: what a dtype policy and XLA gain, measured side by side on this machine.

Nothing heavy is imported before it is used: neither Keras nor a backend, neither matplotlib nor NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

_LAZY = {
    "BenchError": "ampcourse.bench.plan",
    "POLICIES": "ampcourse.bench.plan",
    "PUBLISHED": "ampcourse.bench.published",
    "Plan": "ampcourse.bench.plan",
    "Report": "ampcourse.bench.shape",
    "compare": "ampcourse.bench.beside",
    "load": "ampcourse.bench.files",
    "markdown": "ampcourse.bench.page",
    "pictures": "ampcourse.bench.drawings",
    "run": "ampcourse.bench.session",
}
__all__ = ["POLICIES", "PUBLISHED", "BenchError", "Plan", "Report", "compare", "load", "markdown", "pictures", "run"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ampcourse.bench' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
