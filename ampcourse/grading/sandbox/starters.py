"""Ways to start a kernel: in a sandbox of its own, or, where the instructor insists, in none."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox import command, seccomp
from ampcourse.grading.sandbox.channels import Channels
from ampcourse.grading.sandbox.folders import OwnFolder
from ampcourse.grading.sandbox.handed import Handed, archive, as_json
from ampcourse.grading.sandbox.kernel import Kernels, SandboxKernel, drained
from ampcourse.grading.sandbox.limits import Limit, rlimits
from ampcourse.grading.sandbox.processes import Pidfd, spawn
from ampcourse.grading.sandbox.users import OwnUser
from ampcourse.grading.sandbox.view import HOME, INSIDE, UID, WORK, WRITABLE, View, make_view
from ampcourse.grading.sandbox.watch import watch
from ampcourse.grading.settings import Settings

PROCESSORS = 4
"""How many one kernel may use: what a lesson needs, and threads enough for the limit on them."""
ANSWERS = 15.0
"""Seconds until bubblewrap must have said who its first process is."""


class SandboxStarter:
    """Starts each kernel in a sandbox of its own (a `Starter`, see grading/model.py); from any thread.

    Args:
        box: what is seen of the course.
        settings: limits and times.

    Raises:
        GradingError: if bubblewrap is missing, or Python lies where it cannot be shown.
    """

    name = "sandbox"

    def __init__(self, box: Box, settings: Settings) -> None:
        self._program, self._settings = command.find(), settings
        self._folder = OwnFolder()
        self._kernels = Kernels(self._folder.path)
        try:
            self.view: View = make_view(box, settings, self._kernels.folder("view"))
        except BaseException:
            self._folder.close()
            raise

    def start(self, files: Mapping[str, bytes], profile: str = "grade") -> SandboxKernel:
        """Start a kernel whose working folder holds these files; it may not be ready to answer yet.

        Raises:
            GradingError: if no sandbox can be made.
        """
        return self.launch(files, {"AMPCOURSE_PROFILE": profile})

    def launch(
        self,
        files: Mapping[str, bytes],
        more: Mapping[str, str] | None = None,
        *,
        key: str | None = None,
        instead: list[str] | None = None,
    ) -> SandboxKernel:
        """As `start`.

        Args:
            files: for the working folder.
            more: environment variables on top of the view's.
            key: of the kernel's messages; by default a new one.
            instead: a command to run in the kernel's place; what it writes to stdout is in the kernel's `errors()`.
        """
        with contextlib.ExitStack() as stack:
            folder = self._kernels.folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            channels = stack.enter_context(contextlib.closing(Channels(folder, key)))
            user = stack.enter_context(contextlib.closing(OwnUser())) if command.as_root() else None
            plan = make_plan(self._settings, channels, instead) | {
                "alone": True,
                "become": [user.uid, UID] if user else None,
                "owned": WRITABLE,
                "environment": {**self.view.environment, **(more or {})},
            }
            process, first, status, errors = self._start(plan, files, channels)
            kept = stack.pop_all()
        kernel = SandboxKernel(process, first, channels, (status, errors), self._settings, first.kill, kept.close)
        kernel.watched = watch(first.pid, self._settings, kernel.kill, WRITABLE)
        return self._kernels.added(kernel)

    def _start(
        self, plan: dict[str, Any], files: Mapping[str, bytes], channels: Channels
    ) -> tuple[subprocess.Popen[bytes], Pidfd, int, int]:
        """Bubblewrap, the first process inside, and our ends of the pipes for the status and for stderr."""
        root = plan["become"] is not None
        with Handed() as handed:
            info, theirs = handed.pipe()
            plan["sysctl"] = handed.also(os.open("/proc/sys/user", os.O_PATH | os.O_DIRECTORY)) if root else None
            status, launcher = hand_launcher(plan, files, handed)
            calls = b"" if root else seccomp.filter_program(gpu=self._settings.gpu)
            options, program = command.arguments(
                self._program,
                self.view,
                info=theirs,
                root=root,
                seccomp=handed.content(calls) if calls else None,
                command=[sys.executable, "-I", "-S", f"{INSIDE}/start.py", *launcher],
            )
            # As a file, not as arguments, which everybody can read in /proc while it runs, also from inside.
            told = handed.content(b"".join(word.encode() + b"\0" for word in options))
            errors, process = started([self._program.path, "--args", str(told), "--", *program], handed, channels)
            first = first_process(process, info, errors)
            if not root:
                _limit(first.pid, plan["limits"])
            os.close(info)
            return process, first, status, errors

    def close(self) -> None:
        """End all kernels that still run and remove every file; may be called again."""
        self._kernels.close()
        self._folder.close()


def _limit(pid: int, limits: Iterable[Limit]) -> None:
    """Also bubblewrap's own process inside, which an ordinary user's sandbox could take over: it is the same user's."""
    for kind, soft, hard in limits:
        with contextlib.suppress(OSError, ValueError):  # it is gone, or has less already
            resource.prlimit(pid, kind, (soft, hard))


def make_plan(settings: Settings, channels: Channels, instead: list[str] | None = None) -> dict[str, Any]:
    """What the launcher is to do, less what differs from one way of starting to another."""
    file = f"{HOME}/.kernel.json"
    sockets = json.dumps(channels.descriptors)
    return {
        "limits": rlimits(settings),
        "filter": bool(seccomp.filter_program()),
        "gpu": settings.gpu,
        "processors": PROCESSORS,
        "work": WORK,
        "connection_file": file,
        "connection": dict(channels.info),
        "sockets": list(channels.descriptors.values()),
        # -P: the launcher's modules are not for students, whose own may have the same names.
        "command": instead or [sys.executable, "-P", f"{INSIDE}/kernel.py", file, sockets],
    }


def hand_launcher(plan: dict[str, Any], files: Mapping[str, bytes], handed: Handed) -> tuple[int, list[str]]:
    """Put the plan and the files where the launcher finds them.

    Returns:
        Our end of its status pipe, and its arguments.
    """
    status, plan["status"] = handed.pipe()
    plan["files"] = handed.content(archive(files))
    return status, [str(handed.content(as_json(plan)))]


def started(words: list[str], handed: Handed, channels: Channels) -> tuple[int, subprocess.Popen[bytes]]:
    """Start a program with these descriptors and nothing else of ours: no environment, no terminal.

    Returns:
        Our end of its stdout and stderr, and the process.

    Raises:
        GradingError: if it cannot be started.
    """
    errors, theirs = handed.pipe()
    given = [*handed.theirs, *channels.descriptors.values()]
    try:
        process = spawn(
            words,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env={},
            cwd="/",
            pass_fds=given,
            start_new_session=True,
        )
    except OSError as error:
        raise GradingError(f"A kernel cannot be started: '{words[0]}': {error.strerror}.") from None
    channels.handed_over()
    return errors, process


def first_process(process: subprocess.Popen[bytes], info: int, errors: int) -> Pidfd:
    """The first process of bubblewrap's new PID namespace.

    Raises:
        GradingError: if it does not say in time, with what it says instead.
    """
    try:
        held = Pidfd(_child(process, info))
        if _parent(held.pid) == process.pid:
            return held
        held.close()
    except OSError:
        pass  # it is gone already
    process.kill()
    process.wait()
    said = " ".join(drained(errors).split())
    raise GradingError(f"bubblewrap makes no sandbox here: {said or 'it says nothing'}")


def _child(process: subprocess.Popen[bytes], info: int) -> int:
    end, text = time.monotonic() + ANSWERS, ""
    while time.monotonic() < end:
        ended = process.poll() is not None
        text += drained(info)
        with contextlib.suppress(ValueError, KeyError):  # a piece of it
            return int(json.loads(text)["child-pid"])
        if ended:
            break
        select.select([info], [], [], 0.05)
    raise ProcessLookupError


def _parent(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    return None
