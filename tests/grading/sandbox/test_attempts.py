"""Attacks from inside a sandbox that must come to nothing, and what must work there all the same."""

from __future__ import annotations

from typing import Any

import pytest
from sandbox_attempts import ATTEMPTS, TENSORFLOW, TOOLS, WORKS
from sandbox_talk import Talk, talking

from ampcourse.grading.sandbox import SandboxStarter

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attack_comes_to_nothing(name: str, talk: Talk, bait: dict[str, Any]) -> None:
    said = talk.run(f"BAIT = {bait!r}\n{TOOLS}\n{ATTEMPTS[name]}")
    assert said.splitlines()[-1:] == ["held"], said


@pytest.mark.parametrize("name", WORKS)
def test_honest_work_succeeds(name: str, talk: Talk) -> None:
    code, gives = WORKS[name]
    assert gives in talk.run(code)


def test_files_with_names_from_everywhere(talk: Talk) -> None:
    assert talk.run("print(open('größe/测 量.txt').read())") == "42 µ"


@pytest.mark.full
def test_tensorflow_works_inside(starter: SandboxStarter) -> None:
    with talking(starter.start({})) as talk:
        assert "2 100.0 4 True" in talk.run(TENSORFLOW, seconds=120)
