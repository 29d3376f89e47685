"""The template's process, seen from the trusted side."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import threading

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox.command import as_root, find
from ampcourse.grading.sandbox.folders import OwnFolder
from ampcourse.grading.sandbox.processes import spawn
from ampcourse.grading.sandbox.view import make_view
from ampcourse.grading.settings import Settings
from ampcourse.grading.template.command import arguments, plan
from ampcourse.grading.template.users import Users

SECONDS_TO_LOAD = 120.0


class TemplateProcess:
    """One template; once it has ended, another is needed.

    Raises:
        GradingError: if it cannot be started, or does not get ready.
    """

    def __init__(self, box: Box, settings: Settings) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._users = Users() if as_root() else None
        self._folder = OwnFolder()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as the process
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._launch(box, settings, theirs)
            self._wait(max(SECONDS_TO_LOAD, settings.start_seconds))
        except BaseException:
            self.close()
            raise

    def _launch(self, box: Box, settings: Settings, theirs: socket.socket) -> None:
        self._folder.path.chmod(0o711)  # the template's user must come by
        place = self._folder.path / "view"
        place.mkdir(mode=0o755)
        view = make_view(box, settings, place)
        head, told = os.pidfd_open(os.getpid()), os.memfd_create("plan", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(told), "w") as file:
                json.dump(plan(box, view, settings, self._users), file)
            os.lseek(told, 0, os.SEEK_SET)
            handed = (told, theirs.fileno(), head)
            words = arguments(find(), view, handed)
            streams = {"stdin": subprocess.DEVNULL, "stdout": self._said, "stderr": self._said}
            self._process = spawn(words, pass_fds=handed, env={}, **streams)
        except OSError as error:
            raise GradingError(f"bubblewrap cannot be started ({error}).") from None
        finally:
            os.close(head)
            os.close(told)

    def _wait(self, seconds: float) -> None:
        self._control.settimeout(seconds)
        try:
            answer = self._control.recv(4096)
        except TimeoutError:
            raise GradingError(f"The template did not load within {seconds:g} s.") from None
        except OSError:
            answer = b""
        self._control.settimeout(30)
        if answer != b"ready":
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(5)
            raise GradingError(f"No template can be made here: {answer.decode('utf-8', 'replace') or self.said()}.")

    def said(self) -> str:
        """The last line that it, or bubblewrap, wrote."""
        self._said.seek(0)
        lines = self._said.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1].rstrip(".") if lines else "it ended without a word"

    @property
    def pid(self) -> int:
        """Of bubblewrap around it."""
        return self._process.pid if self._process is not None else -1

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process is not None and self._process.poll() is None

    def ask(self, request: dict[str, str], handed: list[int]) -> None:
        """Send a request with descriptors.

        Raises:
            OSError: if the template is gone.
        """
        with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], handed)

    def close(self) -> None:
        """End it and all kernels that it forked; may be called again."""
        with self._lock:
            self._control.close()
            if self._process is not None and self._process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(1)  # it sees that nobody holds the other end
                if self._process.poll() is None:
                    self._process.kill()
                    self._process.wait()
            self._said.close()
            self._folder.close()
            if self._users is not None:
                self._users.close()
