"""Cells run one after the other in a fresh kernel of this very Python, with limits, their outputs thrown away."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from ampcourse.course import UserError

OK, ERROR, TIMEOUT, DEAD, NOT_RUN = "ok", "error", "timed out", "kernel died", "not run"
_STARTUP, _GRACE = 60.0, 5.0  # seconds for a kernel to start, and to give up after an interrupt


class KernelError(UserError):
    """No kernel could be started."""


@dataclass(frozen=True)
class Ran:
    """How one cell ended; `error` is the exception's name and text, on one line."""

    status: str
    error: str = ""


class _Client(NotebookClient):
    """Keeps errors only: a flood of output must not fill our memory. Notices when a cell ends the kernel on purpose."""

    asked_to_exit = False

    def __init__(self, notebook: nbformat.NotebookNode, **options: Any) -> None:
        super().__init__(notebook, on_cell_executed=self._notice, **options)

    def _notice(self, execute_reply: dict, **_: Any) -> None:
        payload = execute_reply["content"].get("payload") or ()
        self.asked_to_exit = any(part.get("source") == "ask_exit" for part in payload)

    def output(self, outs: list, msg: dict, display_id: str | None, cell_index: int) -> Any:
        if msg["msg_type"] == "error":
            return super().output(outs, msg, display_id, cell_index)
        return None


def run_cells(
    sources: Sequence[str],
    folder: Path,
    scratch: Path,
    environment: Mapping[str, str],
    cell_seconds: float,
    seconds: float,
    watch: Callable[[int], None] = lambda _: None,
) -> list[Ran]:
    """Run code cells in order in `folder`; an error does not stop the rest, a dead kernel or the time limit does.

    Args:
        sources: the cells' code.
        folder: the working directory of the kernel.
        scratch: an empty folder for the kernel's own files.
        environment: all environment variables of the kernel.
        cell_seconds: after this a cell is interrupted, and the next one runs.
        seconds: limit for all cells together.
        watch: called with the number of each cell before it runs.

    Raises:
        KernelError: if the kernel does not start.
    """
    return asyncio.run(_run(sources, folder, scratch, environment, cell_seconds, seconds, watch))


async def _run(
    sources: Sequence[str],
    folder: Path,
    scratch: Path,
    environment: Mapping[str, str],
    cell_seconds: float,
    seconds: float,
    watch: Callable[[int], None],
) -> list[Ran]:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    manager = _manager(scratch)
    quiet = logging.getLogger("ampcourse.kernel")
    quiet.setLevel(logging.CRITICAL + 1)
    client = _Client(notebook, km=manager, allow_errors=True, log=quiet, skip_cells_with_tag="")
    manager.log = quiet
    ran: list[Ran] = []
    try:
        await _start(client, manager, folder, environment)
        ends = time.monotonic() + seconds
        for number, cell in enumerate(notebook.cells):
            watch(number)
            client.timeout = min(cell_seconds, ends - time.monotonic())
            if client.timeout <= 0:
                break
            ran.append(await _run_one(client, manager, cell, number))
            if ran[-1].status == DEAD:
                break
    finally:
        if client.kc is not None:
            client.kc.stop_channels()
        with suppress(Exception):
            await manager.shutdown_kernel(now=True)
    return ran + [Ran(NOT_RUN)] * (len(sources) - len(ran))


def _manager(scratch: Path) -> AsyncKernelManager:
    """A manager of a kernel of this Python, whatever `python3` means elsewhere on the machine."""
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    manager.connection_file = str(scratch / "kernel.json")
    socket = str(scratch / "k")
    if os.name == "posix" and len(socket) < 90:  # ports can be taken by somebody else between choice and use
        manager.transport, manager.ip = "ipc", socket
    return manager


async def _start(client: _Client, manager: AsyncKernelManager, folder: Path, environment: Mapping[str, str]) -> None:
    try:
        await manager.start_kernel(
            cwd=str(folder), env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        client.kc = manager.client()
        client.kc.start_channels()
        await client.kc.wait_for_ready(timeout=_STARTUP)
    except Exception as error:
        says = " ".join(str(error).split()) or type(error).__name__
        raise KernelError(f"No notebook kernel starts ({says}): 'ampcourse doctor' says more.") from None
    client.kc.allow_stdin = False


async def _run_one(client: _Client, manager: AsyncKernelManager, cell: Any, number: int) -> Ran:
    try:
        await client.async_execute_cell(cell, number)
    except CellTimeoutError:
        stopped = await _interrupt(client, manager)
        return Ran(TIMEOUT if stopped else DEAD, f"stopped after {client.timeout:.0f} s")
    except DeadKernelError:
        # nbclient also says this when we ourselves are being cancelled, that is, interrupted from the keyboard.
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError from None
        return Ran(DEAD, "the kernel died")
    if client.asked_to_exit:  # exit() and quit(): the kernel lives on for a moment, which must not decide a verdict
        return Ran(DEAD, "the kernel was told to end")
    for output in cell.outputs:
        return Ran(ERROR, _one_line(output.get("ename", ""), output.get("evalue", "")))
    return Ran(OK)


async def _interrupt(client: _Client, manager: AsyncKernelManager) -> bool:
    """Interrupt the running cell; whether the kernel then answers again."""
    await manager.interrupt_kernel()
    with suppress(Empty, asyncio.TimeoutError):
        await client.kc.get_shell_msg(timeout=_GRACE)
        return True
    return False


def _one_line(name: str, text: str) -> str:
    if name == "StdinNotImplementedError":
        return "asks for input(), which nobody can give here"
    line = " ".join(f"{name}: {text[:300]}".split()).rstrip(".:")
    return line if len(line) <= 200 else line[:199] + "…"
