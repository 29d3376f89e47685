"""Writing what only the instructor may read, below `grading/` of a course: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file, readable by its owner only, whole or not at all, and so that it survives a power cut.

    Raises:
        OSError: if the disk refuses; then the old file is as it was.
    """
    descriptor, scratch = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(scratch).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(scratch).unlink()
        raise


def private_folder(folder: Path) -> Path:
    """A folder that only its owner can enter, made with those above it that are not there."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        with contextlib.suppress(OSError):  # on some shared disks modes cannot be set
            folder.chmod(0o700)
    return folder


def write_private(path: Path, content: bytes) -> None:
    """As `write_atomically`, and the folder is made if it is not there."""
    private_folder(path.parent)
    write_atomically(path, content)
