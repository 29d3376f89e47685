"""Starting programs that end with us, and ending them for good."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import threading
from concurrent.futures import Future
from typing import Any


class Pidfd:
    """A process held by a descriptor, so that its number cannot come to mean another.

    Raises:
        OSError: if there is no such process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._held = os.pidfd_open(pid)

    def kill(self) -> None:
        """End it now, and with the first process of a PID namespace all others there; nothing if it is gone."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._held, signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        poll = select.poll()
        poll.register(self._held, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        """Let go of it; may be called again."""
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)


def spawn(command: list[str], **keywords: Any) -> subprocess.Popen[bytes]:
    """`subprocess.Popen` from a thread that lives as long as this process.

    The kernel ends a program that asked for it (PR_SET_PDEATHSIG) when the thread that started it ends, not the
    process; and threads that grade come and go.
    """
    return _spawner.call(lambda: subprocess.Popen(command, **keywords))


class _Spawner:
    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[tuple[Any, Future[Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def call(self, function: Any) -> Any:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sandbox starter", daemon=True)
                self._thread.start()
        answer: Future[Any] = Future()
        self._wanted.put((function, answer))
        return answer.result()

    def _run(self) -> None:
        while True:
            function, answer = self._wanted.get()
            try:
                answer.set_result(function())
            except BaseException as error:  # it is the caller's
                answer.set_exception(error)


_spawner = _Spawner()


def _in_a_fork() -> None:
    global _spawner
    _spawner = _Spawner()


os.register_at_fork(after_in_child=_in_a_fork)
