"""The watchdog: several times a second it counts what each sandbox uses, and ends the one that uses too much."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ampcourse.grading.sandbox.counting import Folders, Namespace, Tree, Used
from ampcourse.grading.sandbox.limits import MIB

if TYPE_CHECKING:
    from ampcourse.grading.settings import Settings

OFTEN, SELDOM = 0.03, 0.1
"""Seconds between two looks: at one that is near a limit, and otherwise."""
SPARE_PROCESSES = 8
SHARING = 16
"""Processes up to which it is asked what they share: that takes time, and others must be watched meanwhile."""
SOCKETS, DIALLED = 1000, 100
"""What they hold is the kernel's memory, which no other limit counts: some 200 KiB each, of those of the Internet's
kind some 10 MiB for a pair."""
TERMINALS = 100
LOCKS = 4000
"""On parts of files, each some 200 bytes of the kernel's memory."""
DESCRIPTORS = 5000
"""Of all processes together. Few take much by themselves, but files wait for each other by pairs (epoll), and a user
of the machine has a limited number of such pairs, which the next submission may need."""
FILES = 50_000
"""Each takes about a KiB of the kernel's memory, however empty it is."""


class Watched:
    """One sandbox under watch.

    Args:
        pid: the first process, as it is called out here.
        settings: what it may use.
        kill: called once, with the reason in words, from the watchdog's thread; it must end the sandbox at once.
        folders: file systems in memory, as the sandbox calls them, that are watched for their size.
        namespace: False watches a process and its descendants instead of a PID namespace.
    """

    def __init__(
        self,
        pid: int,
        settings: Settings,
        kill: Callable[[str], None],
        folders: tuple[str, ...] = (),
        namespace: bool = True,
    ) -> None:
        self.pid, self._settings, self._kill, self._paths = pid, settings, kill, folders
        self._counted: Namespace | Tree | None = None if namespace else Tree(pid)
        self._folders: Folders | None = None
        self._begin = time.monotonic()
        self._lock = threading.Lock()
        self._done = False

    def stop(self) -> None:
        """Watch it no longer, and hold nothing of it; may be called again."""
        with self._lock:
            self._done = True
            for held in (self._counted, self._folders):
                if held is not None:
                    held.close()
            self._counted = self._folders = None

    def look(self) -> float | None:
        """Count once, and kill if it is too much.

        Returns:
            Seconds until the next look; None if there is to be none.
        """
        with self._lock:
            if self._done:
                return None
            try:
                reason, soon = self._verdict()
            except (OSError, ValueError):  # it ends just now, or it is not set up yet
                reason, soon = self._unseen(), False
            if not reason:
                return OFTEN if soon else SELDOM
        self.stop()
        with contextlib.suppress(Exception):  # it ends just now; the watchdog itself must go on
            self._kill(reason)
        return None

    def _unseen(self) -> str:
        """Before its code runs it may be out of sight for a while; after that, nobody hides."""
        late = time.monotonic() - self._begin > self._settings.start_seconds
        return "it could not be watched any longer" if late and os.path.exists(f"/proc/{self.pid}") else ""  # noqa: PTH110

    def _verdict(self) -> tuple[str, bool]:
        settings = self._settings
        if self._counted is None:
            self._counted = Namespace(self.pid)
        if self._folders is None and self._paths:
            self._folders = Folders(self.pid, self._paths)
        used, most = self._counted.used(), settings.memory_mib * MIB
        size, files = self._folders.fullest() if self._folders else (0, 0)
        if used.memory + used.tables > most and self._own(used) + used.tables > most:
            return f"it used more than {amount(settings.memory_mib)} of memory", False
        if max(used.threads, used.processes) > settings.processes + SPARE_PROCESSES:
            return f"it started more than {settings.processes} processes", False
        if many := self._many():
            return many, False
        if size > settings.disk_mib * MIB:
            return f"it wrote more than {amount(settings.disk_mib)} of files", False
        if files > FILES:
            return f"it made more than {FILES:,} files", False
        if time.monotonic() - self._begin > settings.submission_seconds + settings.start_seconds:
            return f"it ran for more than {settings.submission_seconds:g} s", False
        return "", used.memory > most / 2

    def _many(self) -> str:
        """What there is too much of, among the things that take the kernel's memory."""
        if self._counted is None:
            return ""
        sockets, dialled = self._counted.sockets()
        if sockets > SOCKETS or dialled > DIALLED:
            return f"it opened more than {SOCKETS if sockets > SOCKETS else DIALLED} sockets"
        if self._counted.descriptors() > DESCRIPTORS:
            return f"it had more than {DESCRIPTORS:,} files open"
        if self._counted.terminals() > TERMINALS:
            return f"it opened more than {TERMINALS} terminals"
        if self._counted.locks(LOCKS) > LOCKS:
            return f"it held more than {LOCKS:,} locks on files"
        return ""

    def _own(self, used: Used) -> int:
        """Their memory when pages that several share are not counted for each; of a crowd it is not asked."""
        own = self._counted.own_memory() if 1 < used.processes <= SHARING and self._counted else None
        return used.memory if own is None else min(own, used.memory)


def watch(
    pid: int,
    settings: Settings,
    kill: Callable[[str], None],
    folders: tuple[str, ...] = (),
    namespace: bool = True,
) -> Watched:
    """Put a sandbox under watch; one thread of this process watches all. See `Watched`."""
    watched = Watched(pid, settings, kill, folders, namespace)
    _watchdog.add(watched)
    return watched


def amount(mib: float) -> str:
    """A size in words: "3 GiB", "500 MiB"."""
    return f"{mib / 1024:g} GiB" if mib >= 1024 and mib % 256 == 0 else f"{mib:g} MiB"


class _Watchdog:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new = threading.Event()
        self._due: dict[Watched, float] = {}
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        with self._lock:
            self._due[watched] = 0.0
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="sandbox watchdog", daemon=True)
                self._thread.start()
        self._new.set()

    def _run(self) -> None:
        while True:
            now = time.monotonic()
            with self._lock:
                due = [one for one, when in self._due.items() if when <= now]
            for one in due:
                again = one.look()
                with self._lock:
                    if again is None:
                        self._due.pop(one, None)
                    else:
                        self._due[one] = time.monotonic() + again
            with self._lock:
                nearest = min(self._due.values(), default=now + 60)
            self._new.wait(max(0.0, nearest - time.monotonic()))
            self._new.clear()


_watchdog = _Watchdog()


def _in_a_fork() -> None:
    """A fork has none of its parent's threads, and none of its sandboxes to watch."""
    global _watchdog
    _watchdog = _Watchdog()


with contextlib.suppress(AttributeError):  # no forks on this system
    os.register_at_fork(after_in_child=_in_a_fork)
