"""Which layers of isolation hold on this machine: a sandbox is really started, and looks about from inside."""

from __future__ import annotations

import functools
import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox import command
from ampcourse.grading.sandbox.counting import Folders, Namespace
from ampcourse.grading.sandbox.kernel import SandboxKernel
from ampcourse.grading.sandbox.limits import MIB, rlimits
from ampcourse.grading.sandbox.reasons import why_not
from ampcourse.grading.sandbox.starters import SandboxStarter
from ampcourse.grading.sandbox.view import COURSE, GID, HOST, INSIDE, UID, WRITABLE, within
from ampcourse.grading.settings import Settings

_SMALL = Settings(memory_mib=256, processes=24, cpu_seconds=20, file_mib=2, disk_mib=8)
_WAIT = 30.0
_BOX = Box("probe", {"__init__.py": b""})

_INSIDE = {
    "user": ("an own user", "The sandbox's processes run as a user that has rights on this machine."),
    "rights": ("no rights", "The sandbox keeps rights (capabilities) that it must not have."),
    "calls": (
        "system calls filtered",
        "System calls cannot be filtered on this machine: that needs an x86-64 or aarch64 processor and a kernel with "
        "seccomp.",
    ),
    "namespaces": (
        "no further namespaces",
        "A sandbox could open further namespaces: bubblewrap 0.8 or newer, or a kernel with seccomp, prevents that.",
    ),
    "alone": ("own processes", "The machine's processes can be seen in the sandbox."),
    "network": ("no network", "The network can be reached from inside the sandbox."),
    "system": ("system read-only", "The sandbox can write to the system."),
    "hidden": ("grader hidden", "The grader's own folders can be seen in the sandbox."),
    "environment": ("own environment", "The grader's environment variables can be read in the sandbox."),
    "host": ("own host name", "The sandbox has the machine's own host name."),
    "writable": ("own files", "The sandbox cannot write even to its own folders."),
    "disk": ("own files limited", "The sandbox's folders in memory have no limit."),
    "data": ("limit on memory", "The limit on memory does not hold in the sandbox."),
    "file": ("limit on files", "The limit on the size of a file does not hold in the sandbox."),
    "processes": (
        "limit on processes",
        "The limit on the number of processes does not hold in the sandbox: that needs Linux 5.14 or newer, or an "
        "ordinary user who runs few other programs.",
    ),
}
_WATCH = (
    "watchdog",
    "What the sandbox uses cannot be counted from outside: /proc does not let this user look into its own sandboxes.",
)


@dataclass(frozen=True)
class Layer:
    """One layer of isolation.

    Attributes:
        name: in a few words.
        holds: whether it is there and was seen to hold.
        says: where not, what is wrong and what to do, as a sentence.
    """

    name: str
    holds: bool
    says: str = ""


@dataclass(frozen=True)
class Layers:
    """What this machine gives."""

    layers: tuple[Layer, ...]

    @property
    def complete(self) -> bool:
        """Whether students' code can be let run here."""
        return all(layer.holds for layer in self.layers)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why not: a sentence for each layer that does not hold."""
        return tuple(layer.says for layer in self.layers if not layer.holds)

    def table(self) -> str:
        """A line for each layer."""
        width = max(len(layer.name) for layer in self.layers)
        return "\n".join(f"{layer.name:<{width}}  {'holds' if layer.holds else layer.says}" for layer in self.layers)


@functools.cache
def probe() -> Layers:
    """Start a sandbox and see what holds; once in a process, about 0.1 s."""
    if sys.platform != "linux":
        return _none("Linux", "Grading needs Linux, whose namespaces isolate what students hand in.")
    try:
        starter = SandboxStarter(_BOX, _SMALL)
    except GradingError as error:
        return _none("bubblewrap", str(error))
    try:
        return _looked_at(starter)
    except GradingError as error:
        return Layers((Layer("bubblewrap", True), Layer("sandbox", False, why_not(str(error)))))
    finally:
        starter.close()


def _none(name: str, says: str) -> Layers:
    return Layers((Layer(name, False, says),))


def _looked_at(starter: SandboxStarter) -> Layers:
    words = [sys.executable, "-I", "-S", f"{INSIDE}/look.py", json.dumps(_wanted(starter))]
    kernel = starter.launch({}, instead=words)
    try:
        watched = _can_be_watched(kernel)
        end = time.monotonic() + _WAIT
        while kernel.alive() and time.monotonic() < end:
            time.sleep(0.005)
        said, why = kernel.errors(), kernel.reason()
    finally:
        kernel.stop()
    try:
        found = json.loads(said)
    except ValueError:
        words = " ".join(said.split()[-40:])
        says = f"A sandbox starts, but does not get far: {': '.join(filter(None, (why, words))) or 'it says nothing'}."
        return Layers((Layer("bubblewrap", True), Layer("sandbox", False, says)))
    layers = [Layer("bubblewrap", True), Layer("sandbox", True)]
    layers += [Layer(name, bool(found.get(key)), says) for key, (name, says) in _INSIDE.items()]
    return Layers((*layers, Layer(_WATCH[0], watched, _WATCH[1])))


def _can_be_watched(kernel: SandboxKernel) -> bool:
    end = time.monotonic() + _WAIT
    while kernel.alive() and time.monotonic() < end:
        try:
            namespace = Namespace(kernel.first.pid)
            folders = Folders(kernel.first.pid, WRITABLE)
        except OSError:  # not set up yet
            time.sleep(0.001)
            continue
        try:
            return namespace.used().memory > 0
        finally:
            namespace.close()
            folders.close()
    return False


def _wanted(starter: SandboxStarter) -> dict[str, object]:
    limits = {kind: hard for kind, _, hard in rlimits(_SMALL)}
    sized = "--size" in command.find().options  # else only the watchdog sees to it
    mine = [str(Path.home()), str(Path.cwd()), "/sys", "/var/run/docker.sock", "/run/user", "/run/dbus", "/root/.ssh"]
    trees = [sys.prefix, sys.base_prefix, "/usr"]
    there = [*trees, *WRITABLE, COURSE, INSIDE]  # and the folders on the way to them
    return {
        "uid": UID,
        "gid": GID,
        "host": HOST,
        "closed": [COURSE, INSIDE, sys.prefix],
        "hidden": [
            path
            for path in mine
            if not any(within(one, path) for one in there) and not any(within(path, tree) for tree in trees)
        ],
        "environment": sorted(starter.view.environment),
        "writable": WRITABLE,
        "disk": _SMALL.disk_mib * MIB if sized else sys.maxsize,
        "data": limits[resource.RLIMIT_DATA],
        "file": limits[resource.RLIMIT_FSIZE],
        "processes": _SMALL.processes,
    }
