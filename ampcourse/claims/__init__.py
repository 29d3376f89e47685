"""What three popular articles on TensorFlow AMP claim, what became of each claim, and the results that say so."""

from __future__ import annotations

import importlib
from typing import Any

# No module has the name of a function: importing the one would hide the other.
_HOMES = {
    "VERDICTS": "claim",
    "Claim": "claim",
    "counts": "claim",
    "ledger": "claim",
    "Evidence": "proof",
    "evidence": "proof",
    "recorded_results": "proof",
    "IMAGENET": "speeds",
    "SPEEDS": "speeds",
    "STATED_RATES": "speeds",
    "SpeedClaim": "speeds",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
