"""The template's process, seen from the trusted side: its plan, its command, its life."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from ampcourse.grading.boxes import write_package
from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox import limits, seccomp
from ampcourse.grading.settings import Settings
from ampcourse.grading.template import view

INSIDE = Path(__file__).parent / "inside"
FIRST_USER, USERS = 220_000, 1024
"""Where the grader is root: unprivileged users of the machine, one for the template, one for each kernel in turn."""


class TemplateProcess:
    """One template. `start` hands it a request; when it has died, a new object is needed.

    Raises:
        GradingError: if it cannot be started, or does not get ready in time.
    """

    def __init__(self, box: Box, settings: Settings) -> None:
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="ampcourse-template-")
        self._process: subprocess.Popen | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as the process
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._launch(box, settings, theirs)
            self._wait(settings.start_seconds)
        except BaseException:
            self.close()
            raise

    def _launch(self, box: Box, settings: Settings, theirs: socket.socket) -> None:
        package = Path(self._folder.name) / "package"
        package.mkdir()
        write_package(box.package, package)
        package.parent.chmod(0o755)
        head, plan = os.pidfd_open(os.getpid()), os.memfd_create("plan", os.MFD_CLOEXEC)
        try:
            os.write(plan, json.dumps(_plan(box, package, settings)).encode())
            os.lseek(plan, 0, os.SEEK_SET)
            handed = (plan, theirs.fileno(), head)
            self._process = subprocess.Popen(
                _command(package, settings, handed),
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=handed,
                env={},
            )
        except OSError as error:
            raise GradingError(f"bubblewrap cannot be started ({error}).") from None
        finally:
            os.close(head)
            os.close(plan)

    def _wait(self, seconds: float) -> None:
        self._control.settimeout(seconds)
        try:
            answer = self._control.recv(4096)
        except TimeoutError:
            raise GradingError(f"The template did not get ready within {seconds:g} s.") from None
        self._control.settimeout(30)
        if answer != b"ready":
            if not answer and self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(5)
            raise GradingError(f"The template cannot be made here: {answer.decode('utf-8', 'replace') or self.said()}.")

    def said(self) -> str:
        """The last line that it, or bubblewrap, wrote to its standard output."""
        self._said.seek(0)
        lines = self._said.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process is not None and self._process.poll() is None

    def ask(self, request: dict, handed: list[int]) -> None:
        """Send a request.

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
                    self._process.wait(0.5)  # it sees the closed socket
                if self._process.poll() is None:
                    self._process.kill()
                    self._process.wait()
            self._said.close()
            self._folder.cleanup()


def _plan(box: Box, package: Path, settings: Settings) -> dict:
    kept = {"bind": 2, "link": 3, "proc": 2, "dev": 3, "tmpfs": 4, "dir": 3}
    return {
        "preload": list(box.preload),
        "mounts": [entry[: kept[entry[0]]] for entry in view.mounts(package, settings)],
        "limits": limits.rlimits(settings),
        "seccomp": seccomp.program().hex(),
        "uid": view.UID,
        "users": [FIRST_USER, USERS],
        "hostname": view.HOST,
        "environment": view.environment(),
        "work": view.WORK,
        "launcher": f"{sys.prefix}/lib/ipykernel_launcher.py",
        "arguments": ["--HistoryManager.enabled=False"],
    }


def _command(package: Path, settings: Settings, handed: tuple[int, ...]) -> list[str]:
    command = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if os.getuid() != 0:
        command += ["--unshare-user"]
    command += ["--new-session", "--clearenv"]
    for kind, target, *more in view.mounts(package, settings):
        for parent in reversed(Path(target).parents[:-1]):
            command += ["--perms", "0755", "--dir", str(parent)]
        command += {
            "bind": lambda target=target, more=more: ["--ro-bind", more[0], target],
            "link": lambda target=target, more=more: ["--symlink", more[0], target],
            "tmpfs": lambda target=target, more=more: ["--perms", "1777", "--tmpfs", target],
            "dir": lambda target=target, more=more: ["--dir", target],
            "dev": lambda target=target, more=more: ["--dev", target],
            "proc": lambda target=target, more=more: ["--bind", "/proc", "/proc"],
        }[kind]()
    command += ["--dir", "/.room", "--ro-bind", str(INSIDE), "/.template"]
    for name, value in (view.environment() | _FOR_THE_TEMPLATE).items():
        command += ["--setenv", name, value]
    server = ["/.template/server.py", *map(str, handed)]
    return [*command, "--chdir", "/", "--", sys.executable, "-P", *server]


_FOR_THE_TEMPLATE = {
    "HOME": "/tmp",  # noqa: S108 its own
    "MPLBACKEND": "agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    "IPYTHONDIR": "/tmp/ipython",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
