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

    shell = kernel.shell
    names = shell.user_ns
    base, interrupted = BaseException, KeyboardInterrupt
    code_of, run, kind_of = compile, eval, type

    def refuse(*_: object, **__: object) -> str:
        raise EOFError("input() was called, but nobody is there to answer while grading")

    def leave(*_: object) -> None:
        raise SystemExit("exit() was called")  # the kernel itself goes on: the next question is another one

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
        shell.ask_exit = leave
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
            shell.__dict__.pop("ask_exit", None)
        kernel.session.send(stream, f"{OBSERVE}_reply", content, parent, ident=ident, buffers=buffers)

    kernel.shell_handlers[OBSERVE] = handle
    _tidy_around_cells(kernel)
    with contextlib.suppress(Exception):  # only a courtesy: whoever receives has limits of their own
        _send_in_pieces()


def _tidy_around_cells(kernel: Any) -> None:
    """Before and after each cell, put back what the kernel itself needs: what one cell breaks, others do not miss."""
    import inspect
    import json
    import signal
    import sys

    shell, handlers = kernel.shell, kernel.shell_handlers
    run = handlers["execute_request"]
    manager = shell.input_transformer_manager
    objects = [(sys, "stdout"), (sys, "stderr"), (sys, "displayhook"), (json, "dumps"), (json, "loads")]
    objects += [(shell, name) for name in ("displayhook", "display_pub", "display_formatter", "user_ns", "events")]
    kept = [(where, name, getattr(where, name)) for where, name in objects]
    ours = [m for n, m in sys.modules.items() if n.startswith("ampcourse.exercises") or n == "ampcourse.quiet"]
    names = [(module.__dict__, dict(module.__dict__)) for module in ours]
    lists = [shell.ast_transformers, manager.cleanup_transforms, manager.line_transforms, manager.token_transformers]
    lists += [shell.events.callbacks[name] for name in ("pre_run_cell", "pre_execute")]
    began = [(each, list(each)) for each in lists]

    def tidy() -> None:
        for where, name, value in kept:
            if getattr(where, name, None) is not value:
                setattr(where, name, value)
        for namespace, before in names:
            namespace.update(before)
        for each, before in began:
            each[:] = before
        handlers.update(at_first)
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    async def run_tidily(stream: Any, ident: Any, parent: Any) -> None:
        tidy()
        try:
            done = run(stream, ident, parent)
            if inspect.isawaitable(done):
                await done
        finally:
            tidy()

    handlers["execute_request"] = run_tidily
    at_first = dict(handlers)


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
