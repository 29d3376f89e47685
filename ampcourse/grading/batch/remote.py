"""A starter at the other end of a pipe: workers ask the one process of a machine that owns the kernels.

So one template serves all workers of a machine, and a worker that dies takes no kernel with it: its owner stops them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from ampcourse.grading.model import GradingError, Kernel, Starter


class RemoteStarter:
    """What a worker has in place of a starter.

    Args:
        connection: to the owner.
        index: which of the owner's starters.
        name: its name.
    """

    def __init__(self, connection: Connection, index: int, name: str) -> None:
        self.name = name
        self._connection, self._index = connection, index

    def start(self, files: Mapping[str, bytes], profile: str = "grade") -> RemoteKernel:
        """Ask for a kernel.

        Raises:
            GradingError: if no kernel can be started there.
        """
        number, connection = ask(self._connection, "start", self._index, dict(files), profile)
        return RemoteKernel(self._connection, number, connection)

    def close(self) -> None:
        """Nothing: the owner closes it."""


class RemoteKernel:
    """A kernel that somebody else owns."""

    def __init__(self, connection: Connection, number: int, jupyter: Mapping[str, Any]) -> None:
        self.connection = jupyter
        self._pipe, self._number = connection, number

    def alive(self) -> bool:
        """Whether it still runs."""
        return ask(self._pipe, "alive", self._number)

    def reason(self) -> str:
        """Why it ended."""
        return ask(self._pipe, "reason", self._number)

    def stop(self) -> None:
        """End it."""
        ask(self._pipe, "stop", self._number)


def ask(connection: Connection, *question: Any) -> Any:
    """A question to the owner, and its answer.

    Raises:
        GradingError: if the owner answers with one.
    """
    connection.send(question)
    good, answer = connection.recv()
    if not good:
        raise GradingError(answer)
    return answer


class Owner:
    """The other end: the kernels of one worker."""

    def __init__(self, starters: Sequence[Starter]) -> None:
        self._starters = starters
        self._kernels: dict[int, Kernel] = {}
        self._count = 0

    def answer(self, connection: Connection, question: tuple[Any, ...]) -> None:
        """Answer one question of a worker; an error is an answer as well."""
        try:
            answer = True, self._do(*question)
        except GradingError as error:
            answer = False, str(error)
        except Exception as error:  # the worker waits for an answer, whatever happens
            answer = False, f"A kernel could not be managed ({type(error).__name__}: {error})."
        connection.send(answer)

    def _do(self, what: str, number: int, *more: Any) -> Any:
        if what == "start":
            kernel = self._starters[number].start(*more)
            self._count += 1
            self._kernels[self._count] = kernel
            return self._count, dict(kernel.connection)
        if what == "stop":
            kernel_ = self._kernels.pop(number, None)
            return kernel_.stop() if kernel_ is not None else None
        kernel = self._kernels.get(number)
        if what == "alive":
            return kernel is not None and kernel.alive()
        return kernel.reason() if kernel is not None else ""

    def stop_all(self) -> None:
        """End every kernel that the worker has left."""
        for number in list(self._kernels):
            self._kernels.pop(number).stop()
