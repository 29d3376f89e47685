"""The sandbox behind Jupyter's own tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook
from sandbox_talk import PATIENCE, gone

from ampcourse.grading.model import GradingError
from ampcourse.grading.sandbox import choosing, provisioner
from ampcourse.grading.sandbox.probe import Layer, Layers
from ampcourse.grading.sandbox.provisioner import KERNEL_NAME, KERNELS, kernel_spec_manager

pytestmark = pytest.mark.sandbox

LOOK = "import os; print(os.getuid(), os.uname().nodename, os.path.exists('/var'), os.environ.get('SECRET'))"


def _manager() -> AsyncKernelManager:
    return AsyncKernelManager(kernel_name=KERNEL_NAME, kernel_spec_manager=kernel_spec_manager(), transport="ipc")


@pytest.fixture
def client() -> Iterator[Callable[..., NotebookClient]]:
    """Makes clients of notebooks; their kernels end with the test."""
    managers = []

    def make(*cells: str, **more: object) -> NotebookClient:
        managers.append(_manager())
        book = new_notebook(cells=[new_code_cell(cell) for cell in cells])
        return NotebookClient(book, km=managers[-1], startup_timeout=int(60 * PATIENCE), **more)

    yield make
    for manager in managers:
        if manager.has_kernel:
            asyncio.run(manager.shutdown_kernel(now=True))
        assert not manager.has_kernel


def test_nbclient_runs_a_notebook_inside(
    monkeypatch: pytest.MonkeyPatch, client: Callable[..., NotebookClient]
) -> None:
    monkeypatch.setenv("SECRET", "1")
    book = client(LOOK, "6 * 7", "!hostname").execute()
    assert book.cells[0].outputs[0].text == "1000 grading False None\n"
    assert book.cells[1].outputs[0].data["text/plain"] == "42"
    assert "grading" in book.cells[2].outputs[0].text
    nbformat.validate(book)


def test_interrupts_are_messages_and_deaths_are_noticed(client: Callable[..., NotebookClient]) -> None:
    with pytest.raises(CellTimeoutError):
        client("while True: pass", timeout=1).execute()
    with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
        client("import time; time.sleep(600)", timeout=1, interrupt_on_timeout=True).execute()
    with pytest.raises(DeadKernelError):
        client("import os; os._exit(3)").execute()


def test_a_manager_starts_restarts_and_ends_it() -> None:
    async def run() -> None:
        manager = _manager()
        await manager.start_kernel()
        first = manager.provisioner._kernel.first.pid
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=60 * PATIENCE)
        assert await manager.is_alive() and await manager.provisioner.poll() is None
        client.stop_channels()
        await manager.restart_kernel(now=True)
        assert gone(first)
        second = manager.provisioner._kernel.first.pid
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=60 * PATIENCE)
        client.stop_channels()
        folder = Path(manager.get_connection_info()["ip"]).parent
        assert folder.exists()
        await manager.shutdown_kernel(now=True)
        assert gone(second) and not folder.exists()
        assert not await manager.is_alive()

    asyncio.run(run())


def test_the_manager_of_kernelspecs_knows_no_other() -> None:
    assert set(kernel_spec_manager().find_kernel_specs()) == {KERNEL_NAME}
    spec = json.loads((KERNELS / KERNEL_NAME / "kernel.json").read_text("utf-8"))
    assert spec["interrupt_mode"] == "message"
    assert spec["metadata"]["kernel_provisioner"]["provisioner_name"] == KERNEL_NAME


def test_it_refuses_where_there_is_no_isolation(
    monkeypatch: pytest.MonkeyPatch, client: Callable[..., NotebookClient]
) -> None:
    monkeypatch.setattr(choosing, "probe", lambda: Layers((Layer("x", False, "There is a hole."),)))
    with pytest.raises(GradingError, match=r"There is a hole\. .*--unsafe-no-sandbox"):
        client("1").execute()
    assert provisioner.refuse_unless_isolated is choosing.refuse_unless_isolated
