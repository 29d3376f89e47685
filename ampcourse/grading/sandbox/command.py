"""How bubblewrap is called: the view and the namespaces as its options, as far as this bubblewrap knows them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ampcourse.grading.model import GradingError
from ampcourse.grading.sandbox.view import BIND, DEVICE, GID, HOST, LINK, TMPFS, UID, View

INSTALL = "install it (Debian and Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"
# What the launcher needs until it has become somebody else, where it starts as the machine's user 0.
_RIGHTS = ("CAP_CHOWN", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID")


_NAMES_OF_KEYS = ("/proc/keys", "/proc/key-users")
"""A process holds its session's keys, also in namespaces of its own; the filter keeps it from using them."""


@dataclass(frozen=True)
class Bubblewrap:
    """The program, and what it can do.

    Attributes:
        path: of the program.
        version: as it says it.
        options: the long options of `bwrap --help`.
    """

    path: str
    version: str
    options: frozenset[str]


def find() -> Bubblewrap:
    """The bubblewrap of this machine.

    Raises:
        GradingError: if there is none, or it does not run.
    """
    path = shutil.which("bwrap")
    if path is None:
        raise GradingError(f"bubblewrap, which isolates what students hand in, is missing here: {INSTALL}.")
    return _asked(path, Path(path).stat().st_mtime_ns)


@functools.cache
def _asked(path: str, _changed: int) -> Bubblewrap:
    def ask(option: str) -> str:
        command = [path, option]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env={}).stdout
        except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
            raise GradingError(f"bubblewrap ('{path}') does not run: {' '.join(str(error).split())}") from None

    return Bubblewrap(path, ask("--version").strip(), frozenset(re.findall(r"^\s+(--[a-z0-9-]+)", ask("--help"), re.M)))


def as_root() -> bool:
    """Whether we are the machine's user 0, on whom the kernel puts no limit on processes."""
    return os.geteuid() == 0


def arguments(
    program: Bubblewrap, view: View, info: int, *, root: bool, seccomp: int | None = None, command: list[str]
) -> tuple[list[str], list[str]]:
    """What bubblewrap is told: its options, and the command.

    Args:
        program: which bubblewrap.
        view: what is seen inside.
        info: the descriptor on which it says the first process's number.
        root: True starts the command as user 0 with the few rights that it needs to become another; False gives it a
            user namespace.
        seccomp: a descriptor with the filter, where bubblewrap shall put it on.
        command: what to run.
    """
    known = program.options
    words = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--die-with-parent", "--new-session", "--hostname", HOST, "--info-fd", str(info)]
    if root:
        words += ["--cap-drop", "ALL", *(word for right in _RIGHTS for word in ("--cap-add", right))]
    else:
        words += ["--unshare-user", "--uid", str(UID), "--gid", str(GID)]
        words += ["--disable-userns"] if "--disable-userns" in known else []
    words += ["--clearenv"] if "--clearenv" in known else []
    words += ["--seccomp", str(seccomp)] if seccomp is not None else []
    # Some settings below /proc/sys belong to a namespace, and so to whoever has opened it.
    words += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    # To read they are the same; but /dev/zero can be mapped, as shared memory that nobody counts.
    words += ["--dev-bind", "/dev/full", "/dev/zero", *_parts(view, known)]
    for name in _NAMES_OF_KEYS:
        words += ["--ro-bind", "/dev/null", name] if Path(name).exists() else []
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*words, "--chdir", "/"], command


def _parts(view: View, known: frozenset[str]) -> list[str]:
    words: list[str] = []
    made = {"/", "/dev", "/proc"}
    for part in view.parts:
        words += _folders_above(part.target, made)
        made.add(part.target)
        if part.kind == TMPFS:
            words += ["--size", str(part.size)] if "--size" in known else []  # else the watchdog sees to it
            words += ["--tmpfs", part.target]
        else:
            option = {BIND: "--ro-bind", LINK: "--symlink", DEVICE: "--dev-bind"}[part.kind]
            words += [option, part.source, part.target]
    return words


def _folders_above(target: str, made: set[str]) -> list[str]:
    """Make them by name: some of those that bubblewrap makes by itself are open to user 0 alone."""
    missing = []
    for folder in PurePosixPath(target).parents:
        if str(folder) in made:
            break
        missing.append(str(folder))
    made.update(missing)
    return [word for folder in reversed(missing) for word in ("--dir", folder)]
