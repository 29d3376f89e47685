"""Two forks of one template know nothing of each other, and nothing of the template."""

from __future__ import annotations

import ast

import pytest
from sandbox_talk import WORD, Talk, talking
from template_talk import memory_of, server_of

from ampcourse.grading.template import TemplateStarter

pytestmark = pytest.mark.sandbox

LISTENS = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
hidden = socket.socket(socket.AF_UNIX)
hidden.bind("\\0meeting-point")
hidden.listen()
named = socket.socket(socket.AF_UNIX)
named.bind("/tmp/meeting-point")
named.listen()
for folder in ("/tmp", "/dev/shm", os.environ["HOME"], os.getcwd()):
    open(f"{folder}/left-here", "w").write("x")
from multiprocessing import shared_memory
shared = shared_memory.SharedMemory("meeting", create=True, size=4096)
port = server.getsockname()[1]
print(port, os.getpid())
"""
DIALS = """
import os, socket
got = []
for family, address in ((socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_UNIX, "\\0meeting-point"),
                        (socket.AF_UNIX, "/tmp/meeting-point")):
    try:
        with socket.socket(family) as one:
            one.connect(address)
            got.append(address)
    except OSError:
        pass
got += [f for f in ("/tmp", "/dev/shm", os.environ["HOME"], os.getcwd()) if os.path.exists(f"{{f}}/left-here")]
try:
    from multiprocessing import shared_memory
    got.append(shared_memory.SharedMemory("meeting").name)
except FileNotFoundError:
    pass
print(got)
"""
SEES = """
import os
print({int(name): open(f"/proc/{name}/comm").read().strip() for name in os.listdir("/proc") if name.isdigit()})
"""
HOLDS = """
import os
kinds = set()
for name in os.listdir("/proc/self/fd"):
    try:
        text = os.readlink(f"/proc/self/fd/{name}")
    except OSError:  # that of the listing itself
        continue
    kinds.add(text.split(":")[0] if text.startswith(("pipe", "socket")) else text)
print(kinds)
"""
DRAWS = """
import os, random, secrets, tempfile, uuid
import numpy as np
print([random.random(), float(np.random.rand()), int(np.random.default_rng().integers(1 << 60)), secrets.token_hex(8),
       str(uuid.uuid4()), tempfile.mktemp(), __import__("ssl").RAND_bytes(8).hex(), os.urandom(8).hex()])
"""


def test_they_cannot_meet(forked: Talk, sibling: Talk) -> None:
    port = int(forked.run(LISTENS).split()[0])
    assert sibling.run(DIALS.format(port=port)) == "[]"


def test_each_sees_its_own_processes_alone(forked: Talk, sibling: Talk) -> None:
    for talk in (forked, sibling):
        seen = ast.literal_eval(talk.run(SEES))
        assert set(seen) >= {1}
        assert len(seen) < 6
    child = "import subprocess; child = subprocess.Popen(['sleep', '300'])"
    sibling.run(child)
    assert "sleep" in sibling.run(SEES)
    assert "sleep" not in forked.run(SEES)
    sibling.run("child.kill(); child.wait()")


def test_a_signal_to_all_reaches_nobody_else(template: TemplateStarter, sibling: Talk) -> None:
    with talking(template.start({})) as attacker:
        attacker.run("import os, signal; signal.signal(15, signal.SIG_IGN); os.kill(-1, 15); os.kill(-1, 0)")
        assert sibling.run("print(6 * 7)") == "42"
    assert template.template.alive()


def test_files_are_their_own(template: TemplateStarter, forked: Talk, sibling: Talk) -> None:
    assert sibling.run("print(open('secret.txt').read())") == WORD
    look = "import os; print(any('secret.txt' in names for _, _, names in os.walk('/home')), os.listdir('/run'))"
    assert forked.run(look) == "False ['ampcourse']"


def test_nothing_of_the_template_is_left(forked: Talk) -> None:
    look = (
        "import os, sys\n"
        "mounts = [line.split()[4] for line in open('/proc/self/mountinfo')]\n"
        "print([p for p in ('/.template', '/.room', '/old') if os.path.exists(p)],"
        " [m for m in mounts if 'template' in m or 'room' in m], '/.template' in sys.path,"
        " [os.readlink(f'/proc/self/{name}') for name in ('root', 'cwd')])"
    )
    assert forked.run(look) == "[] [] False ['/', '/home/student/work']"


def test_no_descriptor_is_left(template: TemplateStarter) -> None:
    with talking(template.start({"a.txt": b"x"})) as talk:
        found = set(ast.literal_eval(talk.run(HOLDS)))
    # The payload, the plan and the grader's process would be called memfd:... and anon_inode:[pidfd].
    assert found == {"/dev/null", "anon_inode:[eventfd]", "anon_inode:[eventpoll]", "pipe", "socket"}


def test_a_socket_of_the_template_is_not_among_its_own(forked: Talk, template: TemplateStarter) -> None:
    """The template's control socket knows a peer outside; the kernel's sockets only listen, or are accepted."""
    look = (
        "import os, socket\n"
        "paired = []\n"
        "for fd in map(int, os.listdir('/proc/self/fd')):\n"
        "    try:\n"
        "        with socket.socket(fileno=os.dup(fd)) as one:\n"
        "            if one.type == socket.SOCK_SEQPACKET: paired.append(fd)\n"
        "    except OSError:\n"
        "        pass\n"
        "print(paired)"
    )
    assert forked.run(look) == "[]"


def test_what_they_draw_differs(forked: Talk, sibling: Talk, template: TemplateStarter) -> None:
    with talking(template.start({})) as third:
        drawn = [ast.literal_eval(talk.run(DRAWS)) for talk in (forked, sibling, third)]
    for values in zip(*drawn, strict=True):
        assert len(set(values)) == 3, values


def test_the_template_never_holds_a_key(template: TemplateStarter, sibling: Talk) -> None:
    key = sibling.kernel.connection["key"].encode()
    memory = memory_of(server_of(template.template.pid))
    assert b"hmac-sha256" in memory  # what is in every kernel
    assert key not in memory
