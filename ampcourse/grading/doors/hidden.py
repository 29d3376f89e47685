"""What of an instructor's test cells must not show in feedback: the hidden tests, and marking schemes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nbformat import NotebookNode

from ampcourse.grading.cells import about

_REGIONS = (("BEGIN HIDDEN TESTS", "END HIDDEN TESTS"), ("BEGIN MARK SCHEME", "END MARK SCHEME"))
_TELLING = 8  # characters from which on a line of a hidden test should not stand in an output


@dataclass(frozen=True)
class Hidden:
    """The hidden lines of a notebook.

    Attributes:
        cells: the text of each cell that has hidden parts, and the same without them.
        lines: the hidden lines, stripped; short ones, which stand anywhere, are left out.
    """

    cells: dict[str, str]
    lines: frozenset[str]

    def without(self, source: str) -> str:
        """A cell's text without its hidden parts."""
        return self.cells.get(source.strip(), _split(source)[0])

    def here(self, source: str) -> bool:
        """Whether this cell's text has hidden parts."""
        return source.strip() in self.cells or bool(_split(source)[1])

    def inside(self, texts: Iterable[str]) -> bool:
        """Whether a hidden line stands in one of these texts, whatever spaces are in it."""
        wanted = ["".join(line.split()) for line in self.lines]
        dense = ["".join(text.split()) for text in texts] if wanted else []
        return any(line in text for text in dense for line in wanted)


def hidden_of(*notebooks: NotebookNode) -> Hidden:
    """The hidden parts of the given notebooks' locked cells."""
    cells, lines = {}, set()
    for cell in (cell for notebook in notebooks for cell in notebook.cells if _locked(cell)):
        shown, hidden = _split(cell.source)
        if hidden:
            cells[cell.source.strip()] = shown
            lines |= {line for line in map(str.strip, hidden) if len(line) >= _TELLING and not line.startswith("#")}
    return Hidden(cells, frozenset(lines))


def _locked(cell: NotebookNode) -> bool:
    kind = about(cell)
    return bool(kind.get("task") or (not kind.get("solution") and (kind.get("grade") or kind.get("locked"))))


def _split(source: str) -> tuple[str, list[str]]:
    """A cell's text without the hidden regions, and the lines in them. A region without an end reaches to the last."""
    shown, hidden, end = [], [], ""
    for line in source.splitlines():
        begun = next((last for first, last in _REGIONS if first in line), "")
        if end:
            end = "" if end in line else end
            hidden.append(line)
        elif begun:
            end = begun
            hidden.append(line)
        else:
            shown.append(line)
    return "\n".join(shown), hidden
