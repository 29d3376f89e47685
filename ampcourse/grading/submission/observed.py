"""Asking a kernel what an answer does: inputs go in as bytes, observations come out as bytes, nothing is executed."""

from __future__ import annotations

import ast
import functools
import time
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ampcourse.exercises import wire
from ampcourse.exercises.compare import read
from ampcourse.exercises.engine import Question, to_ask
from ampcourse.grading.model import Asked
from ampcourse.grading.submission.session import GRACE, Session, simple_enough

OBSERVE = "ampcourse_observe"


@dataclass(frozen=True)
class Observed:
    """What came back for one exercise.

    Attributes:
        questions: those that were asked; fewer than there are, once every criterion has timed out.
        observations: one for each question asked.
        trouble: "timed out", "died" or "flooded" if the kernel was lost or interrupted on the way; else "".
        missing: the name that does not exist, if that is why there is no answer.
        stopped: what stopped it before there was an observation.
        lost: whether the kernel cannot be used on.
    """

    questions: tuple[Question, ...] = ()
    observations: tuple[bytes, ...] = ()
    trouble: str = ""
    missing: str = ""
    stopped: str = ""
    lost: bool = False


@functools.cache
def installing() -> str:
    """Code for a kernel that has not run anything yet: makes it answer `OBSERVE`, and leaves no name behind."""
    text = resources.files(__package__).joinpath("inside.py").read_text("utf-8")
    install = f"exec({text!r}, names) or names['install'](get_ipython().kernel)"
    return f"(lambda names: {install})({{'__name__': 'ampcourse_grading'}})"


def answer_in(source: str) -> str:
    """The answer's expression in a cell `check("<exercise>", <answer>)`."""
    call: Any = ast.parse(source).body[0].value  # type: ignore[attr-defined]
    return ast.unparse(call.args[1]) if len(call.args) > 1 else "None"


def observe(session: Session, asked: Asked, expression: str, seconds_left: float) -> Observed:
    """Ask every question of an exercise, less what has timed out before."""
    seen: list[bytes] = []
    late: frozenset[str] = frozenset()
    ends = time.monotonic() + seconds_left
    for question in asked.questions:
        if not (packed := to_ask(question, late)):
            break
        seconds = min(asked.seconds, max(ends - time.monotonic(), 1.0))
        one = ask(session, asked.observer, expression, packed, seconds)
        questions = asked.questions[: len(seen) + 1]
        if one.trouble or one.missing or one.stopped:
            return Observed(questions, (*seen, b""), one.trouble, one.missing, one.stopped, one.lost)
        seen.append(one.observations[0])
        late |= read(seen[-1]).timed_out
    return Observed(asked.questions[: len(seen)], tuple(seen))


def ask(session: Session, observer: str, expression: str, packed: bytes, seconds: float) -> Observed:
    """Observe an answer on one set of inputs."""
    content = {"observer": observer, "expression": expression, "seconds": seconds}
    reply = session.within(OBSERVE, content, seconds + GRACE, buffers=(packed,))
    if not reply.answered:
        trouble = {"timeout": "timed out"}.get(reply.status, reply.status)
        return Observed(trouble=trouble, lost=not reply.content)
    names = {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)}
    missing, stopped = reply.content.get("missing"), reply.content.get("stopped")
    if isinstance(missing, str):
        return Observed(missing=missing if missing in names else expression)
    if not reply.buffers and "interrupted" in reply.content:
        stopped = "KeyboardInterrupt"
    if isinstance(stopped, str):
        return Observed(stopped=stopped)
    return Observed(observations=(_bounded(reply.buffers[0] if reply.buffers else b""),))


def _bounded(observation: bytes) -> bytes:
    small = len(observation) <= wire.LARGEST_MESSAGE and simple_enough(observation)
    return observation if small else b""
