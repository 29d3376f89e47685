"""The template: loads once what every submission needs, then forks a kernel with a room of its own for each request.

Started by bubblewrap as `python -P server.py PLAN CONTROL HEAD`, three descriptors: the plan as JSON; the socket on
which requests come; the grader's process, with which everything here ends.
"""

# ruff: noqa: PTH100, PTH115, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, "/run/ampcourse")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import room
import system

LOADED_ANYWAY = (
    "IPython.core.completer",
    "IPython.core.completerlib",
    "IPython.core.magics",
    "IPython.core.oinspect",
    "IPython.core.pylabtools",
    "IPython.core.debugger",
    "IPython.lib.pretty",
    "IPython.extensions.storemagic",
    "IPython.utils.wildcard",
    "comm",
    "faulthandler",
    "ipykernel.jsonutil",
    "matplotlib_inline.config",
    "numpy",
    "numpy.random",
    "pdb",
    "sqlite3",
    "tornado.platform.asyncio",
)
"""What a kernel loads by itself when it starts or runs its first cells. What is not there, is not loaded.

Not matplotlib's inline backend, which looks for a running kernel when it is loaded."""


def main() -> None:
    """Load, say so, serve until the grader ends."""
    plan_file, control, head = (int(word) for word in sys.argv[1:4])
    with open(plan_file, encoding="utf-8") as file:
        plan = json.load(file)
    if os.getuid() == 0:
        take_users(*plan["users"])
    system.end_with_parent()
    requests = socket.socket(fileno=control)
    try:
        load(plan["preload"], plan["course"])
        alone()
        requests.send(b"ready")
    except BaseException as error:  # whatever it was, the trusted side must hear of it
        requests.send(f"{type(error).__name__}: {error}"[:1000].encode())
        raise SystemExit(1) from None
    Server(plan, requests, head).serve()


def take_users(first: int, count: int) -> None:
    """Leave the machine's root for a user namespace that holds `count` unprivileged users from `first` on.

    Only a process outside that namespace can fill in its map: a fork that stays root for this moment.
    """
    ours, theirs = socket.socketpair()
    number = os.readlink("/proc/self")  # as the machine counts, whose /proc this is
    if (helper := os.fork()) == 0:
        theirs.recv(1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{number}/{name}").write_text(f"0 {first} {count}")
        theirs.send(b"x")
        os._exit(0)
    theirs.close()
    os.setgroups([])
    system.unshare(system.NEW_USER)
    ours.send(b"x")
    if not ours.recv(1):
        raise OSError("the template's users could not be set up")
    os.waitpid(helper, 0)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    system.dumpable(True)  # else /proc/self belongs to the machine's root


def load(names: list[str], course: list[str]) -> None:
    """Import, without starting anything that a fork would lose.

    Args:
        names: what must be there.
        course: what may refuse, because it is withheld.
    """
    import forked  # noqa: F401

    for name in LOADED_ANYWAY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in names:
        importlib.import_module(name)
    for name in course:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the collector need not touch, and so copy, these pages in every fork


def alone() -> None:
    """Nothing may be running or shared that the forks would lose, or meet each other in."""
    if len(threads := os.listdir("/proc/self/task")) > 1:
        raise RuntimeError(f"{len(threads)} threads run after loading, and a fork would lose them")
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        shared = [line.split() for line in file if line.split()[1][1::2] == "ws"]
    if shared:
        raise RuntimeError(f"forks would share memory: {' '.join(shared[0])}")


class Server:
    """The loop of the template. It holds no secret: keys and files pass through as descriptors, unread."""

    def __init__(self, plan: dict[str, Any], requests: socket.socket, head: int) -> None:
        self.plan, self.requests, self.head = plan, requests, head
        self.running: dict[int, int] = {}  # descriptor of a kernel's first process -> its number
        self.turn = 0

    def serve(self) -> None:
        """Fork at each request, bury the dead, end with the grader."""
        poll = select.poll()
        poll.register(self.requests, select.POLLIN)
        poll.register(self.head, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.head:
                    return
                if descriptor in self.running:
                    poll.unregister(descriptor)
                    os.waitpid(self.running.pop(descriptor), 0)
                    os.close(descriptor)
                elif descriptor == self.requests.fileno():
                    message, handed, _, _ = socket.recv_fds(self.requests, 4096, 8)
                    if not message:
                        return
                    if started := self.start(json.loads(message), handed):
                        poll.register(started, select.POLLIN)

    def start(self, request: dict[str, Any], handed: list[int]) -> int | None:
        """Fork one kernel; its descriptor, if there was a fork. If it does not work, the asking side is told why."""
        link, payload, *listening = handed
        gate_in, gate_out = os.pipe()
        descriptor = None
        try:
            number, descriptor = system.clone(system.NAMESPACES)
            if number == 0:
                os.close(gate_out)
                first_process(self.plan, request, gate_in, link, payload, listening)
            self.running[descriptor] = number
            self._name_user(descriptor)
            with socket.socket(fileno=os.dup(link)) as answer:
                socket.send_fds(answer, [b"+"], [descriptor])
            os.write(gate_out, b"x")
        except OSError as error:
            if descriptor is not None:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.write(link, f"-{error}".encode())
        finally:
            for open_one in (gate_in, gate_out, *handed):
                os.close(open_one)
        return descriptor

    def _name_user(self, descriptor: int) -> None:
        """Map the one user of the new namespace: one of the template's, or the only one that it has."""
        place = f"/proc/{_number_outside(descriptor)}"
        inside = self.plan["uid"]
        if os.getuid() == 0:
            self.turn = self.turn % (self.plan["users"][1] - 1) + 1
            outside = self.turn
        else:
            outside = os.getuid()
            Path(place, "setgroups").write_text("deny")
        Path(place, "uid_map").write_text(f"{inside} {outside} 1")
        gid = outside if os.getuid() == 0 else os.getgid()
        Path(place, "gid_map").write_text(f"{inside} {gid} 1")


def _number_outside(descriptor: int) -> int:
    """The number of a process as the machine counts."""
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    raise OSError("the kernel's first process is gone")


def first_process(
    plan: dict[str, Any], request: dict[str, Any], gate: int, link: int, payload: int, listening: list[int]
) -> NoReturn:
    """Process 1 of a room: builds it, forks the kernel, buries whatever is left there, and ends with the kernel."""
    status = 1
    try:
        keep = sorted({gate, link, payload, *listening})
        _close_all_but(keep)
        if os.read(gate, 1) != b"x":
            os._exit(1)
        os.close(gate)
        os.setsid()
        room.move_in(plan)
        os.write(link, b".")
        system.dumpable(False)  # the student's process shall not look into this one, which can speak to the grader
        if (kernel_process := os.fork()) == 0:
            os.close(link)
            kernel_process_main(plan, request, payload, listening)
        _close_all_but([link])
        while True:
            number, ended = os.wait()
            if number == kernel_process:
                status = os.waitstatus_to_exitcode(ended)
                break
        os.write(link, struct.pack("=i", status))
    except BaseException:
        with contextlib.suppress(OSError):
            os.write(link, b"-" + traceback.format_exc().encode()[-2000:])
    os._exit(status & 255)


def kernel_process_main(plan: dict[str, Any], request: dict[str, Any], payload: int, listening: list[int]) -> NoReturn:
    """The student's process."""
    status = 1
    try:
        system.dumpable(True)
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.close(null)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import forked

        sys.path[:] = sys.path[2:]  # as without this program
        forked.run(plan, request["profile"], payload, listening)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    os._exit(status & 255)


def _close_all_but(keep: list[int]) -> None:
    low = 0
    for descriptor in [*keep, 1 << 20]:
        if low < descriptor:
            os.closerange(low, descriptor)
        low = descriptor + 1


if __name__ == "__main__":
    main()
