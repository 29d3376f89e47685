"""Runs in the student's kernel, before any code of theirs: answers the grader's requests to observe an answer.

Its text is sent there; on the trusted side nothing imports it. The requests are messages of a type of their own, so
that no cell is executed: nothing that a notebook does to IPython, its display or its own names is in the way, and
nothing appears among its names. What comes back is bytes, which prove nothing and are judged elsewhere.
"""

from __future__ import annotations

from typing import Any

OBSERVE = "ampcourse_observe"
PIECE, MOST_PIECES = 1 << 16, 64
"""Characters of one message of printed text, and how many such messages one request may send."""


def install(kernel: Any) -> None:
    """Let the kernel answer requests to observe, and cut what is printed into pieces before it is sent."""
    import builtins
    import contextlib

    from ampcourse.exercises.observe import observe

    names = kernel.shell.user_ns
    base, interrupted = BaseException, KeyboardInterrupt
    code_of, run, kind_of = compile, eval, type

    def refuse(*_: object, **__: object) -> str:
        raise EOFError("input() was called, but nobody is there to answer while grading")

    def answer(expression: str) -> tuple[dict[str, str], Any]:
        code = code_of(expression, "<answer>", "eval")
        try:
            return {}, run(code, names)
        except NameError as error:
            if error.__traceback__.tb_next.tb_next is None:  # the name itself, not one that its code looks for
                return {"missing": str(error.name)}, None
            return {"stopped": f"NameError: {error}"}, None
        except interrupted:
            raise
        except base as error:
            return {"stopped": kind_of(error).__name__}, None

    def handle(stream: Any, ident: Any, parent: Any) -> None:
        content, buffers = {}, []
        input_before, builtins.input = builtins.input, refuse
        try:
            asked = parent["content"]
            content, found = answer(asked["expression"])
            if not content:
                buffers = [observe(asked["observer"], bytes(parent["buffers"][0]), found, asked["seconds"])]
        except interrupted:
            content = {"interrupted": "yes"}
        except base as error:
            content = {"failed": kind_of(error).__name__}
        finally:
            builtins.input = input_before
        kernel.session.send(stream, f"{OBSERVE}_reply", content, parent, ident=ident, buffers=buffers)

    kernel.shell_handlers[OBSERVE] = handle
    with contextlib.suppress(Exception):  # only a courtesy: whoever receives has limits of their own
        _send_in_pieces()


def _send_in_pieces() -> None:
    from ipykernel.iostream import OutStream

    flush_before = OutStream._flush_buffers
    sent: dict[Any, int] = {}

    def in_pieces(stream: Any) -> Any:
        for parent, text in flush_before(stream):
            request = parent.get("header", {}).get("msg_id")
            if request not in sent:
                sent.clear()
                sent[request] = 0
            for begin in range(0, len(text), PIECE):
                sent[request] += 1
                if sent[request] <= MOST_PIECES:
                    yield parent, text[begin : begin + PIECE]

    OutStream._flush_buffers = in_pieces
