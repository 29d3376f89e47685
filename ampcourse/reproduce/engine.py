"""A papermill engine whose cell statuses are honest, that saves seldom and whole, and knows how its kernel ended."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ampcourse.reproduce.quick import import_jsonschema

import_jsonschema()

import papermill  # noqa: E402
from nbclient.exceptions import CellExecutionError, DeadKernelError  # noqa: E402
from papermill.clientwrap import PapermillNotebookClient  # noqa: E402
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines  # noqa: E402
from traitlets.config import Config  # noqa: E402

from ampcourse.reproduce import executed, files  # noqa: E402
from ampcourse.reproduce.job import Job  # noqa: E402

_TEXT_LIMIT = 1_000_000  # characters of printed text kept for one cell
_LEFT_OUT = "ampcourse_left_out"
_OUTPUT_WAIT = 60  # seconds for a cell's last outputs; nbclient's own 4 s are too few for a flood on a loaded machine


class Manager(NotebookExecutionManager):
    """Papermill's bookkeeper, but it saves at most every few seconds: large outputs must not slow every later cell."""

    def __init__(self, notebook: Any, target: Path, on_cell: Callable[[int, int], None]) -> None:
        super().__init__(notebook, progress_bar=False)
        self._target, self._on_cell = target, on_cell
        self._next_save = time.monotonic()

    def cell_start(self, cell: Any, cell_index: int = 0, **kwargs: Any) -> None:
        """Tell the head where we are."""
        self._on_cell(cell_index, len(self.nb.cells))
        super().cell_start(cell, cell_index, **kwargs)

    def save(self, **kwargs: Any) -> None:
        """Keep what has run so far, in case this process is killed; the final save is not this one's work."""
        started = time.monotonic()
        if started < self._next_save:
            return
        try:
            files.write(self._target, json.dumps(self.nb))
        except files.OutputError as error:
            logging.getLogger(__name__).warning("%s", error)
        ended = time.monotonic()
        self._next_save = ended + max(5.0, 20 * (ended - started))

    autosave_cell = save

    def notebook_complete(self, **kwargs: Any) -> None:
        """Mend the statuses first: papermill completes here whatever is still pending."""
        executed.mend(self.nb)
        super().notebook_complete(**kwargs)


class Client(PapermillNotebookClient):
    """Papermill's client, but a cell in which the kernel dies has failed, and floods of text are cut."""

    process: Any = None

    def start_new_kernel(self, **kwargs: Any) -> None:
        """Remember the kernel's process, to learn later how it ended."""
        super().start_new_kernel(**kwargs)
        self.process = getattr(self.km.provisioner, "process", None)

    def execute_cell(self, cell: Any, cell_index: int, **kwargs: Any) -> Any:
        """Mark the cell as failed for whatever reason it did; papermill sees only exceptions of the cell's own."""
        try:
            return super().execute_cell(cell, cell_index, **kwargs)
        except CellExecutionError:
            raise
        except BaseException:
            self.nb_man.cell_exception(cell, cell_index)
            raise

    def output(self, outs: list[Any], msg: Any, display_id: str | None, cell_index: int) -> Any:
        """Join printed text, keep it up to a limit, and remember how much was left out.

        nbclient's own joining (`coalesce_streams`) takes quadratic time on a long line.
        """
        if msg["msg_type"] != "stream" or self.output_hook_stack[msg["parent_header"].get("msg_id")]:
            return super().output(outs, msg, display_id, cell_index)
        content = msg["content"]
        room = _TEXT_LIMIT - sum(len(out.text) for out in outs if out.output_type == "stream")
        if (left_out := len(content["text"]) - room) > 0:
            content["text"] = content["text"][:room]
            metadata = self.nb.cells[cell_index].metadata
            metadata[_LEFT_OUT] = metadata.get(_LEFT_OUT, 0) + left_out
        last = outs[-1] if outs and not self.clear_before_next_output else None
        if last is not None and last.output_type == "stream" and last.name == content["name"]:
            last.text += content["text"]
            return last
        return super().output(outs, msg, display_id, cell_index) if room > 0 else None


def _tidy(notebook: Any) -> None:
    """Make printed text what a terminal would show at the end, and say where it was cut."""
    for cell in notebook.cells:
        streams = [out for out in cell.get("outputs", ()) if out.output_type == "stream"]
        for out in streams:
            out.text = "\n".join(_overwritten(line) for line in out.text.split("\n"))
        if left_out := cell.metadata.pop(_LEFT_OUT, 0):
            streams[-1].text += f"\n[output cut here: {left_out:,} more characters were printed]\n"


def _overwritten(line: str) -> str:
    """A line after its carriage returns; progress bars begin each state with one, or end it with one."""
    return line.rstrip("\r").rpartition("\r")[2].replace("\b", "")


class Engine(NBClientEngine):
    """What papermill calls to run the cells; afterwards it knows the notebook, the problem and the exit code."""

    def __init__(self, job: Job, on_cell: Callable[[int, int], None]) -> None:
        self._job, self._on_cell = job, on_cell
        self.notebook: Any = None
        self.problem: BaseException | None = None
        self.exit_code: int | None = None

    def execute_notebook(self, nb: Any, kernel_name: str, **_: Any) -> Any:  # type: ignore[override]
        """Run all cells; problems are kept, not raised, so that the notebook is not lost with them."""
        manager = Manager(nb, Path(self._job.target), self._on_cell)
        self.notebook = nb
        manager.notebook_start()
        client = Client(manager, kernel_name=kernel_name, **self._options())
        try:
            client.execute(cwd=str(Path(self._job.scratch, "work")))
        except Exception as error:
            self.problem = error
        finally:
            manager.notebook_complete()
            _tidy(nb)
            if isinstance(self.problem, DeadKernelError | RuntimeError) and client.process is not None:
                self.exit_code = client.process.poll()
        return nb

    def _options(self) -> dict[str, Any]:
        async def look_for_exit(cell: Any, execute_reply: Any, **_: Any) -> None:
            for payload in execute_reply["content"].get("payload", ()):
                if payload.get("source") == "ask_exit":
                    raise executed.KernelEndedError("the kernel was ended with exit() or quit()")

        # Sockets in a folder of this notebook's own cannot clash as ports do, and vanish with the folder.
        transport = Config({"KernelManager": {"transport": "ipc", "ip": str(Path(self._job.scratch, "k"))}})
        return {
            "config": transport,
            "iopub_timeout": _OUTPUT_WAIT,
            "log": logging.getLogger("papermill"),
            "on_cell_executed": look_for_exit,
            "shutdown_kernel": "immediate",
            "startup_timeout": int(60 * max(1.0, self._job.patience)),
            "timeout": None,
        }


def run_papermill(job: Job, on_cell: Callable[[int, int], None]) -> Engine:
    """Run a job's notebook with papermill; the engine that comes back knows how it went.

    Raises:
        Exception: whatever papermill raises for a notebook it cannot read or parameterise.
    """
    engine = Engine(job, on_cell)
    papermill_engines.register("ampcourse", engine)
    try:
        # No output path: papermill would write it in place and leave half a file on a full disk.
        papermill.execute_notebook(
            job.source.replace("{", "{{").replace("}", "}}"),  # papermill takes a path for a format string
            None,
            parameters=job.parameters,
            engine_name="ampcourse",
            kernel_name="python3",
            language="python",
            progress_bar=False,
        )
    except papermill.PapermillExecutionError as error:
        engine.problem = engine.problem or error
    # Where the notebook lay on this machine is nobody's business in a shared report.
    if engine.notebook is not None:
        engine.notebook.metadata.papermill.update(input_path=Path(job.source).name, output_path=Path(job.target).name)
    return engine
