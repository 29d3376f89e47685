"""A room for one kernel: a root of its own, limits, no rights. All of this runs as process 1 of new namespaces.

Done anew for each kernel, so with plain calls of `os`: `pathlib` would cost more than the mounts.
"""

# ruff: noqa: PTH102, PTH103, PTH110, PTH112, PTH120, PTH211

from __future__ import annotations

import contextlib
import os
import resource
import socket
from typing import Any

from system import (
    BIND,
    NODEV,
    NOEXEC,
    NOSUID,
    PRIVATE,
    RDONLY,
    REC,
    REMOUNT,
    drop_rights,
    dumpable,
    enter_root,
    filter_calls,
    loopback_up,
    mount,
    own_session_keyring,
)

_DEVICES = {name: name for name in ("null", "full", "random", "urandom", "tty")}
_DEVICES["zero"] = "full"  # to read they are the same; but /dev/zero can be mapped, as memory that nobody counts
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")


def move_in(plan: dict[str, Any]) -> None:
    """Build the room, enter it and give up every right; afterwards only student's code may run here.

    The identity of the room's user must be mapped by now.
    """
    own_session_keyring()
    _become(plan["uid"])
    _build(plan["stage"], plan["mounts"])
    enter_root(plan["stage"])
    _seal_proc()
    mount(None, "/dev", None, REMOUNT | BIND | RDONLY | NOSUID)
    mount(None, "/", None, REMOUNT | BIND | RDONLY | NOSUID | NODEV)
    socket.sethostname(plan["hostname"])
    loopback_up()
    for kind, *wanted in plan["limits"]:
        most = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, tuple(one if most == resource.RLIM_INFINITY else min(one, most) for one in wanted))
    _write("/proc/self/oom_score_adj", "1000")  # where memory runs out, this goes before all others
    drop_rights()
    if plan["seccomp"]:
        filter_calls(bytes.fromhex(plan["seccomp"]))


def _become(uid: int) -> None:
    """The one user there is; only where the template could map another than its own does this change anything."""
    if os.getuid() != uid:
        os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    dumpable(True)  # or /proc/self belongs to a user that does not exist here
    os.umask(0o022)


def _build(stage: str, mounts: list[list[str]]) -> None:
    mount(None, "/", None, REC | PRIVATE)
    mount("tmpfs", stage, "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    os.mkdir(f"{stage}/proc")
    mount("proc", f"{stage}/proc", "proc", NOSUID | NODEV | NOEXEC)
    _devices(f"{stage}/dev")
    for kind, target, what in mounts:
        place = stage + target
        if kind == "tmpfs":
            os.makedirs(place, exist_ok=True)
            mount("tmpfs", place, "tmpfs", NOSUID | NODEV, what)
        elif kind == "link":
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(what, place)
        else:
            _place_for(target, place)
            mount(target, place, None, BIND | REC)  # read-only in the template, and so here: that flag is locked


def _place_for(target: str, place: str) -> None:
    if os.path.isdir(target):
        os.makedirs(place, exist_ok=True)
    elif not os.path.exists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))


def _devices(place: str) -> None:
    os.mkdir(place)
    mount("tmpfs", place, "tmpfs", NOSUID, "size=64k,mode=755")
    for name, source in _DEVICES.items():
        _place_for(f"/dev/{source}", f"{place}/{name}")
        mount(f"/dev/{source}", f"{place}/{name}", None, BIND)
    for name, text in _LINKS.items():
        os.symlink(text, f"{place}/{name}")
    for name in ("shm", "pts"):
        os.mkdir(f"{place}/{name}")
    mount("devpts", f"{place}/pts", "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    os.symlink("pts/ptmx", f"{place}/ptmx")


def _seal_proc() -> None:
    """No further namespaces, and nothing in /proc that could be set."""
    for name in _NAMESPACES:
        with contextlib.suppress(FileNotFoundError):
            _write(f"/proc/sys/user/max_{name}_namespaces", "0")
    for name in ("sys", "sysrq-trigger", "irq", "bus", "fs"):
        if os.path.exists(place := f"/proc/{name}"):
            mount(place, place, None, BIND | REC)
            mount(None, place, None, REMOUNT | BIND | RDONLY | NOSUID | NODEV | NOEXEC)


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode("ascii"))
    finally:
        os.close(file)
