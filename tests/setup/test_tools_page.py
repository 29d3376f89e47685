"""The page about the tools: its examples run as they stand, and it names every tool that there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from clone import ROOT

from ampcourse import amp

PAGE = (ROOT / "docs" / "tools.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_tool_has_a_row() -> None:
    assert set(re.findall(r"^\|[^|]+\| `(\w+)", PAGE, re.MULTILINE)) == set(amp.__all__)


def test_the_examples_run_as_they_stand_and_show_what_the_text_says(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(BLOCKS)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.returncode == 0, ran.stderr
    for said in ("low_precision_softmax", "float32: ", "'verdict': ", "within", "convert", "Cast", "policy"):
        assert said in ran.stdout, f"{said!r} is not in\n{ran.stdout}"
    assert not list(tmp_path.iterdir())
