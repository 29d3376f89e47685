"""A worker: a process of its own that grades one submission after the other and can be replaced at any time.

It is told everything over a pipe: first the assignments, then one piece of work after the other; see `host`. It ends
when the pipe or its standard input closes, so that it never outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
from multiprocessing.connection import Connection

# The questions' arithmetic is small; more threads would only take cores from the kernels.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def environment() -> dict[str, str]:
    """The environment for a worker."""
    return {**os.environ, **dict.fromkeys(_THREADS, "1"), "PYTHONUNBUFFERED": "1"}


def main(handle: int, grader: str) -> None:
    """Work until there is no more.

    Args:
        handle: file descriptor of the pipe to the host.
        grader: the function that grades one notebook, as "module:function".
    """
    faulthandler.enable()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the host decides; a Ctrl-C in its terminal is for the host alone
    threading.Thread(target=_end_with_the_host, daemon=True).start()
    from ampcourse.grading.batch.remote import RemoteStarter
    from ampcourse.grading.batch.work import grade_work, load_grader

    connection = Connection(handle)
    with contextlib.suppress(EOFError, OSError):
        grade = load_grader(grader)
        assignments, names = connection.recv()
        starters = [RemoteStarter(connection, index, name) for index, name in enumerate(names)]
        connection.send(("ready",))
        while (work := connection.recv()) is not None:
            connection.send(("done", grade_work(work, assignments, starters, grade)))


def _end_with_the_host() -> None:
    """Standard input is a pipe that nobody writes to: it ends when the host does, however that ends."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os._exit(1)
