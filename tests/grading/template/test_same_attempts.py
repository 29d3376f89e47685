"""The attacks on a fresh sandbox, and what must work there, in forks of a template."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox_attempts import ATTEMPTS, DEADLY, TOOLS, WORKS
from sandbox_talk import PATIENCE, Talk, gone
from template_talk import last_words

from ampcourse.grading.model import Box
from ampcourse.grading.settings import Settings
from ampcourse.grading.template import TemplateStarter

pytestmark = pytest.mark.sandbox

PLAIN = Box("01_some", {"__init__.py": b""})
STARTERS: dict[tuple[Any, ...], TemplateStarter] = {}


@pytest.fixture(scope="module", autouse=True)
def _starters() -> Iterator[None]:
    yield
    for starter in STARTERS.values():
        starter.close()
    STARTERS.clear()


def _starter(changes: dict[str, float]) -> TemplateStarter:
    key = tuple(sorted(changes.items()))
    if key not in STARTERS:
        STARTERS[key] = TemplateStarter(PLAIN, Settings(**changes))
    return STARTERS[key]


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attack_comes_to_nothing(name: str, forked: Talk, bait: dict[str, Any]) -> None:
    said = forked.run(f"BAIT = {bait!r}\n{TOOLS}\n{ATTEMPTS[name]}")
    assert said.splitlines()[-1:] == ["held"], said


@pytest.mark.parametrize("name", WORKS)
def test_honest_work_succeeds(name: str, forked: Talk) -> None:
    code, gives = WORKS[name]
    assert gives in forked.run(code)


@pytest.mark.parametrize("name", DEADLY)
def test_what_is_too_much_is_ended_with_a_reason(name: str) -> None:
    code, changes, reason = DEADLY[name]
    # A kernel is a few processes and threads itself, and holds some memory already.
    more = {"memory_mib": 100, "start_seconds": 1, "processes": 100 if "memory_mib" in changes else 0}
    changes = {key: value + more.get(key, 0) for key, value in changes.items()}
    kernel = _starter(changes).start({})
    code = f"{TOOLS}\n{code}"
    if not reason:  # the kernel itself must still be able to say what came of it
        code = (
            "import subprocess, sys\n"
            f"subprocess.call([sys.executable, '-c', {code!r}], stdout=open('/tmp/said', 'w'))\n"
            "print(open('/tmp/said').read())"
        )
    try:
        said, why = last_words(kernel, code, 30 * PATIENCE)
    finally:
        kernel.stop()
    assert gone(kernel.pid)
    if reason:
        assert _adapted(reason) in why, (why, said)
    else:
        assert said.splitlines()[-1:] == ["held"], (why, said)


def _adapted(reason: str) -> str:
    return re.sub(r"\d+(?= MiB)", lambda found: str(int(found[0]) + 100), reason)


def test_each_death_leaves_the_template(template: TemplateStarter, sibling: Talk) -> None:
    before = template.template.pid
    sibling.run("here = 4711")
    for code in ("import os; os._exit(0)", "import ctypes; ctypes.string_at(1)", "import os; os.kill(os.getpid(), 9)"):
        kernel = template.start({})
        last_words(kernel, code, 30 * PATIENCE)
        assert gone(kernel.pid)
        kernel.stop()
    time.sleep(0.1)
    assert sibling.run("print(here)") == "4711"
    assert template.template.pid == before
    assert template.template.alive()
