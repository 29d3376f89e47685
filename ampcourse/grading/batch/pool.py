"""Many pieces of work at a time, a bounded number of them in memory, results as they come."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from ampcourse.grading.batch.host import Closed
from ampcourse.grading.batch.work import Done, Work


class Grades(Protocol):
    """Something that grades: this machine's `Host`, or a cluster."""

    name: str

    def grade(self, work: Work) -> Done:
        """Grade one submission, in the calling thread's time."""

    def close(self) -> None:
        """End what is under way; `grade` raises Closed then."""


class Pool:
    """Keeps `slots` submissions under way.

    Args:
        host: what grades them.
        slots: how many at a time.
    """

    def __init__(self, host: Grades, slots: int) -> None:
        self._host, self._slots = host, slots
        # A signal handler may put something in, which only this kind of queue allows.
        self._news: queue.SimpleQueue[Done | BaseException | None] = queue.SimpleQueue()
        self._stopping = False

    def stop(self) -> None:
        """Begin nothing more and end what is under way; for a signal handler, or any thread."""
        self._stopping = True
        self._news.put(None)

    def run(self, works: Iterable[Work]) -> Iterator[Done]:
        """The results, in the order in which they are ready.

        Raises:
            GradingError: if the cluster has no worker left.
        """
        waiting, under_way = iter(works), 0
        with ThreadPoolExecutor(self._slots, thread_name_prefix="grading") as threads:
            try:
                while not self._stopping:
                    while under_way < self._slots + 1 and (work := next(waiting, None)) is not None:
                        threads.submit(self._grade, work)
                        under_way += 1
                    if not under_way:
                        return
                    news = self._news.get()
                    if isinstance(news, BaseException):
                        raise news
                    if news is not None:
                        under_way -= 1
                        yield news
            finally:
                self._host.close()
                threads.shutdown(cancel_futures=True)
        yield from self._finished()

    def _finished(self) -> Iterator[Done]:
        """What was ready when the pool was stopped."""
        while not self._news.empty():
            if isinstance(news := self._news.get(), Done):
                yield news

    def _grade(self, work: Work) -> Any:
        try:
            self._news.put(self._host.grade(work))
        except Closed:
            pass
        except BaseException as error:
            self._news.put(error)
