"""Looks about in the sandbox and tries what must not work; one JSON object on stdout says how it went.

Argument: the limits to try, as JSON. Run in the kernel's place, with nothing but Python's standard library.
"""

# ruff: noqa: PTH108, PTH110, PTH112, PTH118, PTH123, PTH208, T201
from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable

MIB = 1024 * 1024
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
CLOSED = ("/", "/usr", "/dev", "/etc", "/proc/sys/kernel/hostname", "/proc/sys/kernel/pid_max", "/proc/sysrq-trigger")
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Try everything, and say what held."""
    wanted = json.loads(sys.argv[1])
    found = {
        # Its own number where it could not have a user namespace: one that belongs to nobody, and so is high.
        "user": os.getuid() == os.geteuid() and (os.getuid() == wanted["uid"] or os.getuid() > 60_000),
        "rights": _rights(),
        "calls": _status().get("Seccomp") == "2" and _refused(_shared_memory),
        "namespaces": _refused(lambda: _unshare(NEW_USER)) and _refused(lambda: _unshare(NEW_NETWORK)),
        "alone": os.getppid() <= 1 and len([name for name in os.listdir("/proc") if name.isdigit()]) <= 3,
        "network": _interfaces() <= {"lo"} and _refused(_dial),
        "system": all(_refused(lambda path=path: _write(path)) for path in CLOSED + tuple(wanted["closed"])),
        "hidden": not any(os.path.exists(path) for path in wanted["hidden"]),
        "environment": sorted(set(os.environ) - set(wanted["environment"]) - {"LC_CTYPE", "PWD"}) == [],
        "host": os.uname().nodename == wanted["host"],
        "disk": all(_size(path) <= wanted["disk"] for path in wanted["writable"]),
        "writable": not any(_refused(lambda path=path: _write(path)) for path in wanted["writable"]),
        "data": _refused(lambda: mmap.mmap(-1, wanted["data"] + 64 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)),
        "file": _refused(lambda: _fill(wanted["file"] + MIB)),
        "processes": _forks(wanted["processes"] + 4) <= wanted["processes"],
    }
    print(json.dumps(found))


def _status() -> dict[str, str]:
    with open("/proc/self/status", encoding="utf-8") as file:
        return dict(line.rstrip("\n").replace(":", "", 1).split("\t", 1) for line in file if ":\t" in line)


def _rights() -> bool:
    status = _status()
    none = all(int(status[name], 16) == 0 for name in ("CapEff", "CapPrm", "CapInh", "CapBnd"))
    return none and status.get("NoNewPrivs") == "1"


def _refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, ValueError, MemoryError):
        return True
    return False


def _unshare(kind: int) -> None:
    if _libc.unshare(kind):
        raise OSError(ctypes.get_errno(), "unshare")


def _shared_memory() -> None:
    number = {"x86_64": 29}.get(os.uname().machine, 194)  # shmget
    if _libc.syscall(number, 0, 4096, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "shmget")


def _interfaces() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def _dial() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:  # sends nothing: it only asks for a way there
        one.connect(("192.0.2.1", 9))


def _write(path: str) -> None:
    if os.path.isdir(path):
        name = os.path.join(path, ".try")
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
        os.unlink(name)
    else:
        os.close(os.open(path, os.O_WRONLY))


def _size(path: str) -> int:
    taken = os.statvfs(path)
    return taken.f_blocks * taken.f_frsize


def _fill(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = os.open("/tmp/.fill", os.O_CREAT | os.O_WRONLY)
    try:
        for _ in range(size // MIB + 1):
            if os.write(file, bytes(MIB)) < MIB:
                raise OSError(errno.EFBIG, "cut")
    finally:
        os.close(file)
        os.unlink("/tmp/.fill")


def _forks(most: int) -> int:
    """How many processes there can be, this one included."""
    children = []
    try:
        for _ in range(most):
            child = os.fork()
            if child == 0:
                signal.pause()
                os._exit(0)
            children.append(child)
    except OSError:
        pass
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(children) + 1


if __name__ == "__main__":
    main()
