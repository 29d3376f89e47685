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
        return _sum(text for _, text in self._processes())

    def own_memory(self) -> int | None:
        """Bytes, each shared page counted once; None where that is not to be had."""
        return _own_memory(self._processes(), self._proc)

    def locks(self, most: int) -> int:
        """Locks on parts of files, of which a process may hold any number; counted up to this many."""
        return _lines("locks", self._proc, most)

    def descriptors(self) -> int:
        """Open files of all its processes together."""
        return sum(_descriptors(name, self._proc) for name in self._names())

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
        return len(_listed("1/root/dev/pts", self._proc))

    def _names(self) -> list[str]:
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            return [name for name in os.listdir(here) if name.isdigit()]  # noqa: PTH208 a descriptor
        finally:
            os.close(here)

    def _processes(self) -> Iterator[tuple[str, str]]:
        for name in self._names():
            yield from _process(name, self._proc)


class Tree:
    """A process and its descendants, seen in the machine's /proc; for what has no namespace of its own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def close(self) -> None:
        """Nothing is held."""

    def used(self) -> Used:
        """Count."""
        return _sum(text for _, text in self._processes())

    def own_memory(self) -> int | None:
        """As of a namespace."""
        return _own_memory(self._processes())

    def locks(self, most: int) -> int:
        """Not known: the list is everybody's."""
        return 0

    def descriptors(self) -> int:
        """As of a namespace."""
        return sum(_descriptors(f"/proc/{pid}") for pid in self.pids())

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

    def _processes(self) -> Iterator[tuple[str, str]]:
        for pid in self.pids():
            yield from _process(f"/proc/{pid}")


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


def _process(place: str, folder: int | None = None) -> Iterator[tuple[str, str]]:
    """Where a process, if it is there, shows its memory, and its status.

    The first thread of a process may end while others go on; then that thread, and so the process, shows none.
    """
    text = _read(f"{place}/status", folder)
    if text is None:
        return
    if not _has_memory(text) and _kib(text, ("Threads:",)) > 1:
        for thread in _listed(f"{place}/task", folder):
            other = _read(f"{place}/task/{thread}/status", folder)
            if other is not None and _has_memory(other):
                place, text = f"{place}/task/{thread}", other
                break
    yield place, text


def _has_memory(status: str) -> bool:
    return any(line.startswith("VmRSS:") for line in status.split("\n")[1:])


def _own_memory(processes: Iterator[tuple[str, str]], folder: int | None = None) -> int | None:
    total = 0
    for place, status in processes:
        if _has_memory(status):  # else it has ended
            text = _read(f"{place}/smaps_rollup", folder)
            if not text:
                return None
            total += _kib(text, OWN) * 1024
    return total


def _descriptors(place: str, folder: int | None = None) -> int:
    with contextlib.suppress(OSError):
        return os.stat(f"{place}/fd", dir_fd=folder).st_size or len(_listed(f"{place}/fd", folder))
    return 0


def _listed(path: str, folder: int | None = None) -> list[str]:
    with contextlib.suppress(OSError):
        here = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.listdir(here)  # noqa: PTH208 a descriptor
        finally:
            os.close(here)
    return []


def _lines(path: str, folder: int, most: int) -> int:
    count = 0
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            while count <= most and (piece := os.read(file, 1 << 16)):
                count += piece.count(b"\n")
        finally:
            os.close(file)
    return count


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
