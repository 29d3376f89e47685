"""Running the documents: every bash block of a page, in order, in one folder, compared with the output shown.

A comment before a block says what is special about it: `<!-- not run: why -->`, `<!-- needs: postgresql -->`,
`<!-- before: a step of the test's own -->`, `<!-- ends with 1 -->`; several are parted by ";". A text block right after
it shows the output: each of its lines must come, in that order; `…` stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"(?:<!-- (?P<marks>[^\n]*) -->\n)?```bash\n(?P<script>.*?)^```\n(?:```text\n(?P<shown>.*?)^```\n)?", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """One bash block of a page."""

    line: int
    script: str
    shown: str
    marks: dict[str, str]

    @property
    def code(self) -> int:
        """The exit code that it must end with."""
        return next((int(mark.split()[-1]) for mark in self.marks if mark.startswith("ends with")), 0)


def blocks(page: Path) -> list[Block]:
    """The bash blocks of a page."""
    text, found = page.read_text("utf-8"), []
    for match in _BLOCK.finditer(text):
        marks = {}
        for mark in filter(None, map(str.strip, (match["marks"] or "").split(";"))):
            name, _, value = mark.partition(":")
            marks[name.strip()] = value.strip()
        found.append(Block(text[: match.start("script")].count("\n"), match["script"], match["shown"] or "", marks))
    assert len(found) == text.count("```bash\n"), "a bash block is not understood"
    return found


class Shell:
    """A terminal: where one block changes the folder, the next one begins there."""

    def __init__(self, folder: Path, home: Path, **environment: str) -> None:
        self.folder = folder
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("AMPCOURSE", "JUPYTER", "VIRTUAL_ENV"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        private = {"HOME": str(home), "AMPCOURSE_HOME": str(home), "PATH": path, "LC_ALL": "C.UTF-8"}
        self.environment = keep | private | environment

    def run(self, script: str, code: int = 0, seconds: float = 600) -> str:
        """What a script prints, stderr too."""
        left = self.folder.parent / ".where"
        told = f"trap 'pwd > \"{left}\"' EXIT\n{script}"
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", told],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds * float(os.environ.get("AMPCOURSE_PATIENCE", "1")),
            check=False,
        )
        assert ran.returncode == code, f"{script}\nended with {ran.returncode}:\n{ran.stdout[-6000:]}"
        self.folder = Path(left.read_text("utf-8").strip())
        return ran.stdout


def missing(shown: str, printed: str) -> list[str]:
    """The lines shown that were not printed in that order; however many spaces part the words."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    absent, start = [], 0
    for wanted in filter(None, (" ".join(line.split()) for line in shown.splitlines())):
        pattern = re.compile(".*".join(map(re.escape, wanted.split("…"))).replace(r"\ ", " *"))
        place = next((i for i in range(start, len(lines)) if pattern.fullmatch(lines[i])), None)
        if place is None:
            absent.append(wanted)
        else:
            start = place + 1
    return absent
