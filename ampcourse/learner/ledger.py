"""What was handed out to a learner's folder, by checksum, in a hidden file of that folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = ".ampcourse.json"
_LARGEST = 1 << 20  # bytes; ours is a few hundred


@dataclass(frozen=True)
class Entry:
    """SHA-256 of the version that a copy was made from, and of the newer one last laid beside it (or "")."""

    handed: str
    offered: str = ""


def read(folder: Path) -> dict[str, Entry]:
    """The entries by file name.

    A missing or damaged record reads as empty: every file that differs from the course's then counts as the learner's
    work, which loses nothing. A link is not followed.
    """
    path = folder / NAME
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
        return {}
    try:
        files = json.loads(path.read_text("utf-8"))["files"]
        return {str(name): Entry(str(entry["handed"]), str(entry["offered"])) for name, entry in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def write(entries: Mapping[str, Entry]) -> bytes:
    """The record as bytes."""
    content = {
        "about": "What 'ampcourse start' handed out here. Delete it and every changed notebook counts as yours.",
        "files": {name: asdict(entry) for name, entry in sorted(entries.items())},
    }
    return (json.dumps(content, indent=1) + "\n").encode()
