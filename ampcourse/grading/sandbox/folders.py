"""Folders of our own for as long as a grader runs, and the end of those that dead graders left behind."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

PREFIX = "ampcourse-grading-"
_LOCK = "in-use"
LONGEST = 60
"""Bytes of the folder's name: a Unix socket's path has at most 107."""
_TOO_YOUNG = 60.0  # seconds: its maker may just be about to lock it


class OwnFolder:
    """A private folder that is removed at the end, ours or the next grader's doing.

    While its maker lives it holds a lock on a file in it; that, unlike a process's number, also tells graders apart
    that share the folder but not their processes, as containers do.
    """

    def __init__(self) -> None:
        sweep()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_places()[0]))
            self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if (self.path / _LOCK).exists():  # else another grader may have swept it away before it was locked
                break
            os.close(self._lock)
        self._maker = os.getpid()
        atexit.register(self.close)

    def close(self) -> None:
        """Remove it; may be called again. In a fork it stays: it is not the fork's."""
        lock, self._lock = self._lock, -1
        atexit.unregister(self.close)
        if lock >= 0 and os.getpid() == self._maker:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(lock)


def sweep() -> None:
    """Remove what dead graders of this user have left."""
    for folder in [folder for place in _places() for folder in place.glob(f"{PREFIX}*")]:
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                _remove_if_dead(folder, time.time() - found.st_mtime)


def _places() -> list[Path]:
    """Where our folders lie: the one for temporary files, unless its name is too long for a socket in it."""
    usual = Path(tempfile.gettempdir())
    short = Path("/tmp")
    if len(os.fsencode(usual)) <= LONGEST or not os.access(short, os.W_OK):
        return [usual]
    return [short, usual]


def _remove_if_dead(folder: Path, age: float) -> None:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        if age > _TOO_YOUNG:
            shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass  # its maker lives
    finally:
        os.close(lock)
