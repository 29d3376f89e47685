"""The few system calls that Python does not offer: clone with namespaces, mount, pivot_root, capabilities, seccomp."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct

# PyDLL keeps the interpreter's lock: in the child of a clone there is nobody to take it back from.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "keyctl": 250},
    "aarch64": {"clone": 220, "pivot_root": 41, "keyctl": 219},
}

CLONE_PIDFD = 0x00001000
NAMESPACES = (
    0x00020000  # mounts
    | 0x02000000  # cgroups
    | 0x04000000  # host name
    | 0x08000000  # System V and POSIX queues
    | 0x10000000  # users
    | 0x20000000  # processes
    | 0x40000000  # network
)
NEW_USER = 0x10000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 0x1000, 0x4000, 0x40000
DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 38, 47
_JOIN_SESSION_KEYRING = 1


def _must(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def _call(name: str, *arguments: object) -> int:
    number = _NUMBERS[os.uname().machine][name]
    return _must(_libc.syscall(ctypes.c_long(number), *arguments), name)


def clone(namespaces: int) -> tuple[int, int]:
    """Fork into new namespaces: (process id, its descriptor) here, (0, -1) in the child, which is process 1 there.

    One fork less than `unshare` and `os.fork`, which a large process feels. The C library does not know that it was
    forked; the child's own `os.fork` puts that right for the grandchild.
    """
    pidfd = ctypes.c_int(-1)
    flags = ctypes.c_ulong(namespaces | CLONE_PIDFD | signal.SIGCHLD)
    pid = _call("clone", flags, None, ctypes.byref(pidfd), None, None)
    return pid, pidfd.value if pid else -1


def unshare(namespaces: int) -> None:
    """Leave these namespaces for new ones."""
    _must(_libc.unshare(ctypes.c_int(namespaces)), "unshare")


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """mount(2)."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    data_bytes = None if data is None else data.encode()
    _must(_libc.mount(*words, ctypes.c_ulong(flags), data_bytes), f"mount {target}")


def enter_root(folder: str) -> None:
    """Make `folder`, a mount, the root of this process; nothing of the old root is left."""
    os.chdir(folder)
    _call("pivot_root", b".", b".")  # the old root now lies on top of the new one
    _must(_libc.umount2(b".", DETACH), "unmount the old root")
    os.chdir("/")


def loopback_up() -> None:
    """Switch on 127.0.0.1 of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def own_session_keyring() -> None:
    """Leave the keyring that the template's forks would share; where the kernel has none, there is nothing to leave."""
    with contextlib.suppress(OSError):
        _call("keyctl", ctypes.c_int(_JOIN_SESSION_KEYRING), None)


def end_with_parent() -> None:
    """Be killed when the process that started this one ends; a change of user has made the kernel forget that."""
    _must(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "end with the parent")


def dumpable(yes: bool) -> None:
    """Whether others of the same user may look into /proc/PID of this process."""
    _libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(yes), 0, 0, 0)


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def drop_rights() -> None:
    """No capability is left, none can come back."""
    _must(_libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "no new privileges")
    capability = 0
    while _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) == 0:
        capability += 1
    _libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(4), 0, 0, 0)  # clear all
    _must(_libc.capset(ctypes.byref(_Header(0x20080522, 0)), ctypes.byref((_Sets * 2)())), "capset")


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def filter_calls(program: bytes) -> None:
    """Install a seccomp filter: an array of `struct sock_filter`, eight bytes each."""
    filled = _Program(len(program) // 8, program)
    _must(_libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(filled), 0, 0), "seccomp")
