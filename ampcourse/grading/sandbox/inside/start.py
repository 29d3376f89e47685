"""The first program inside: takes limits upon itself, gives up every right, then becomes the kernel.

Started as `python -I -S start.py FD`, where FD is a pipe that holds the plan. Nothing of the student's has run yet;
after the last line nothing of ours is left. It does without pathlib, which takes longer to load than all the rest.
"""

# ruff: noqa: PTH103, PTH118, PTH120, PTH123, PTH208, PTH100
from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import limits
import seccomp

NEW_USER = 0x10000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_CAP_AMBIENT = 1, 4, 24, 36, 47
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Follow the plan; on any trouble say so on the status pipe and run nothing."""
    with open(int(sys.argv[1]), encoding="utf-8") as pipe:
        plan = json.load(pipe)
    try:
        _prepare(plan)
        os.write(plan["status"], b"ready\n")
    except BaseException as error:
        os.write(plan["status"], f"{type(error).__name__}: {error}\n".encode())
        os._exit(70)
    os.close(plan["status"])
    os.execve(plan["command"][0], plan["command"], plan["environment"])


def _prepare(plan: dict[str, Any]) -> None:
    _close_others({0, 1, 2, plan["status"], plan["files"], plan.get("sysctl"), *plan["sockets"]})
    if plan.get("become"):
        _become(plan)
    if plan.get("alone"):
        _drop_rights()
    else:  # no sandbox around: at least end with the grader, and be the parent of what loses its own
        _libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.umask(0o022)
    _unpack(plan["files"], plan["work"])
    os.chdir(plan["work"])
    with open(plan["connection_file"], "w", encoding="utf-8") as file:
        json.dump(plan["connection"], file)
    _few_processors(plan["processors"])
    limits.apply_limits(plan["limits"])
    limits.first_to_go()
    if plan["filter"]:
        seccomp.install(gpu=plan["gpu"])


def _close_others(wanted: set[int | None]) -> None:
    """Bubblewrap hands down all that it was given itself."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in wanted:
            try:
                os.close(number)
            except OSError:  # that of the listing itself
                continue


def _become(plan: dict[str, Any]) -> None:
    """From the machine's user 0, which no limit on processes holds, to a user that exists nowhere else."""
    outside, inside = plan["become"]
    for folder in plan["owned"]:
        os.chown(folder, outside, outside)
    for number in range(64):  # while we may: a later user namespace starts from the set that is left
        _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    if (child := os.fork()) == 0:  # may this machine's users have namespaces of their own? Try it where it is no harm
        try:
            _other_user(outside)
            _own_namespace(outside, inside, plan["sysctl"])
        except BaseException:
            os._exit(1)
        os._exit(0)
    worked = os.waitpid(child, 0)[1] == 0
    _other_user(outside)
    if worked:
        _own_namespace(outside, inside, plan["sysctl"])
    os.close(plan["sysctl"])


def _other_user(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or /proc/self belongs to user 0


def _own_namespace(outside: int, inside: int, sysctl: int) -> None:
    if _libc.unshare(NEW_USER):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inside} {outside} 1"),
        ("gid_map", f"{inside} {outside} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    # The sandbox's own /proc/sys is read-only, so the machine's, as a descriptor: it shows each namespace its own.
    for name in NAMESPACES:
        _forbid(f"max_{name}_namespaces", sysctl)


def _forbid(name: str, folder: int) -> None:
    try:
        file = os.open(name, os.O_WRONLY, dir_fd=folder)
    except FileNotFoundError:  # a kernel without this kind
        return
    try:
        os.write(file, b"0")
    finally:
        os.close(file)


def _drop_rights() -> None:
    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]

    class Sets(ctypes.Structure):
        _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]

    for number in range(64):
        _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails for those that are gone already, and past the last one
    _libc.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)
    if _libc.capset(ctypes.byref(Header(0x20080522, 0)), ctypes.byref((Sets * 2)())):
        raise OSError(ctypes.get_errno(), "capset")
    if _libc.prctl(seccomp.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")


def _unpack(archive: int, folder: str) -> None:
    """Copy the submission's files into the working folder; they were checked outside, where they were packed."""
    with open(archive, "rb") as file:
        for name, size in json.loads(file.read(int.from_bytes(file.read(8), "big"))):
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(file.read(size))


def _few_processors(most: int) -> None:
    """TensorFlow starts a thread for each processor that it may use, several times over: more than a limit allows."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) > most:
        begin = int.from_bytes(os.urandom(2), "big")
        chosen = [available[(begin + index) % len(available)] for index in range(most)]
        os.sched_setaffinity(0, chosen)


if __name__ == "__main__":
    main()
