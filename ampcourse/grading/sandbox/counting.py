"""What the processes of one sandbox use, counted from outside: all of them, whoever started them and in whatever way.

A process that outlives its parent falls to the first process of its namespace, so none can step out of the count.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HELD = ("RssAnon:", "RssShmem:", "VmSwap:")
"""Memory that is a process's own doing; pages of shared libraries are left out."""
TABLES = ("VmPTE:",)
"""What the kernel needs to describe it; not small where much is mapped and little touched."""
OWN = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")
"""The same with each shared page divided among those who share it; dear to ask for."""


@dataclass(frozen=True)
class Used:
    """A sandbox at one moment: memory and its tables in bytes, threads of all processes together, processes."""

    memory: int = 0
    tables: int = 0
    threads: int = 0
    processes: int = 0


class Namespace:
    """The processes of a PID namespace, seen through its own /proc, which lists exactly them.

    Args:
        pid: its first process, as it is called out here.

    Raises:
        OSError: if it is gone, not set up yet, or may not be looked into.
    """

    def __init__(self, pid: int) -> None:
        root = f"/proc/{pid}/root"
        self._proc = os.open(f"{root}/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _namespace("1/ns/pid", self._proc) != _namespace(f"/proc/{pid}/ns/pid"):
                raise OSError(f"/proc of process {pid} is not that of its namespace")
        except OSError:
            os.close(self._proc)
            raise

    def close(self) -> None:
        """Let go of it; may be called again."""
        proc, self._proc = self._proc, -1
        if proc >= 0:
            os.close(proc)

    def used(self) -> Used:
        """Count."""
        return _sum(self._status())

    def own_memory(self) -> int | None:
        """Bytes, each shared page counted once; None where that is not to be had."""
        total = 0
        for name in self._names():
            text = _read(f"{name}/smaps_rollup", self._proc)
            if text is None:
                return None
            total += _kib(text, OWN) * 1024
        return total

    def sockets(self) -> tuple[int, int]:
        """Sockets in its network namespace: all, and those of the Internet's kind, which can hold much more."""
        text = f"{_read('1/net/sockstat', self._proc)}\n{_read('1/net/sockstat6', self._proc)}"
        found = {}
        for line in text.split("\n"):
            words = line.split()  # "sockets: used 12", "TCP: inuse 1 orphan 0 tw 0 alloc 7 mem 203"
            if len(words) > 2 and words[2].isdigit():
                found[words[0]] = int(words[2])
        return found.get("sockets:", 0), sum(found.get(name, 0) for name in ("TCP:", "UDP:", "TCP6:", "UDP6:"))

    def terminals(self) -> int:
        """Pseudo-terminals that are open, of which the whole machine has a few thousand."""
        with contextlib.suppress(OSError):
            here = os.open("1/root/dev/pts", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
            try:
                return len(os.listdir(here))  # noqa: PTH208 a descriptor
            finally:
                os.close(here)
        return 0

    def _names(self) -> list[str]:
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            return [name for name in os.listdir(here) if name.isdigit()]  # noqa: PTH208 a descriptor
        finally:
            os.close(here)

    def _status(self) -> Iterator[str]:
        for name in self._names():
            if (text := _read(f"{name}/status", self._proc)) is not None:
                yield text


class Tree:
    """A process and its descendants, seen in the machine's /proc; for what has no namespace of its own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def close(self) -> None:
        """Nothing is held."""

    def used(self) -> Used:
        """Count."""
        return _sum(text for pid in self.pids() if (text := _read(f"/proc/{pid}/status")) is not None)

    def own_memory(self) -> int | None:
        """As of a namespace."""
        texts = [_read(f"/proc/{pid}/smaps_rollup") for pid in self.pids()]
        return None if None in texts else sum(_kib(text, OWN) * 1024 for text in texts if text)

    def sockets(self) -> tuple[int, int]:
        """Not known: the network is everybody's."""
        return 0, 0

    def terminals(self) -> int:
        """Not known either."""
        return 0

    def pids(self) -> list[int]:
        """The process first."""
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (parent := _parent(int(entry.name))):
                children.setdefault(parent, []).append(int(entry.name))
        found = [self.pid]
        for pid in found:
            found += children.get(pid, [])
        return found


class Folders:
    """File systems in memory inside, watched from outside.

    Args:
        pid: a process that sees them.
        paths: where it sees them.

    Raises:
        OSError: if one cannot be opened.
    """

    def __init__(self, pid: int, paths: tuple[str, ...]) -> None:
        self._open: list[int] = []
        try:
            for path in paths:
                flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                self._open.append(os.open(f"/proc/{pid}/root{path}", flags))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of them, and so of the memory in them; may be called again."""
        held, self._open = self._open, []
        for one in held:
            os.close(one)

    def fullest(self) -> tuple[int, int]:
        """The most bytes, and the most files, in any one of them."""
        taken = [os.fstatvfs(one) for one in self._open]
        size = max(((found.f_blocks - found.f_bfree) * found.f_frsize for found in taken), default=0)
        return size, max((found.f_files - found.f_ffree for found in taken), default=0)


def started(pid: int) -> str | None:
    """When a process began, in the machine's own unit: with its number, this names it for ever; None if it is gone."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else None


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else None


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything."""
    return (_read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()


def _sum(statuses: Iterator[str]) -> Used:
    memory = tables = threads = processes = 0
    for text in statuses:
        processes += 1
        memory += _kib(text, HELD) * 1024
        tables += _kib(text, TABLES) * 1024
        threads += _kib(text, ("Threads:",))
    return Used(memory, tables, threads, processes)


def _kib(text: str, names: tuple[str, ...]) -> int:
    # A process's name is the first line. The kernel writes a line break in it as \n; other breaks that Python knows
    # it leaves, so that splitlines() would let a process make up lines.
    return sum(int(line.split()[1]) for line in text.split("\n")[1:] if line.startswith(names))


def _read(path: str, folder: int | None = None) -> str | None:
    """A file of /proc; None if its process is gone or it is closed to us."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.read(file, 1 << 16).decode("utf-8", "replace")
        finally:
            os.close(file)
    return None


def _namespace(path: str, folder: int | None = None) -> str:
    return os.readlink(path, dir_fd=folder)
