"""Users of the machine for a template and its kernels, where the grader is the machine's user 0."""

from __future__ import annotations

import socket

from ampcourse.grading.model import GradingError
from ampcourse.grading.sandbox.users import mapped

FIRST, COUNT, BLOCKS = 2_000_010_000, 1_000, 100
"""Above those that fresh sandboxes take."""
FIRST_IN_CONTAINER, COUNT_IN_CONTAINER = 60_706, 49
"""Inside a container that has 65,536 users; no distribution gives these to anybody."""


class Users:
    """A block of user ids, ours until closed: the first for the template, the others for its kernels in turn.

    Abstract sockets serve as locks, as in `ampcourse.grading.sandbox.users`.

    Raises:
        GradingError: if none is free.
    """

    def __init__(self) -> None:
        far = mapped(FIRST + COUNT * BLOCKS)
        begin, self.count, blocks = (FIRST, COUNT, BLOCKS) if far else (FIRST_IN_CONTAINER, COUNT_IN_CONTAINER, 6)
        for first in range(begin, begin + self.count * blocks, self.count):
            lock = socket.socket(socket.AF_UNIX)
            try:
                lock.bind(f"\0ampcourse-grading-users-{first}")
            except OSError:
                lock.close()
                continue
            self.first, self._lock = first, lock
            return
        raise GradingError("No user ids are free for a template: other graders on this machine hold all of them.")

    def close(self) -> None:
        """Give them back; may be called again."""
        self._lock.close()
