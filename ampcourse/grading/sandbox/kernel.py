"""One sandbox with a kernel in it, seen from the trusted side."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ampcourse.grading.model import GradingError
from ampcourse.grading.sandbox.channels import Channels
from ampcourse.grading.sandbox.processes import Pidfd
from ampcourse.grading.sandbox.watch import Watched, amount
from ampcourse.grading.settings import Settings

ENDS = 10.0
"""Seconds that the machine gets to end what was killed."""
LAUNCHER_FAILED = 70


class SandboxKernel:
    """A `Kernel` (see grading/model.py) behind bubblewrap, or, for `--unsafe-no-sandbox`, behind nothing.

    Args:
        process: bubblewrap, or the kernel itself.
        first: the first process of the sandbox, or the same process.
        channels: its sockets.
        pipes: that on which the launcher says that it is ready, or what went wrong; and that which is its stderr.
        settings: the limits, for the words.
        end: ends all of its processes.
        clear: removes what it leaves.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        first: Pidfd,
        channels: Channels,
        pipes: tuple[int, int],
        settings: Settings,
        end: Callable[[], None],
        clear: Callable[[], None],
    ) -> None:
        self.process, self.first, self._channels = process, first, channels
        self._status, self._errors = pipes
        self._settings = settings
        self._end, self._clear = end, clear
        self._killed_because = ""
        self._said: str | None = None
        self._ready = ""
        self._lock = threading.RLock()
        self._stopped = False
        self.watched: Watched | None = None

    @property
    def connection(self) -> Mapping[str, Any]:
        """Jupyter's connection info."""
        return self._channels.info

    def alive(self) -> bool:
        """Whether its first process still runs."""
        return self.process.poll() is None

    def kill(self, reason: str) -> None:
        """End all of it for this reason, and leave the rest to `stop`."""
        with self._lock:
            if not self._killed_because and self.alive():
                self._killed_because = reason
        self._end()

    def reason(self) -> str:
        """Why it ended, in words that go on from "your code" or "the kernel"; empty if it has not."""
        with self._lock:
            if self._killed_because:
                return self._killed_because
            code = self.process.poll()
            if code is None:
                return ""
            if self._said is None:
                self._said = self._explained(code)
            return self._said

    def errors(self) -> str:
        """What it has written to its stderr: the beginning, for people who look for a fault of ours."""
        return drained(self._errors)

    def wait_ready(self, seconds: float) -> str:
        """Wait until the launcher has done its part.

        Returns:
            "ready", what went wrong, or "" if neither came in time.
        """
        end = time.monotonic() + seconds
        while True:
            ended = not self.alive()
            self._ready += drained(self._status)
            if self._ready.endswith("\n") or ended or time.monotonic() > end:
                return self._ready.strip()
            time.sleep(0.002)

    def stop(self) -> None:
        """End everything that it started and remove its folders, now; may be called again."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self.reason()  # while the pipes can be read
            if not self._killed_because and self.alive():
                self._killed_because = "it was stopped"
        try:
            self._end()
            self.first.wait(ENDS)
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(ENDS)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self.watched is not None:
            self.watched.stop()
        self.first.close()
        self._channels.close()
        for pipe in (self._status, self._errors):
            os.close(pipe)
        self._clear()

    def _explained(self, code: int) -> str:
        if code == LAUNCHER_FAILED and (said := self.wait_ready(0)) != "ready":
            return f"its sandbox could not be set up: {said}"
        # bubblewrap gives a signal as a shell does.
        return ended_because(128 - code if 128 < code < 128 + signal.NSIG else code, self._settings)


def ended_because(code: int, settings: Settings) -> str:
    """Why a process ended by itself, in words.

    Args:
        code: as `subprocess` has it: the exit code, or a signal's number below 0.
        settings: the limits that it had.
    """
    if code >= 0:
        return f"it ended by itself, with exit code {code}"
    if code == -signal.SIGXCPU:
        return f"it used more than {settings.cpu_seconds} s of processor time"
    if code == -signal.SIGXFSZ:
        return f"it wrote a file of more than {amount(settings.file_mib)}"
    if code == -signal.SIGSEGV:
        return "it crashed: a segmentation fault"
    return f"it was ended by signal {-code} ({_name(-code)})"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a signal without a name"


def drained(pipe: int) -> str:
    """What lies in a pipe that never waits."""
    with contextlib.suppress(OSError):  # nothing there yet
        return os.read(pipe, 1 << 16).decode("utf-8", "replace")
    return ""


class Kernels:
    """The kernels of one starter, so that all can be ended together.

    Args:
        path: where each gets a folder.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._count, self._closed = itertools.count(1), False
        self._running: weakref.WeakSet[SandboxKernel] = weakref.WeakSet()

    def folder(self, name: str | None = None) -> Path:
        """A new folder."""
        path = self._path / (name or str(next(self._count)))
        path.mkdir(0o700)
        return path

    def added(self, kernel: SandboxKernel) -> SandboxKernel:
        """The same kernel, from now on ours to end.

        Raises:
            GradingError: if all were ended meanwhile.
        """
        with self._lock:
            if not self._closed:
                self._running.add(kernel)
                return kernel
        kernel.stop()
        raise GradingError("Grading was ended.")

    def close(self) -> None:
        """End them all; may be called again."""
        with self._lock:
            self._closed, running = True, list(self._running)
        for kernel in running:
            kernel.stop()
