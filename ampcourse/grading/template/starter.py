"""Kernels forked from a template that has loaded everything: ready at once, each in a room of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Mapping
from pathlib import Path

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox.channels import Channels
from ampcourse.grading.sandbox.folders import OwnFolder
from ampcourse.grading.sandbox.kernel import ended_because
from ampcourse.grading.sandbox.view import WRITABLE
from ampcourse.grading.sandbox.watch import Watched, watch
from ampcourse.grading.settings import Settings
from ampcourse.grading.template.payload import pack
from ampcourse.grading.template.process import TemplateProcess

SECONDS_TO_FORK = 30.0
_FURNISHED = b"."


class TemplateKernel:
    """A kernel in its room. See `ampcourse.grading.model.Kernel`.

    Raises:
        ConnectionError, OSError: if the template is gone.
        GradingError: if it could not fork.
    """

    def __init__(
        self,
        template: TemplateProcess,
        folder: Path,
        files: Mapping[str, bytes],
        profile: str,
        settings: Settings,
    ) -> None:
        self._lock = threading.RLock()
        self._reason, self._pidfd, self._status, self._furnished = "", -1, b"", False
        self._watched: Watched | None = None
        self._settings = settings
        self._folder = folder
        self._channels = channels = Channels(folder)
        self.connection = channels.info
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                payload = pack(channels.info["key"], files)
                try:
                    handed = [theirs.fileno(), payload, *channels.descriptors.values()]
                    template.ask({"profile": profile}, handed)
                finally:
                    os.close(payload)
            channels.handed_over()
            self._greet()
            self._watched = watch(self.pid, settings, self._end_because, WRITABLE)
        except BaseException:
            self.stop()
            raise

    def _greet(self) -> None:
        """Take the descriptor of the kernel's first process."""
        self._link.settimeout(SECONDS_TO_FORK)
        try:
            message, handed, _, _ = socket.recv_fds(self._link, 4096, 1)
        except TimeoutError:
            raise ConnectionError("the template does not answer") from None
        if message[:1] == b"-":
            raise GradingError(f"No kernel can be started: {message[1:].decode('utf-8', 'replace')}.")
        if not handed:
            raise ConnectionError("the template is gone")
        self._pidfd = handed[0]
        self.pid = _number(self._pidfd)
        """Of its first process, as the machine counts."""

    def settled(self) -> str:
        """Wait until its room is made: empty, or why that failed."""
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        if not poll.poll(SECONDS_TO_FORK * 1000):
            return "its room was not made in time"
        self._hear()
        return "" if self._furnished else _in_words(self._status, self._settings) or "its room could not be made"

    def alive(self) -> bool:
        """Whether its first process still runs."""
        with self._lock:
            return self._pidfd >= 0 and not _ended(self._pidfd, 0)

    def reason(self) -> str:
        """Why it ended, in words; empty if it has not, or where nobody knows."""
        with self._lock:
            if self.alive():
                return ""
            self._hear()
            return self._reason or _in_words(self._status, self._settings)

    def stop(self) -> None:
        """End everything that it started and remove its sockets; may be called again."""
        if self._watched is not None:
            self._watched.stop()
        with self._lock:
            self._hear()
            self._kill()
            if self._pidfd >= 0:
                _ended(self._pidfd, 10)
                os.close(self._pidfd)
                self._pidfd = -1
            self._link.close()
        self._channels.close()
        with contextlib.suppress(FileNotFoundError):
            self._folder.rmdir()

    def _hear(self) -> None:
        """What its first process said of its end."""
        with contextlib.suppress(OSError):
            self._link.settimeout(0)
            while word := self._link.recv(4096):
                if word == _FURNISHED:
                    self._furnished = True
                else:
                    self._status = word

    def _end_because(self, reason: str) -> None:
        with self._lock:
            self._reason = reason
            self._kill()

    def _kill(self) -> None:
        """With the first process of a namespace all others of it end."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


class TemplateStarter:
    """Starts kernels as forks of one template, for all threads of this process.

    Args:
        box: what the kernels find of the course, and what the template loads.
        settings: limits.
        slots: how many kernels will run at a time; the template serves any number.

    Raises:
        GradingError: if this machine does not let such a template be made.
    """

    name = "template"

    def __init__(self, box: Box, settings: Settings, slots: int = 1) -> None:
        self._box, self._settings, self._slots = box, settings, slots
        self._lock = threading.Lock()
        self._closed = False
        self._numbers = itertools.count(1)
        self._template: TemplateProcess | None = None
        self._folder = OwnFolder()
        try:
            self._try()
        except BaseException:
            self.close()
            raise

    def start(self, files: Mapping[str, bytes], profile: str = "grade") -> TemplateKernel:
        """Fork a kernel whose working folder holds these files. See `ampcourse.grading.model.Starter`."""
        for again in (True, False):  # a template that was killed is made anew, once
            template = self._ready()
            folder = self._folder.path / f"{next(self._numbers)}"
            folder.mkdir(0o700)
            try:
                return TemplateKernel(template, folder, files, profile, self._settings)
            except OSError as error:
                if not again:
                    raise GradingError(f"No kernel can be started: {error}.") from None
                with self._lock:
                    template.close()
        raise AssertionError

    def _try(self) -> None:
        """Make one room, and leave it again."""
        kernel = self.start({})
        try:
            if trouble := kernel.settled():
                raise GradingError(f"No kernel can be forked from a template here: {trouble}.")
        finally:
            kernel.stop()

    @property
    def template(self) -> TemplateProcess | None:
        """The present one."""
        return self._template

    def _ready(self) -> TemplateProcess:
        with self._lock:
            if self._closed:
                raise GradingError("No kernel can be started: this starter has been closed.")
            if self._template is None or not self._template.alive():
                if self._template is not None:
                    self._template.close()
                self._template = TemplateProcess(self._box, self._settings)
            return self._template

    def close(self) -> None:
        """End the template and every kernel; may be called again."""
        with self._lock:
            self._closed = True
            if self._template is not None:
                self._template.close()
                self._template = None
            self._folder.close()


def _ended(pidfd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _number(pidfd: int) -> int:
    """The process's number; -1 if it is gone."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text("ascii").splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1


def _in_words(last: bytes, settings: Settings) -> str:
    """What the kernel's first process said of its end; it only chooses words."""
    if last[:1] == b"-":
        lines = last[1:].decode("utf-8", "replace").strip().splitlines()
        return f"its room could not be made: {lines[-1] if lines else ''}"
    if len(last) != struct.calcsize("=i"):
        return ""
    return ended_because(struct.unpack("=i", last)[0], settings)
