"""Kernels forked from a template that has loaded everything: ready at once, each in a room of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import select
import signal
import socket
import struct
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox.watch import Watched, watch
from ampcourse.grading.settings import Settings
from ampcourse.grading.template import view
from ampcourse.grading.template.payload import pack
from ampcourse.grading.template.process import TemplateProcess

CHANNELS = ("shell", "iopub", "stdin", "hb", "control")
SECONDS_TO_FORK = 30.0


class TemplateKernel:
    """A kernel in its room. See `ampcourse.grading.model.Kernel`."""

    def __init__(self, template: TemplateProcess, place: Path, files: Mapping[str, bytes], profile: str) -> None:
        self._lock = threading.Lock()
        self._reason, self._pidfd, self._watched, self._status = "", -1, None, b""
        self._place = place
        key = secrets.token_hex(32)
        ports = {f"{name}_port": number for number, name in enumerate(CHANNELS, 1)}
        about = {"transport": "ipc", "ip": str(place), "key": key, "signature_scheme": "hmac-sha256"}
        self.connection: Mapping[str, Any] = about | ports
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening: list[socket.socket] = []
        try:
            with theirs:
                payload = pack(key, files)
                try:
                    self._listen()
                    handed = [theirs.fileno(), payload, *(one.fileno() for one in self._listening)]
                    template.ask({"profile": profile}, handed)
                finally:
                    os.close(payload)
            self._pidfd, self.pid = self._greet()
        except BaseException:
            self._remove()
            raise

    def watch(self, settings: Settings) -> None:
        """Count what it uses from now on, and end it when that is too much."""
        folders = ("/tmp", view.HOME, view.WORK, "/dev/shm")  # noqa: S108 as the room calls them
        self._watched: Watched | None = watch(self.pid, settings, self._end_because, folders)

    def _listen(self) -> None:
        for number in range(1, len(CHANNELS) + 1):
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listening.append(one)
            one.bind(f"{self._place}-{number}")
            one.listen(16)

    def _greet(self) -> tuple[int, int]:
        self._link.settimeout(SECONDS_TO_FORK)
        try:
            message, handed, _, _ = socket.recv_fds(self._link, 4096, 1)
        except TimeoutError:
            raise ConnectionError("the template does not answer") from None
        if message[:1] == b"-":
            raise GradingError(f"No kernel can be started: {message[1:].decode('utf-8', 'replace')}")
        if not handed:
            raise ConnectionError("the template is gone")
        return handed[0], _number(handed[0])

    def alive(self) -> bool:
        """Whether its first process still runs."""
        with self._lock:
            return self._pidfd >= 0 and not _ended(self._pidfd, 0)

    def reason(self) -> str:
        """Why it ended, in words; empty if it has not, or where nobody knows."""
        if self.alive():
            return ""
        return self._reason or _in_words(self._last_word())

    def _last_word(self) -> bytes:
        with self._lock, contextlib.suppress(OSError):
            self._link.settimeout(0)
            self._status = self._link.recv(4096) or self._status
        return self._status

    def _end_because(self, reason: str) -> None:
        self._reason = reason
        with self._lock:
            self._kill(0)

    def _kill(self, patience: float) -> None:
        if self._pidfd >= 0 and not _ended(self._pidfd, 0):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            _ended(self._pidfd, patience)

    def stop(self) -> None:
        """End everything that it started and remove its sockets; may be called again."""
        if self._watched is not None:
            self._watched.stop()
        self._last_word()
        with self._lock:
            self._kill(10)
        self._remove()

    def _remove(self) -> None:
        with self._lock:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1
            self._link.close()
            for number, one in enumerate(self._listening, 1):
                one.close()
                Path(f"{self._place}-{number}").unlink(missing_ok=True)
            self._listening = []


class TemplateStarter:
    """Starts kernels as forks of one template, which serves all threads of this process.

    Args:
        box: what the kernels find of the course.
        settings: limits.
        slots: how many kernels will run at a time.

    Raises:
        GradingError: if this machine does not let such a template be made, or it is not as tight as it must be.
    """

    name = "template"

    def __init__(self, box: Box, settings: Settings, slots: int = 1) -> None:
        self._box, self._settings, self._slots = box, settings, slots
        self._lock = threading.Lock()
        self._closed = False
        self._numbers = itertools.count(1)
        self._folder = tempfile.TemporaryDirectory(prefix="ampcourse-kernels-")
        self._template: TemplateProcess | None = None
        try:
            self._ready()
        except BaseException:
            self.close()
            raise

    def start(self, files: Mapping[str, bytes], profile: str = "grade") -> TemplateKernel:
        """Fork a kernel whose working folder holds these files. See `ampcourse.grading.model.Starter`."""
        for last in (False, True):  # a template that was killed is made anew once
            template = self._ready()
            place = Path(self._folder.name, f"k{next(self._numbers)}")
            try:
                kernel = TemplateKernel(template, place, files, profile)
            except OSError as error:
                if last:
                    raise GradingError(f"No kernel can be started: {error}.") from None
                self._give_up(template)
                continue
            kernel.watch(self._settings)
            return kernel
        raise AssertionError

    def _ready(self) -> TemplateProcess:
        with self._lock:
            if self._closed:
                raise GradingError("No kernel can be started: this starter has been closed.")
            if self._template is None or not self._template.alive():
                if self._template is not None:
                    self._template.close()
                self._template = TemplateProcess(self._box, self._settings)
            return self._template

    def _give_up(self, template: TemplateProcess) -> None:
        with self._lock:
            template.close()

    def close(self) -> None:
        """End the template and every kernel; may be called again."""
        with self._lock:
            self._closed = True
            if self._template is not None:
                self._template.close()
                self._template = None
            self._folder.cleanup()


def _ended(pidfd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _number(pidfd: int) -> int:
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text("ascii").splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    raise ConnectionError("the kernel's first process is gone")


def _in_words(last: bytes) -> str:
    """What the kernel's first process said of its end; it only chooses words."""
    if len(last) != struct.calcsize("=i"):
        return ""
    status = struct.unpack("=i", last)[0]
    if status == -signal.SIGXCPU:
        return "it used too much processor time"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"it was ended by the signal {signal.Signals(-status).name}"
    return f"it ended by itself, with exit code {status}" if status else ""
