"""A room for one kernel: a root of its own, mounts with sizes, limits, no rights. Runs as process 1 of new namespaces."""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path
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
    enter_root,
    filter_calls,
    loopback_up,
    mount,
    own_session_keyring,
)

STAGE = "/.room"
"""An empty folder of the template's tree, where the room's root is put together."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")


def move_in(plan: dict[str, Any]) -> None:
    """Build the room, enter it and give up every right; afterwards only student's code may run here.

    The identity of the room's user must be mapped by now.
    """
    own_session_keyring()
    _become(plan["uid"])
    _build(plan)
    enter_root(STAGE)
    _seal_proc()
    for target in ("/dev", "/"):
        mount(
            None, target, None, REMOUNT | BIND | RDONLY | NOSUID | NODEV if target == "/" else REMOUNT | BIND | RDONLY
        )
    socket.sethostname(plan["hostname"])
    loopback_up()
    for kind, *wanted in plan["limits"]:
        most = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, tuple(one if most == resource.RLIM_INFINITY else min(one, most) for one in wanted))
    drop_rights()
    filter_calls(bytes.fromhex(plan["seccomp"]))


def _become(uid: int) -> None:
    """The one user there is; only where the template could map another than its own does this change anything."""
    if os.getuid() != uid:
        os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _build(plan: dict[str, Any]) -> None:
    mount(None, "/", None, REC | PRIVATE)
    mount("tmpfs", STAGE, "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    for kind, target, *more in plan["mounts"]:
        _MAKERS[kind](STAGE + target, target, *more)


def _bind(place: str, target: str) -> None:
    if Path(target).is_dir():
        os.makedirs(place, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        Path(place).touch()
    mount(target, place, None, BIND | REC)  # read-only in the template, and so here: that flag is locked


def _link(place: str, _target: str, text: str) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.symlink(text, place)


def _folder(place: str, _target: str, mode: str = "755") -> None:
    os.makedirs(place, exist_ok=True)
    os.chmod(place, int(mode, 8))


def _tmpfs(place: str, _target: str, size: int, mode: str) -> None:
    os.makedirs(place, exist_ok=True)
    mount("tmpfs", place, "tmpfs", NOSUID | NODEV, f"size={size},mode={mode}")


def _proc(place: str, _target: str) -> None:
    os.makedirs(place, exist_ok=True)
    mount("proc", place, "proc", NOSUID | NODEV | NOEXEC)


def _dev(place: str, _target: str, shared: int) -> None:
    os.makedirs(place, exist_ok=True)
    mount("tmpfs", place, "tmpfs", NOSUID, "size=64k,mode=755")
    for name in _DEVICES:
        Path(place, name).touch()
        mount(f"/dev/{name}", f"{place}/{name}", None, BIND)
    for name, text in _LINKS.items():
        os.symlink(text, f"{place}/{name}")
    os.mkdir(f"{place}/shm")
    mount("tmpfs", f"{place}/shm", "tmpfs", NOSUID | NODEV, f"size={shared},mode=1777")
    os.mkdir(f"{place}/pts")
    mount("devpts", f"{place}/pts", "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666,mode=620,max=16")
    os.symlink("pts/ptmx", f"{place}/ptmx")


_MAKERS = {"bind": _bind, "link": _link, "dir": _folder, "tmpfs": _tmpfs, "proc": _proc, "dev": _dev}


def _seal_proc() -> None:
    """No further namespaces, and nothing in /proc that could be set."""
    for name in _NAMESPACES:
        limit = Path(f"/proc/sys/user/max_{name}_namespaces")
        if limit.exists():
            limit.write_text("0")
    for name in ("sys", "sysrq-trigger", "irq", "bus", "fs"):
        place = f"/proc/{name}"
        if os.path.exists(place):
            mount(place, place, None, BIND | REC)
            mount(None, place, None, REMOUNT | BIND | RDONLY | NOSUID | NODEV | NOEXEC)
