"""Keeping code from flooding, from writing to stderr, and (where that is safe) from running for ever.

In a graded cell one line on stderr costs all points, and TensorFlow writes there from C++ without asking Python.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator

LONGEST_OUTPUT = 2_000
"""Characters kept of what was printed."""
_LOG_LINE = re.compile(
    r"\s*([IWEF]\d{4} |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] |WARNING: All log messages before absl"
    r"|To enable the following instructions: )"
)
_one_at_a_time = threading.RLock()
_files: list[int] = []  # the descriptor that 2 points at, while it does


class TimeIsUp(BaseException):
    """Raised by the time limit in the limited code; not an Exception, so that `except Exception` lets it pass."""


class Cut(io.TextIOBase):
    """A text stream that keeps the beginning, counts the rest, and never fails or closes.

    A logger made while it stands in for a standard stream holds on to it; once `done`, it hands on what still comes.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, stands_for: str = "stdout", longest: int = LONGEST_OUTPUT) -> None:
        self._parts: list[str] = []
        self._room, self._dropped = longest, 0
        self._stands_for, self.done = stands_for, False

    def write(self, text: str) -> int:
        """Keep what fits."""
        text = str(text)
        if self.done:
            now = getattr(sys, self._stands_for)
            return now.write(text) if now is not None and now is not self else len(text)
        if kept := text[: self._room]:
            self._parts.append(kept)
            self._room -= len(kept)
        self._dropped += len(text) - len(kept)
        return len(text)

    def writable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Stay open: the code may close what it was given."""

    def text(self) -> str:
        """What was kept, and how much was not."""
        more = f"\n... and {self._dropped:,} more characters" if self._dropped else ""
        return "".join(self._parts) + more


class Captured:
    """What came out while code ran quietly; complete once the block has ended."""

    printed: str = ""
    warned: str = ""


@contextlib.contextmanager
def quietly() -> Iterator[Captured]:
    """Capture stdout, stderr (also what C++ and loggers write to it) and warnings.

    The streams belong to the whole process: while another thread captures them, its block gets everything.
    """
    captured = Captured()
    if not _one_at_a_time.acquire(blocking=False):
        yield captured
        return
    try:
        with _capturing(captured):
            yield captured
    finally:
        _one_at_a_time.release()


@contextlib.contextmanager
def _capturing(captured: Captured) -> Iterator[None]:
    out, err = Cut("stdout"), Cut("stderr")
    with contextlib.ExitStack() as stack:
        written = stack.enter_context(_descriptor_to_file())
        noticed = stack.enter_context(warnings.catch_warnings(record=True))
        if any(action == "error" for action, *_ in warnings.filters):
            warnings.resetwarnings()  # set for the whole notebook, and so no part of what is captured
        stack.enter_context(_loggers_to({id(sys.stdout): out, id(sys.stderr): err}))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            yield
        finally:
            lines = [f"{w.category.__name__}: {w.message}" for w in noticed[:100]]
            lines += [line for text in (err.text(), written()) for line in text.splitlines()]
            kept = dict.fromkeys(line for line in lines if line.strip() and not _LOG_LINE.match(line))
            captured.printed, captured.warned = out.text(), "\n".join(kept)[:LONGEST_OUTPUT]
            out.done = err.done = True


@contextlib.contextmanager
def _loggers_to(streams: dict[int, Cut]) -> Iterator[None]:
    """Loggers that write to a standard stream keep the one that there was when they were made: move them too."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    moved = [
        (handler, handler.stream)
        for logger in loggers
        for handler in getattr(logger, "handlers", ())
        if isinstance(handler, logging.StreamHandler) and id(handler.stream) in streams
    ]
    for handler, stream in moved:
        handler.stream = streams[id(stream)]
    try:
        yield
    finally:
        for handler, stream in moved:
            handler.stream = stream


@contextlib.contextmanager
def _descriptor_to_file() -> Iterator[Callable[[], str]]:
    """Point file descriptor 2 at a temporary file and say how to read what is written there in this block.

    Inside another such block nothing is pointed anew; where it cannot be done, nothing is done. A file, not a pipe:
    C++ code that holds the interpreter's lock while it writes to a full pipe would wait for ever.
    """
    with contextlib.ExitStack() as stack:
        if not _files:
            with contextlib.suppress(OSError):
                stack.enter_context(_pointed())
        yield _reader(_files[-1]) if _files else lambda: ""


@contextlib.contextmanager
def _pointed() -> Iterator[None]:
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            _files.append(file.fileno())
            yield
        finally:
            _files.clear()
            os.dup2(saved, 2)
            os.close(saved)


def _reader(descriptor: int) -> Callable[[], str]:
    begin = os.fstat(descriptor).st_size

    def read() -> str:
        with contextlib.suppress(OSError):
            return os.pread(descriptor, 64 * LONGEST_OUTPUT, begin).decode("utf-8", "replace")
        return ""

    return read


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeIsUp` inside the block after `seconds`, where signals can do that safely; else no limit.

    That is: in the main thread, on a system with interval timers, and when nobody else uses the alarm.
    """
    if seconds is None or not _alarm_is_free():
        yield
        return
    active = True

    def ring(_signal: int, _frame: object) -> None:
        if active:
            raise TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), 1.0)  # again each second: a bare `except:` swallows one
    try:
        yield
    finally:
        active = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _alarm_is_free() -> bool:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    default = signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN)
    return default and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
