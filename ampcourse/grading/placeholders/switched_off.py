"""`check` and `hint` while grading: they answer nothing, so that a notebook that calls them runs on."""

from __future__ import annotations

import sys
from typing import Any

CHECKS = "Checks are switched off while grading; your answer is judged afterwards."
HINTS = "Hints are switched off while grading."


def check(*_asked: Any, **_named: Any) -> float:
    """Say that nothing is checked here."""
    sys.stdout.write(CHECKS + "\n")
    return 0.0


def hint(*_asked: Any, **_named: Any) -> None:
    """Say that there are no hints here."""
    sys.stdout.write(HINTS + "\n")
