"""The ward of lesson 11: small broken training programs, and the chart of symptoms of each, drawn from a real run.

`examine` takes any function that makes a `Program`: bring your own patients too. Everything is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("loud", "silent")
_LAZY = {
    "Chart": "chart",
    "Course": "chart",
    "EVIDENCE": "chart",
    "examine": "chart",
    "first_sick": "chart",
    "follow": "chart",
    "Program": "program",
    "cross_entropy": "program",
    "squared_error": "program",
    "under": "program",
    "usual_step": "program",
    "WARD": "ward",
    "Patient": "ward",
    "admit": "ward",
    "audited": "ward",
    "code": "ward",
    "monitored": "ward",
    "prepared": "ward",
}
__all__ = [
    "EVIDENCE",
    "WARD",
    "Chart",
    "Course",
    "Patient",
    "Program",
    "admit",
    "audited",
    "code",
    "cross_entropy",
    "examine",
    "first_sick",
    "follow",
    "monitored",
    "prepared",
    "squared_error",
    "under",
    "usual_step",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"ampcourse.clinic.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'ampcourse.clinic' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ampcourse.clinic.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
