"""Kernels without a sandbox, for an instructor who insists: `--unsafe-no-sandbox`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from ampcourse.grading.model import Box
from ampcourse.grading.sandbox.channels import Channels
from ampcourse.grading.sandbox.counting import Tree
from ampcourse.grading.sandbox.folders import OwnFolder
from ampcourse.grading.sandbox.handed import Handed
from ampcourse.grading.sandbox.kernel import Kernels, SandboxKernel
from ampcourse.grading.sandbox.limits import rlimits
from ampcourse.grading.sandbox.processes import Pidfd
from ampcourse.grading.sandbox.starters import PROCESSORS, hand_launcher, started
from ampcourse.grading.sandbox.view import environment, write_course, write_programs
from ampcourse.grading.sandbox.watch import watch
from ampcourse.grading.settings import Settings


class UnsafeStarter:
    """Starts kernels that can read and write whatever the grader can (a `Starter`, see grading/model.py).

    What can be had without namespaces is kept: a temporary folder, surroundings without the grader's variables,
    limits and a watchdog. It stops mistakes, not attacks.
    """

    name = "unsafe"

    def __init__(self, box: Box, settings: Settings) -> None:
        self._settings = settings
        self._folder = OwnFolder()
        self._kernels = Kernels(self._folder.path)
        try:
            write_course(box, self._folder.path)
            write_programs(self._folder.path)
        except BaseException:
            self._folder.close()
            raise

    def start(self, files: Mapping[str, bytes], profile: str = "grade") -> SandboxKernel:
        """Start a kernel whose working folder holds these files; it may not be ready to answer yet.

        Raises:
            GradingError: if it cannot be started.
        """
        with contextlib.ExitStack() as stack:
            folder = self._kernels.folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            home, work = folder / "home", folder / "home" / "work"
            work.mkdir(parents=True)
            channels = stack.enter_context(contextlib.closing(Channels(folder)))
            programs = self._folder.path / "inside"
            with Handed() as handed:
                status, launch = hand_launcher(self._plan(channels, home, work, profile), files, handed)
                words = [sys.executable, "-I", "-S", str(programs / "start.py"), *launch]
                errors, process = started(words, handed, channels)
            first = Pidfd(process.pid)
            kept = stack.pop_all()
        end = _Ending(process.pid)
        kernel = SandboxKernel(process, first, channels, (status, errors), self._settings, end, kept.close)
        kernel.watched = watch(process.pid, self._settings, kernel.kill, namespace=False)
        return self._kernels.added(kernel)

    def _plan(self, channels: Channels, home: Path, work: Path, profile: str) -> dict[str, object]:
        surroundings = environment(self._settings, profile)
        surroundings |= {"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(self._folder.path / "course")}
        file, programs = str(home / ".kernel.json"), self._folder.path / "inside"
        sockets = json.dumps(channels.descriptors)
        return {
            "alone": False,
            "filter": False,
            "limits": rlimits(self._settings, processes=False),
            "processors": PROCESSORS,
            "work": str(work),
            "connection_file": file,
            "connection": dict(channels.info),
            "sockets": list(channels.descriptors.values()),
            "command": [sys.executable, "-P", str(programs / "kernel.py"), file, sockets],
            "environment": surroundings,
        }

    def close(self) -> None:
        """End all kernels that still run and remove every file; may be called again."""
        self._kernels.close()
        self._folder.close()


class _Ending:
    """Ends a process with its descendants, and with its group if it is gone already."""

    def __init__(self, pid: int) -> None:
        self._tree, self._group = Tree(pid), pid

    def __call__(self) -> None:
        for _ in range(3):  # one may just have started another
            for pid in [*reversed(self._tree.pids()), -self._group]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
