"""One sandbox with a kernel for all that leaves it alive; starters for the rest."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sandbox_talk import WORD, Talk, laid_out, talking

from ampcourse.grading.model import Box
from ampcourse.grading.sandbox import SandboxStarter, probe
from ampcourse.grading.settings import Settings

BOX = Box("01_some", {"__init__.py": b'"""The box."""\n', "quiet.py": b"CALM = True\n"}, data=True)
FILES = {"helper.py": b"def answer():\n    return 42\n", "more/table.csv": b"1,2\n", "zmq.py": b"raise SystemExit\n"}
FILES["größe/测 量.txt"] = "42 µ".encode()


@functools.cache
def _missing() -> str:
    return " ".join(probe().reasons)


@pytest.fixture(autouse=True)
def _isolation(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("sandbox") and _missing():
        pytest.skip(_missing())


@pytest.fixture(scope="session")
def starter() -> Iterator[SandboxStarter]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMPCOURSE_TOKEN", WORD)  # as bubblewrap's parent has it
        starter = SandboxStarter(BOX, Settings(disk_mib=32, file_mib=16, memory_mib=2048))
        try:
            yield starter
        finally:
            starter.close()


@pytest.fixture(scope="session")
def bait(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with laid_out(tmp_path_factory.mktemp("grader")) as bait:
        yield bait


@pytest.fixture(scope="session")
def talk(starter: SandboxStarter) -> Iterator[Talk]:
    with talking(starter.start(FILES)) as talk:
        yield talk
