"""A user of its own for each sandbox that user 0 starts: one that exists nowhere on the machine, and twice nowhere."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from ampcourse.grading.model import GradingError

# Above what systemd gives to containers and services, below the numbers that some programs take for negative.
WANTED = range(2_000_000_000, 2_000_010_000)
FALLBACK = range(61_000, 61_184)
"""Inside a container that has 65,536 users; no distribution gives these to anybody."""


class OwnUser:
    """A free user id, ours until closed.

    Abstract sockets serve as locks: one name can be bound once, and is free again the moment its holder ends.

    Raises:
        GradingError: if none is free.
    """

    def __init__(self) -> None:
        for uid in WANTED if mapped(WANTED[0]) else FALLBACK:
            lock = socket.socket(socket.AF_UNIX)
            try:
                lock.bind(f"\0ampcourse-grading-user-{uid}")
            except OSError:
                lock.close()
                continue
            self.uid, self._lock = uid, lock
            return
        raise GradingError("No user id is free for a sandbox: other graders on this machine hold all of them.")

    def close(self) -> None:
        """Give it back; may be called again."""
        self._lock.close()


def mapped(uid: int) -> bool:
    """Whether this user id exists in the container, if any, that we run in."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/uid_map").read_text("ascii").splitlines():
            first, _, count = map(int, line.split())
            if first <= uid < first + count:
                return True
        return False
    return True
