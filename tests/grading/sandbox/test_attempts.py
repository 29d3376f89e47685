"""Attacks from inside a sandbox that must come to nothing, and what must work there all the same."""

from __future__ import annotations

from typing import Any

import pytest
from sandbox_attempts import ATTEMPTS, TOOLS
from sandbox_talk import Talk

pytestmark = pytest.mark.sandbox

WORKS = {
    "files": "import helper, os; print(helper.answer(), set(os.listdir('.')) >= {'helper.py', 'more', 'zmq.py'})",
    "writing": "open('mine.txt', 'w').write('x'); print(open('mine.txt').read())",
    "box": "import ampcourse.quiet as q; print(q.CALM, q.__file__)",
    "data": "import os; print(os.path.getsize('/course/ampcourse/_bundled/data/fashion_mnist.npz') > 1e6)",
    "shell": "!echo $HOME",
    "bash": "%%bash\necho $((6 * 7)); id -un",
    "processes": "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))",
    "sockets": "import zmq; print(zmq.Context().socket(zmq.PAIR).bind_to_random_port('tcp://127.0.0.1') > 0)",
    "figure": "import matplotlib.pyplot as p; p.plot([1, 2]); p.savefig('f.png'); print(open('f.png', 'rb').read(4))",
    "profile": "import os; print(os.environ['AMPCOURSE_PROFILE'], os.environ['PYTHONHASHSEED'], os.getcwd())",
}
GIVES = {
    "files": "42 True",
    "writing": "x",
    "box": "True /course/ampcourse/quiet.py",
    "data": "True",
    "shell": "/home/student",
    "bash": "42\nstudent",
    "processes": "[1, 2]",
    "sockets": "True",
    "figure": "b'\\x89PNG'",
    "profile": "grade 0 /home/student/work",
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attack_comes_to_nothing(name: str, talk: Talk, bait: dict[str, Any]) -> None:
    said = talk.run(f"BAIT = {bait!r}\n{TOOLS}\n{ATTEMPTS[name]}")
    assert said.splitlines()[-1:] == ["held"], said


@pytest.mark.parametrize("name", WORKS)
def test_honest_work_succeeds(name: str, talk: Talk) -> None:
    assert GIVES[name] in talk.run(WORKS[name])
