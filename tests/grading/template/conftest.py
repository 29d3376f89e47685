"""Kernels forked from one template, attacked by the same list as those in sandboxes of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "sandbox"))

from sandbox_talk import WORD, Talk, laid_out, talking

from ampcourse.grading.model import Box
from ampcourse.grading.settings import Settings
from ampcourse.grading.template import TemplateStarter

BOX = Box(
    "01_some",
    {"__init__.py": b'"""The box."""\n', "quiet.py": b"CALM = True\n"},
    preload=("numpy", "matplotlib.pyplot"),
    data=True,
)
FILES = {"helper.py": b"def answer():\n    return 42\n", "more/table.csv": b"1,2\n", "zmq.py": b"raise SystemExit\n"}


@pytest.fixture(scope="session")
def template() -> Iterator[TemplateStarter]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMPCOURSE_TOKEN", WORD)  # as bubblewrap's parent has it
        starter = TemplateStarter(BOX, Settings(disk_mib=32, file_mib=16, memory_mib=2048))
        try:
            yield starter
        finally:
            starter.close()


@pytest.fixture(scope="session")
def bait(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with laid_out(tmp_path_factory.mktemp("grader")) as bait:
        yield bait


@pytest.fixture(scope="session")
def forked(template: TemplateStarter) -> Iterator[Talk]:
    with talking(template.start(FILES)) as talk:
        yield talk


@pytest.fixture(scope="session")
def sibling(template: TemplateStarter) -> Iterator[Talk]:
    with talking(template.start({"secret.txt": WORD.encode()})) as talk:
        yield talk
