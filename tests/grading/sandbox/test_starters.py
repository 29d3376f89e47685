"""A sandbox's life: it starts at once, bothers nobody, and ends with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from sandbox_talk import PATIENCE, gone, talking

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox import SandboxStarter, UnsafeStarter
from ampcourse.grading.sandbox.counting import Namespace
from ampcourse.grading.sandbox.folders import PREFIX, OwnFolder
from ampcourse.grading.sandbox.kernel import SandboxKernel
from ampcourse.grading.sandbox.watch import watch
from ampcourse.grading.settings import Settings

pytestmark = pytest.mark.sandbox

BOX = Box("01_some", {"__init__.py": b"", "quiet.py": b"CALM = 1\n"})
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.close(1); os.close(2)
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep({0})
"""


def _python(starter: SandboxStarter, code: str, *words: str) -> SandboxKernel:
    kernel = starter.launch({}, instead=[sys.executable, "-c", code, *words])
    assert kernel.wait_ready(30 * PATIENCE) == "ready", kernel.errors()
    return kernel


def _pids(kernel: SandboxKernel, least: int) -> list[int]:
    """The machine's numbers of all processes in a sandbox, once there are so many."""
    end = time.monotonic() + 10 * PATIENCE
    space = Path(f"/proc/{kernel.first.pid}/ns/pid").readlink()
    while time.monotonic() < end:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "ns/pid").readlink() == space:
                    found.append(int(entry.name))
            except OSError:
                continue
        if len(found) >= least:
            return found
        time.sleep(0.02)
    raise AssertionError(found)


def _ended(kernel: SandboxKernel) -> bool:
    end = time.monotonic() + 10 * PATIENCE
    while kernel.alive() and time.monotonic() < end:
        time.sleep(0.01)
    return not kernel.alive()


def test_stop_ends_what_hides_from_it(starter: SandboxStarter) -> None:
    kernel = _python(starter, DAEMON.format(600))
    pids = _pids(kernel, 3)
    folder = Path(kernel.connection["ip"]).parent
    began = time.monotonic()
    kernel.stop()
    assert time.monotonic() - began < 5 * PATIENCE
    kernel.stop()
    assert all(gone(pid) for pid in pids)
    assert not folder.exists()
    assert not kernel.alive() and kernel.reason() == "it was stopped"


def test_what_stays_behind_ends_with_the_kernel(starter: SandboxStarter) -> None:
    kernel = _python(starter, DAEMON.format(0.3))
    pids = _pids(kernel, 3)
    assert all(gone(pid) for pid in pids) and _ended(kernel)
    assert kernel.reason() == "it ended by itself, with exit code 0"
    kernel.stop()


def test_nothing_inside_is_the_machines_user_0(starter: SandboxStarter) -> None:
    kernel = _python(starter, DAEMON.format(600))
    try:
        for pid in set(_pids(kernel, 3)) - {kernel.first.pid}:
            uids = [line.split()[1:] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "Uid:" in line]
            assert "0" not in uids[0]
    finally:
        kernel.stop()


def test_a_fork_bomb_leaves_others_alone(starter: SandboxStarter) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    with talking(starter.start({})) as other:
        kernel = _python(starter, bomb)
        try:
            time.sleep(0.5)
            space = Namespace(kernel.first.pid)
            assert 10 < space.used().processes <= 128 + 2
            space.close()
            assert "42" in other.run("print(__import__('subprocess').getoutput('echo $((6*7))'))")
            assert "True" in other.run("import os; print(len([n for n in os.listdir('/proc') if n.isdigit()]) < 8)")
        finally:
            kernel.stop()


def test_a_kernel_outlives_the_thread_that_started_it(starter: SandboxStarter) -> None:
    kernels: list[SandboxKernel] = []
    thread = threading.Thread(target=lambda: kernels.append(_python(starter, "import time; time.sleep(600)")))
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert kernels[0].alive()
    kernels[0].stop()


GRADER = """
import sys, time
from ampcourse.grading.model import Box
from ampcourse.grading.sandbox.watch import watch
from ampcourse.grading.settings import Settings
from ampcourse.grading.sandbox import SandboxStarter
starter = SandboxStarter(Box("x", {"__init__.py": b""}), Settings())
kernel = starter.launch({}, instead=[sys.executable, "-c", sys.argv[1]])
print(kernel.first.pid, kernel.process.pid, flush=True)
time.sleep(600)
"""


def test_nothing_outlives_a_grader_that_was_killed() -> None:
    grader = subprocess.Popen([sys.executable, "-c", GRADER, DAEMON.format(600)], stdout=subprocess.PIPE, text=True)
    assert grader.stdout is not None
    first, outer = map(int, grader.stdout.readline().split())
    left = [path for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if path.stat().st_uid == os.geteuid()]
    grader.kill()
    grader.wait()
    grader.stdout.close()
    assert gone(first) and gone(outer)
    OwnFolder().close()  # the next grader sweeps
    remaining = [path for path in left if path.exists()]
    assert len(remaining) < len(left)


def test_living_graders_keep_their_folders() -> None:
    mine = OwnFolder()
    OwnFolder().close()
    assert mine.path.exists()
    mine.close()
    mine.close()
    assert not mine.path.exists()


def test_a_grader_that_ends_takes_its_folder_along() -> None:
    code = (
        "import os\nfrom ampcourse.grading.sandbox.folders import OwnFolder\n"
        "mine = OwnFolder()\nif os.fork() == 0:\n    mine.close()\n    os._exit(0)\nos.wait()\n"
        "print(mine.path.exists(), mine.path)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said[0] == "True" and not Path(said[1]).exists()


def test_the_watchdog_outlives_what_goes_wrong(starter: SandboxStarter) -> None:
    def fail(reason: str) -> None:
        raise RuntimeError(reason)

    kernels = [_python(starter, "import time; time.sleep(600)") for _ in range(2)]
    watch(kernels[0].first.pid, Settings(memory_mib=1), fail)
    time.sleep(0.3)
    reasons: list[str] = []
    watch(kernels[1].first.pid, Settings(memory_mib=1), reasons.append)
    end = time.monotonic() + 10 * PATIENCE
    while not reasons and time.monotonic() < end:
        time.sleep(0.01)
    assert reasons == ["it used more than 1 MiB of memory"]
    assert len([one for one in threading.enumerate() if one.name == "sandbox watchdog"]) == 1
    for kernel in kernels:
        kernel.stop()
        kernel.kill("too late")
        assert kernel.reason() == "it was stopped"


def test_descriptors_come_back(starter: SandboxStarter) -> None:
    def count() -> int:
        counts = []
        for _ in range(5):  # the watchdog may just be looking at another one
            time.sleep(0.02)
            counts.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208
        return min(counts)

    _python(starter, "1").stop()
    before = count()
    for _ in range(3):
        _python(starter, "1").stop()
    assert count() == before


@pytest.mark.parametrize("name", ["../out", "/etc/x", "a/../../b", "", "a\0b"])
def test_a_file_that_leads_out_is_refused(starter: SandboxStarter, name: str) -> None:
    with pytest.raises(GradingError, match="leads out"):
        starter.start({name: b""})


def test_close_ends_all() -> None:
    starter = SandboxStarter(BOX, Settings())
    kernel = _python(starter, "import time; time.sleep(600)")
    pid, folder = kernel.first.pid, Path(kernel.connection["ip"]).parents[1]
    starter.close()
    starter.close()
    assert gone(pid) and not folder.exists()
    with pytest.raises((GradingError, OSError)):
        starter.start({})


def test_a_flood_on_stderr_neither_blocks_nor_fills(starter: SandboxStarter) -> None:
    flood = "import os\nfor _ in range(3000):\n    try: os.write(2, b'x' * 4096)\n    except OSError: pass"
    kernel = _python(starter, flood)
    assert gone(kernel.first.pid)
    assert len(kernel.errors()) <= 1 << 16
    kernel.stop()


def test_the_unsafe_starter_still_limits_and_tidies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMPCOURSE_TOKEN", "secret")
    starter = UnsafeStarter(BOX, Settings(memory_mib=400))
    try:
        with talking(starter.start({"a.txt": b"here"})) as talk:
            assert "here" in talk.run("print(open('a.txt').read())")
            assert "1 None" in talk.run(
                "import os, ampcourse.quiet as q; print(q.CALM, os.environ.get('AMPCOURSE_TOKEN'))"
            )
            child = talk.run("import subprocess as s; print(s.Popen(['sleep', '600'], start_new_session=True).pid)")
            kernel = talk.kernel
            assert kernel.alive() and kernel.reason() == ""
        assert gone(int(child)) and not kernel.alive()
        with talking(starter.start({})) as talk:
            os.kill(talk.kernel.process.pid, signal.SIGKILL)
            assert _ended(talk.kernel)
            assert talk.kernel.reason() == "it was ended by signal 9 (SIGKILL)"
    finally:
        starter.close()
