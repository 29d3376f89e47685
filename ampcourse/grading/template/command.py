"""How the template is started in bubblewrap, and what it is told of the rooms that it shall make: one view for both."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox import limits, seccomp
from ampcourse.grading.sandbox.command import Bubblewrap
from ampcourse.grading.sandbox.starters import PROCESSORS
from ampcourse.grading.sandbox.view import BIND, DEVICE, HOST, LINK, TMPFS, UID, WORK, Part, View, within
from ampcourse.grading.settings import Settings
from ampcourse.grading.template.users import Users

INSIDE = Path(__file__).parent / "inside"
_SERVER, _STAGE = "/.template", "/.room"
_NEEDED = ("--perms", "--clearenv", "--cap-drop", "--as-pid-1")
# numpy's threads would not survive a fork; a kernel sets their number anew. A home of the template's own, in memory.
_OWN = {
    "HOME": "/tmp",
    "IPYTHONDIR": "/tmp/ipython",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
_RIGHTS = ("CAP_SETGID", "CAP_SETUID")


def arguments(program: Bubblewrap, view: View, handed: tuple[int, int, int]) -> list[str]:
    """The template's command.

    Unlike a sandbox for a student's code, it sees the machine's whole /proc: only where that is so does the kernel let
    it give each room a /proc of its own. Nothing but this package's own code runs there.

    Args:
        program: which bubblewrap.
        view: what the rooms see.
        handed: descriptors of the plan, the socket for requests, the grader's process.

    Raises:
        GradingError: if this bubblewrap is too old.
    """
    if missing := [option for option in _NEEDED if option not in program.options]:
        raise GradingError(f"{program.version} knows no {missing[0]}, which the template needs: use 0.5 or newer.")
    words = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    # As process 1, since a kernel is process 2 of its room: a library that was forked may see it by its number.
    words += ["--as-pid-1", "--die-with-parent", "--new-session", "--clearenv"]
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL", *(word for right in _RIGHTS for word in ("--cap-add", right))]
    else:
        words += ["--unshare-user", "--cap-drop", "ALL"]
    words += ["--bind", "/proc", "/proc", "--dev", "/dev"]
    for part in view.parts:
        words += [*_parents(part.target), *_part(part)]
    words += ["--dir", _STAGE, "--ro-bind", str(INSIDE), _SERVER, "--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in (view.environment | _OWN).items():
        words += ["--setenv", name, value]
    server = [sys.executable, "-P", "-B", f"{_SERVER}/server.py", *map(str, handed)]
    return [program.path, *words, "--chdir", "/", "--", *server]


def _part(part: Part) -> list[str]:
    if part.kind == TMPFS:
        return ["--perms", "1777", "--tmpfs", part.target]
    option = {BIND: "--ro-bind", LINK: "--symlink", DEVICE: "--dev-bind"}[part.kind]
    return [option, part.source, part.target]


def _parents(target: str) -> Iterator[str]:
    """Folders on the way, open to all: bubblewrap would copy the mode of the machine's, such as /root's."""
    for parent in reversed(PurePosixPath(target).parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(parent))


def plan(box: Box, view: View, settings: Settings, users: Users | None) -> dict[str, Any]:
    """All that the template is told, as plain data."""
    return {
        "preload": list(box.preload),
        "course": _course(box),
        "mounts": list(_mounts(view)),
        "limits": limits.rlimits(settings),
        "seccomp": seccomp.filter_program(gpu=settings.gpu).hex(),
        "uid": UID,
        "users": [users.first, users.count] if users else None,
        "hostname": HOST,
        "environment": view.environment,
        "work": WORK,
        "processors": PROCESSORS,
        "stage": _STAGE,
        "arguments": ["--HistoryManager.hist_file=:memory:"],
    }


def _course(box: Box) -> list[str]:
    """Modules of the box to load too, where that can: all, if what they may need is loaded anyway."""
    if "tensorflow" not in box.preload:
        return ["ampcourse.exercises.observe"] if "exercises/observe.py" in box.package else []
    names = (PurePosixPath("ampcourse", path) for path in box.package if path.endswith(".py"))
    return [".".join(name.parts).removesuffix(".py").removesuffix(".__init__") for name in names]


def _mounts(view: View) -> Iterator[list[str]]:
    """The view again, from within the template, where everything has its place already: [kind, target, what]."""
    whole: list[str] = []
    for part in view.parts:
        if part.kind == LINK:
            yield [LINK, part.target, part.source]
        elif part.kind == TMPFS:
            mode = "1777" if part.target in ("/tmp", "/dev/shm") else "755"
            yield [TMPFS, part.target, f"size={part.size},mode={mode},nr_inodes={NODES}"]
        elif not any(within(part.target, tree) for tree in whole):  # what lies in a tree comes along with it
            whole.append(part.target)
            yield [BIND, part.target, ""]


NODES = 200_000
"""Files in one file system in memory; the watchdog ends a kernel long before."""
