"""A kernel for one submission that is started anew when it is lost, with what came before run again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ampcourse.grading.model import GradingError, Starter
from ampcourse.grading.settings import Settings
from ampcourse.grading.submission.observed import Observed, installing
from ampcourse.grading.submission.session import DIED, FLOODED, OK, TIMEOUT, Reply, Session, Sink

NOT_RUN = "not run"


@dataclass(frozen=True)
class Step:
    """Code to run, and to run again in a new kernel.

    Attributes:
        name: which cell, for the log.
        code: the text.
        seconds: its limit.
        options: further fields of the execute request.
    """

    name: str
    code: str
    seconds: float
    options: Mapping[str, Any] = field(default_factory=dict)


class Runner:
    """Runs code and asks questions in a kernel, within the times and restarts of the settings.

    Attributes:
        restarts: how often a kernel was started anew.
        over: why nothing more is run, as a sentence; empty while something can be.
        log: lines of what happened.
    """

    def __init__(self, starter: Starter, files: Mapping[str, bytes], settings: Settings) -> None:
        self._starter, self._files, self._settings = starter, files, settings
        self._began = time.monotonic()
        self._session: Session | None = None
        self._history: list[Step] = []
        self._starts = 0
        self.log: list[str] = []
        self.over = ""
        self.died_of = ""
        """What ended the last kernel, in words; empty if nobody knows."""

    @property
    def restarts(self) -> int:
        """How often a kernel was started anew."""
        return max(self._starts - 1, 0)

    def seconds(self) -> float:
        """Wall time so far."""
        return time.monotonic() - self._began

    def left(self) -> float:
        """Seconds that this submission still has."""
        return self._settings.submission_seconds - self.seconds()

    def say(self, line: str) -> None:
        """Add a line to the log."""
        self.log.append(f"{self.seconds():8.2f} s  {line}")

    def close(self) -> None:
        """End the kernel."""
        self._lose()

    def run(self, step: Step, sink: Sink | None = None) -> Reply:
        """Run code. What hangs or ends the kernel is not run again in the next one; status "not run" if there is none.

        Raises:
            GradingError: if not even a first kernel can be started.
        """
        session = self._ready()
        if session is None:
            return Reply(NOT_RUN)
        reply = self._execute(session, step, sink)
        if reply.answered:
            self._history.append(step)
        return reply

    def ask(self, name: str, question: Callable[[Session, float], Observed]) -> Observed | None:
        """Ask about an answer; None if there is no kernel any more.

        Raises:
            GradingError: if not even a first kernel can be started.
        """
        session = self._ready()
        if session is None:
            return None
        seen = question(session, self.left())
        if seen.trouble:
            self.say(f"{name}: {seen.trouble}{'; the kernel is lost' if seen.lost else ''}")
        if seen.lost:
            self._lose(died=seen.trouble == DIED)
        return seen

    # ------------------------------------------------------------------ inside

    def _execute(self, session: Session, step: Step, sink: Sink | None) -> Reply:
        reply = session.execute(step.code, max(min(step.seconds, self.left()), 0.1), sink, **step.options)
        if reply.status in (TIMEOUT, FLOODED):
            how = "interrupted" if reply.content else "did not react to being interrupted"
            self.say(f"{step.name}: {'time is up' if reply.status == TIMEOUT else 'too much output'}; {how}")
        if not reply.content:
            self._lose(died=reply.status == DIED)
            if reply.status == DIED:
                self.say(f"{step.name}: the kernel has ended: {self.died_of or 'nobody knows why'}")
        elif _exits(reply.content):
            self.say(f"{step.name}: asked the kernel to end")
            self._lose()
            return Reply(DIED, complete=reply.complete)
        return reply

    def _ready(self) -> Session | None:
        """A kernel in which everything so far has run."""
        while self._session is None and not self.over:
            if self._starts > self._settings.restarts:
                self.over = f"Not run: the notebook had ended or blocked its kernel {self._starts} times before."
            elif self.left() <= 0:
                self.over = f"Not run: the notebook took longer than {self._settings.submission_seconds:g} s in all."
            else:
                self._start()
        if self._session is not None and self.left() <= 0:
            self.over = f"Not run: the notebook took longer than {self._settings.submission_seconds:g} s in all."
            self._lose()
        if self.over and self.over not in (self.log[-1] if self.log else ""):
            self.say(self.over)
        return self._session

    def _start(self) -> None:
        self._starts += 1
        kernel = self._starter.start(self._files, "grade")
        session = self._session = Session(kernel)
        if not session.wait_until_ready(self._settings.start_seconds):
            self._failed("the kernel did not answer")
        elif (reply := session.execute(installing(), self._settings.start_seconds, silent=True)).status != OK:
            self._failed(f"the kernel cannot observe: {_said(reply)}")
        else:
            self.say(f"kernel {self._starts} is ready")
            self._again()

    def _failed(self, why: str) -> None:
        """A kernel without a line of the student's code in it did not come up."""
        self._lose(died=True)
        self.say(f"{why}: {self.died_of or 'nobody knows why'}")
        if self._starts >= 2 and not any("is ready" in line for line in self.log):
            raise GradingError(f"No kernel can be used here: {why}{f' ({self.died_of})' if self.died_of else ''}.")

    def _again(self) -> None:
        """Run what came before; a step that now hangs or ends the kernel is left out the next time."""
        for step in list(self._history):
            if self._session is None:
                return
            if not self._execute(self._session, step, None).answered:
                self._history.remove(step)

    def _lose(self, died: bool = False) -> None:
        if self._session is None:
            return
        session, self._session = self._session, None
        self.died_of = ""
        if died:
            with contextlib.suppress(Exception):
                self.died_of = session.kernel.reason()
        session.close()


def _exits(content: Mapping[str, Any]) -> bool:
    """Whether the code called exit() or quit(), after which a kernel ends a moment later."""
    payload = content.get("payload")
    return isinstance(payload, list) and any(isinstance(p, dict) and p.get("source") == "ask_exit" for p in payload)


def _said(reply: Reply) -> str:
    return f"{reply.status} {reply.content.get('ename', '')} {reply.content.get('evalue', '')}".strip()[:300]
