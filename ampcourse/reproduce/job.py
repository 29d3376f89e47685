"""What one notebook's process is to do, and how it went."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Job:
    """What one process is to do; the head writes it as JSON."""

    lesson: str
    title: str
    source: str
    target: str
    scratch: str
    mark: str
    parameters: dict[str, Any]
    limit: float
    patience: float
    note: dict[str, Any]  # goes into the executed notebook's metadata: what a later run needs to keep it

    def save(self, path: Path) -> None:
        """Write the job where its process finds it."""
        path.write_text(json.dumps(asdict(self)), "utf-8")


@dataclass
class Outcome:
    """How it went."""

    status: str
    reason: str = ""
    seconds: float = 0.0
