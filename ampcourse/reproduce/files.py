"""Files of a run: written whole or not at all, and one sentence when the disk or the folder refuses."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ampcourse.course import UserError

RESULTS = "results.json"
_FOLDERS = ("executed", "logs")
_NEEDED = 20 * 2**20  # bytes free on the disk below which a run does not start


class OutputError(UserError):
    """The output folder cannot be used."""


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all: into a neighbour first, then rename.

    Raises:
        OutputError: if the disk is full or the folder refuses; what was there before stays.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise OutputError(explain(error, path)) from error


def explain(error: OSError, path: Path) -> str:
    """One sentence for a refusal of the file system, with what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full, so '{path}' could not be written: free some space and run again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"'{path}' cannot be written because its folder is read-only: name another output folder."
    return f"'{path}' cannot be written ({os.strerror(error.errno or 0)}): name another output folder."


def prepare(out: Path) -> None:
    """Make the output folder ready, or say before anything runs why it cannot be used.

    Raises:
        OutputError: if it is a file, holds something else, cannot be written, or its disk is nearly full.
    """
    if out.exists() and not out.is_dir():
        raise OutputError(f"'{out}' is a file, not a folder: name another output folder.")
    try:
        strangers = {one.name for one in out.iterdir()} - set(_FOLDERS) if out.is_dir() else set()
        if strangers and RESULTS not in strangers:
            raise OutputError(f"'{out}' holds other files and no earlier run: name an empty or a new output folder.")
        for folder in (out, *(out / name for name in _FOLDERS)):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as probe:
                probe.write(b"probe")
        free = shutil.disk_usage(out).free
    except NotADirectoryError as error:
        raise OutputError(f"'{out}' lies under a file, not a folder: name another output folder.") from error
    except OSError as error:
        raise OutputError(explain(error, out)) from error
    if free < _NEEDED:
        raise OutputError(
            f"The disk that holds '{out}' has only {free / 2**20:.0f} MB free and a run needs {_NEEDED / 2**20:.0f}: "
            "free some space or name another output folder."
        )


@contextlib.contextmanager
def claimed(out: Path) -> Iterator[None]:
    """Hold the output folder, so that two runs never write into the same one.

    Raises:
        OutputError: if another run holds it.
    """
    handle = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"Another run is writing to '{out}': wait for it, or name another folder.") from None
        except OSError:
            pass  # Some network file systems have no locks; then there is no protection, but no failure either.
        yield
    finally:
        os.close(handle)
