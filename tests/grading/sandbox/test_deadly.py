"""What uses up a sandbox, or ends it: contained, with the reason said, and nothing left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox_attempts import DEADLY, TOOLS
from sandbox_talk import PATIENCE, gone

from ampcourse.grading.model import Box
from ampcourse.grading.sandbox import SandboxStarter
from ampcourse.grading.settings import Settings

pytestmark = pytest.mark.sandbox

BOX = Box("01_some", {"__init__.py": b""})
STARTERS: dict[tuple[Any, ...], SandboxStarter] = {}


@pytest.fixture(scope="module", autouse=True)
def _starters() -> Iterator[None]:
    yield
    for starter in STARTERS.values():
        starter.close()
    STARTERS.clear()


def _starter(changes: dict[str, float]) -> SandboxStarter:
    key = tuple(sorted(changes.items()))
    if key not in STARTERS:
        STARTERS[key] = SandboxStarter(BOX, Settings(**changes))
    return STARTERS[key]


@pytest.mark.parametrize("name", DEADLY)
def test_what_is_too_much_is_ended_with_a_reason(name: str) -> None:
    code, changes, reason = DEADLY[name]
    # Without a kernel, which takes longer to start than all this to run.
    kernel = _starter(changes).launch({}, instead=[sys.executable, "-c", f"{TOOLS}\n{code}"])
    first = kernel.first.pid
    try:
        end = time.monotonic() + 30 * PATIENCE
        while kernel.alive() and time.monotonic() < end:
            time.sleep(0.01)
        said, why = kernel.errors(), kernel.reason()
    finally:
        kernel.stop()
    assert gone(first)
    if reason:
        assert reason in why, (why, said)
    else:
        assert said.splitlines()[-1:] == ["held"], (why, said)
