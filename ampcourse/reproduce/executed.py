"""What an executed notebook tells: which cells ran, what was recorded, and why it stopped.

Notebooks are handled as plain dictionaries, so that reading one needs no library (importing nbformat takes seconds).
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampcourse.reproduce.record import MIME

COMPLETED, FAILED, NOT_RUN = "completed", "failed", "not run"
LABEL = "papermill-error-cell-tag"
EXECUTED = "AMPCOURSE_EXECUTED"
"""The environment variable that tells a running notebook where its run puts the executed ones."""
_UNFINISHED = {"pending", None}
_LONGEST = 160


class KernelEndedError(Exception):
    """A cell asked its kernel to end; the text says how."""


@dataclass(frozen=True)
class Recorded:
    """One result that a notebook recorded; `times` says how often its name came up, of which the last counts."""

    name: str
    value: bool | int | float | str
    unit: str = ""
    times: int = 1


def load(path: Path) -> dict[str, Any] | None:
    """The notebook in a file, or None if there is none or it cannot be read."""
    try:
        notebook = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return notebook if isinstance(notebook, dict) and isinstance(notebook.get("cells"), list) else None


def recorded(notebook: dict[str, Any]) -> list[Recorded]:
    """All results in order of first appearance; a name that comes twice keeps its last value."""
    found: dict[str, Recorded] = {}
    for output in _outputs(notebook):
        content = output.get("data", {}).get(MIME)
        if not isinstance(content, dict) or "value" not in content:
            continue
        name = str(content.get("name"))
        times = found[name].times + 1 if name in found else 1
        found[name] = Recorded(name, content["value"], str(content.get("unit", "")), times)
    return list(found.values())


def _outputs(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for cell in notebook["cells"]:
        yield from cell.get("outputs", ())


def mend(notebook: dict[str, Any]) -> None:
    """Make every cell's papermill status honest, in place.

    Papermill marks cells that never ran, and the one in which the kernel died, as completed.
    """
    failed = False
    for cell in notebook["cells"]:
        note = cell["metadata"].get("papermill")
        if not isinstance(note, dict) or not note:
            continue  # a cell that papermill itself put in
        if note.get("status") == "running" or _error(cell):
            note["status"], note["exception"] = FAILED, True
        elif note.get("status") in _UNFINISHED:
            note["status"] = NOT_RUN
        failed |= note["status"] in (FAILED, NOT_RUN)
    if failed:
        notebook["metadata"].setdefault("papermill", {})["exception"] = True


def label(notebook: dict[str, Any], status: str, reason: str) -> None:
    """Say at the top of a notebook that did not run well what happened, in place of papermill's own notes.

    Those speak of an exception whatever happened, and shout. The tag is theirs, so that papermill takes ours out too.
    """
    notebook["cells"] = [cell for cell in notebook["cells"] if not is_label(cell)]
    if status != "ok":
        note = {"cell_type": "markdown", "metadata": {"tags": [LABEL]}, "source": f"**This run: {status}.** {reason}"}
        # Cells have ids from format 4.5 on, and must not have them before.
        if notebook.get("nbformat_minor", 5) >= 5:
            note["id"] = "run-status"
        notebook["cells"].insert(0, note)


def is_label(cell: dict[str, Any]) -> bool:
    """Whether a cell is such a note."""
    return LABEL in cell["metadata"].get("tags", ())


def statuses(notebook: dict[str, Any]) -> list[str | None]:
    """Each cell's status."""
    return [cell["metadata"].get("papermill", {}).get("status") for cell in notebook["cells"]]


def failure(notebook: dict[str, Any]) -> str:
    """One sentence for the first cell that failed by an exception of its own, or "" if none did."""
    for cell in notebook["cells"]:
        if not (error := _error(cell)):
            continue
        name, text = str(error.get("ename")), str(error.get("evalue"))
        if name == "SystemExit":
            return f"{place(cell)} ended the run early by raising SystemExit({text})."
        first = next(iter(text.strip().splitlines()), "")
        return f"{place(cell)} raised {name}{': ' if first else ''}{_short(first).rstrip('.')}."
    return ""


def stopped(notebook: dict[str, Any]) -> dict[str, Any] | None:
    """The cell in which a run stopped, if one did."""
    for cell, status in zip(notebook["cells"], statuses(notebook), strict=True):
        if status == FAILED:
            return cell
    return None


def place(cell: dict[str, Any] | None) -> str:
    """A cell's name for people: its prompt and its first line of code, as in `In [3] ("x = 1 / 0")`."""
    if cell is None:
        return "The notebook"
    source = "".join(cell.get("source", ""))
    lines = [line.strip() for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    count = cell.get("execution_count")
    return f'In [{count if count is not None else " "}] ("{_short(lines[0], 60) if lines else ""}")'


def death(code: int | None) -> str:
    """How a kernel ended, from its exit code: the second half of a sentence."""
    if code is None:
        return "the kernel ended"
    if code >= 0:
        return f"the kernel ended itself with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGKILL":
        return "the kernel was killed from outside (SIGKILL; often the machine had no memory left)"
    return f"the kernel crashed ({'SIGSEGV, a segmentation fault' if name == 'SIGSEGV' else name})"


def _error(cell: dict[str, Any]) -> dict[str, Any] | None:
    return next((output for output in cell.get("outputs", ()) if output.get("output_type") == "error"), None)


def _short(text: str, length: int = _LONGEST) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
