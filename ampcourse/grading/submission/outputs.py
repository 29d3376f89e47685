"""What a cell printed and showed, as a notebook stores it: valid, cut by bytes and by lines, and saying so.

Text (with HTML and everything that is no picture) has `output_kib` of a cell, pictures have `PICTURES` times as much.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nbformat import NotebookNode

from ampcourse.grading.settings import Settings

PICTURES = 8
MOST_OUTPUTS = 500
LONGEST_NAME = 200
MOST_FRAMES = 60
STDERR_MARK = "[stderr] "


class Room:
    """What may still be stored of one whole notebook's outputs: bytes, and displays that can be updated later."""

    def __init__(self, settings: Settings) -> None:
        self.left = settings.notebook_mib << 20
        self.displays: dict[str, list[NotebookNode]] = {}


class Outputs:
    """Collects the outputs of one cell.

    Args:
        settings: how much is kept.
        room: what is left for the whole notebook.
        number: the cell's execution count; whatever the kernel says about that is not used.
        calm: whether text on stderr becomes marked text on stdout, because nbgrader gives nothing where there is any.
    """

    def __init__(self, settings: Settings, room: Room, number: int, calm: bool = False) -> None:
        self._most = settings.output_kib << 10
        self._most_lines = settings.output_lines
        self._room, self._number, self._calm = room, number, calm
        self.nodes: list[NotebookNode] = []
        self._spent = 0
        self.cut = False
        """Whether something was not kept."""
        self._reset()

    def _reset(self) -> None:
        gone = set(map(id, self.nodes))
        for nodes in self._room.displays.values() if gone else ():
            nodes[:] = [node for node in nodes if id(node) not in gone]
        self.nodes = []
        self._bytes, self._pictures, self._lines = self._most, self._most * PICTURES, self._most_lines
        self._room.left += self._spent
        self._spent = 0
        self._clear = False

    def take(self, kind: str, content: Mapping[str, Any]) -> None:
        """One message from the kernel; whatever it holds, nothing is raised."""
        if kind == "clear_output":
            if content.get("wait") is True:
                self._clear = True
            else:
                self._reset()
            return
        if kind not in ("stream", "display_data", "execute_result", "update_display_data", "error"):
            return
        if self._clear:
            self._reset()
        if content.get("cut") is True:
            self.cut = True
        if len(self.nodes) >= MOST_OUTPUTS or self._room.left <= 0:
            self.cut = True
        elif kind == "stream":
            self._stream(content)
        elif kind == "error":
            self._error(content)
        else:
            self._shown(kind, content)

    def stored(self) -> list[NotebookNode]:
        """The outputs, with a last line that says what was not kept, if so."""
        if not self.cut:
            return self.nodes
        says = f"[cut: {self._most >> 10:,} KiB and {self._most_lines:,} lines of a cell's output are kept]\n"
        return [*self.nodes, stream(says)]

    def drop(self, kinds: tuple[str, ...]) -> None:
        """Forget the outputs of these kinds."""
        self.nodes = [node for node in self.nodes if node.output_type not in kinds]

    # ------------------------------------------------------------------ inside

    def _fits(self, text: str) -> str:
        """As much of a text as there is room for; counts it."""
        text = clean(text)
        kept = text[: max(self._bytes, 0)]
        lines = kept.split("\n", max(self._lines, 0))
        if len(lines) > self._lines:
            kept = kept[: len(kept) - len(lines[-1])]
        size = len(kept.encode())
        if size > self._bytes:
            kept = kept.encode()[: self._bytes].decode("utf-8", "ignore")
            size = len(kept)
        self.cut = self.cut or len(kept) < len(text)
        self._bytes -= size
        self._spend(size)
        self._lines -= kept.count("\n")
        return kept

    def _stream(self, content: Mapping[str, Any]) -> None:
        text = content.get("text")
        if not isinstance(text, str) or not text:
            return
        name = "stderr" if content.get("name") == "stderr" else "stdout"
        if name == "stderr" and self._calm:
            name, text = "stdout", "".join(STDERR_MARK + line for line in text.splitlines(keepends=True))
        if not (kept := self._fits(text)):
            return
        last = self.nodes[-1] if self.nodes else None
        if last is not None and last.output_type == "stream" and last.name == name:
            last.text += kept
        else:
            self.nodes.append(stream(kept, name))

    def _error(self, content: Mapping[str, Any]) -> None:
        frames = content.get("traceback")
        frames = [frame for frame in frames if isinstance(frame, str)] if isinstance(frames, list) else []
        if len(frames) > MOST_FRAMES:
            frames = [*frames[: MOST_FRAMES // 2], "...", *frames[-MOST_FRAMES // 2 :]]
        name, says = (str(content.get(key, ""))[: 10 * LONGEST_NAME] for key in ("ename", "evalue"))
        self._bytes, self._lines = max(self._bytes, 8192), max(self._lines, 100)  # the error is never what is cut away
        kept = [self._fits(frame) for frame in frames]
        self.nodes.append(error(name[:LONGEST_NAME] or "Error", says, kept))

    def _shown(self, kind: str, content: Mapping[str, Any]) -> None:
        transient = content.get("transient")
        name = transient.get("display_id") if isinstance(transient, dict) else None
        if kind == "update_display_data":
            self._update(name, content.get("data"))
            return
        data = self._bundle(content.get("data"))
        if not data:
            return
        node = NotebookNode(output_type=kind, metadata=NotebookNode(), data=NotebookNode(data))
        if kind == "execute_result":
            node.execution_count = self._number
        if isinstance(name, str) and len(self._room.displays) < MOST_OUTPUTS:
            self._room.displays.setdefault(name[:LONGEST_NAME], []).append(node)
        self.nodes.append(node)

    def _update(self, name: Any, data: Any) -> None:
        """Put new contents into displays that are there: they take the room of the old ones."""
        nodes = self._room.displays.get(name, []) if isinstance(name, str) else []
        if not nodes:
            return
        before = self._bytes, self._pictures, self._lines, self._room.left, self._spent
        self._bytes, self._pictures, self._lines = self._most, self._most * PICTURES, self._most_lines
        if bundle := self._bundle(data):
            for node in nodes:
                node.data = NotebookNode(bundle)
        self._bytes, self._pictures, self._lines, self._room.left, self._spent = before

    def _spend(self, size: int) -> None:
        self._room.left -= size
        self._spent += size

    def _bundle(self, data: Any) -> dict[str, Any]:
        """The forms of one display that there is room for."""
        found: dict[str, Any] = {}
        for kind, value in list(data.items())[:20] if isinstance(data, dict) else ():
            if kind.startswith("application/vnd.jupyter.widget"):
                continue  # nobody can show it once the kernel has gone
            is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
            if isinstance(value, list) and all(isinstance(line, str) for line in value):
                value = "".join(value)
            if not isinstance(value, str) and not is_json:
                continue
            text = clean(value if isinstance(value, str) else _as_json(value))
            if text and self._has_room(kind, len(text)):
                found[clean(kind)[:LONGEST_NAME]] = text if isinstance(value, str) else json.loads(text)
            elif kind == "text/plain":
                found[kind] = self._fits(text)
        return found

    def _has_room(self, kind: str, size: int) -> bool:
        picture = kind.startswith("image/")
        left = min(self._pictures if picture else self._bytes, self._room.left)
        if size > left:
            self.cut = True
            return False
        self._spend(size)
        if picture:
            self._pictures -= size
        else:
            self._bytes -= size
        return True


def clean(text: str) -> str:
    """Text that can be written as UTF-8: a half of a pair, which JSON can carry, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _as_json(value: Any) -> str:
    """The value as JSON; empty if it is none that can be written, such as NaN."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return ""


def stream(text: str, name: str = "stdout") -> NotebookNode:
    """An output of text."""
    return NotebookNode(output_type="stream", name=name, text=text)


def error(name: str, says: str, traceback: list[str] | None = None) -> NotebookNode:
    """An output that nbgrader takes for no points."""
    name, says = clean(name), clean(says)
    return NotebookNode(
        output_type="error", ename=name, evalue=says, traceback=traceback or [f"{name}: {says}" if says else name]
    )


def result(score: float, number: int) -> NotebookNode:
    """The output from which nbgrader reads the points."""
    data = NotebookNode({"text/plain": repr(float(score))})
    return NotebookNode(output_type="execute_result", metadata=NotebookNode(), data=data, execution_count=number)


def shown(text: str, html: str = "") -> NotebookNode:
    """An output of ours, as text and as HTML."""
    data = NotebookNode({"text/plain": clean(text)} | ({"text/html": clean(html)} if html else {}))
    return NotebookNode(output_type="display_data", metadata=NotebookNode(), data=data)
