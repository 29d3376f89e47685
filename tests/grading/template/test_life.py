"""The template's own life: it loads without threads, outlasts its kernels, is made anew, and ends with the grader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sandbox_talk import PATIENCE, gone, talking
from template_talk import below, server_of

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox import choose_starter
from ampcourse.grading.settings import Settings
from ampcourse.grading.template import TemplateStarter, process

pytestmark = pytest.mark.sandbox

PLAIN = Box("01_some", {"__init__.py": b""})


def _open(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _held() -> tuple[int, int]:
    """Descriptors and mounts of this process."""
    return _open(os.getpid()), len(Path("/proc/self/mountinfo").read_text().splitlines())


def test_two_hundred_starts_leave_nothing() -> None:
    starter = TemplateStarter(PLAIN, Settings())
    try:
        for _ in range(5):
            starter.start({"a.txt": b"x"}).stop()
        server = server_of(starter.template.pid)
        before = _settled(server)
        for _ in range(200):
            kernel = starter.start({"a.txt": b"x"})
            kernel.stop()
        assert _settled(server) == before
        assert len(below(starter.template.pid)) == 2  # bubblewrap and the template
        assert [path.name for path in starter._folder.path.iterdir() if path.is_dir()] == []
    finally:
        starter.close()


def _settled(server: int) -> tuple[int, ...]:
    """What is held here and by the template, seen the least of several times: the watchdog opens files for a moment."""
    seen = []
    for _ in range(20):
        seen.append((*_held(), _open(server), _mounts(server), len(below(server))))
        time.sleep(0.1)
    return min(seen)


def _mounts(pid: int) -> int:
    return len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())


def test_a_template_that_was_killed_is_made_anew() -> None:
    starter = TemplateStarter(PLAIN, Settings())
    try:
        kernel = starter.start({})
        os.kill(starter.template.pid, signal.SIGKILL)
        assert gone(kernel.pid)
        assert not kernel.alive()
        kernel.stop()
        with talking(starter.start({})) as talk:
            assert talk.run("print(1 + 1)") == "2"
    finally:
        starter.close()


def test_with_the_grader_all_ends(tmp_path: Path) -> None:
    code = (
        "import time\n"
        "from ampcourse.grading.model import Box\n"
        "from ampcourse.grading.settings import Settings\n"
        "from ampcourse.grading.template import TemplateStarter\n"
        "starter = TemplateStarter(Box('x', {'__init__.py': b''}), Settings())\n"
        "kernels = [starter.start({}) for _ in range(2)]\n"
        "print(starter.template.pid, *(kernel.pid for kernel in kernels), flush=True)\n"
        "time.sleep(600)\n"
    )
    grader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        pids = [int(word) for word in grader.stdout.readline().split()]
        all_of_them = {pid for start in pids for pid in below(start)}
        assert len(all_of_them) >= 5
        grader.kill()
        grader.wait()
        assert all(gone(pid) for pid in all_of_them)
    finally:
        grader.kill()
        grader.wait()
        grader.stdout.close()


def test_from_many_threads_at_once() -> None:
    starter = TemplateStarter(PLAIN, Settings())
    failed: list[BaseException] = []

    def grade() -> None:
        try:
            for _ in range(10):
                starter.start({}).stop()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=grade) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        starter.close()
    assert not failed
    with pytest.raises(GradingError, match="closed"):
        starter.start({})


THREAD = b"import threading, time\nthreading.Thread(target=time.sleep, args=(999,), daemon=True).start()\n"
SHARED = b"import mmap\npage = mmap.mmap(-1, 4096)\n"


@pytest.mark.parametrize(("module", "says"), [(THREAD, "threads run"), (SHARED, "share memory")])
def test_what_forks_would_lose_or_share_is_refused(module: bytes, says: str) -> None:
    box = Box("x", {"__init__.py": b"", "odd.py": module}, preload=("ampcourse.odd",))
    with pytest.raises(GradingError, match=says):
        TemplateStarter(box, Settings())


def test_a_file_that_leads_out_is_refused(template: TemplateStarter) -> None:
    for name in ("../out.txt", "/etc/passwd"):
        with pytest.raises(GradingError, match="leads out"):
            template.start({name: b"x"})


def test_without_bubblewrap_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GradingError, match="bubblewrap"):
        TemplateStarter(PLAIN, Settings())


AS_A_USER = """
mkdir "$1/python" && mount --bind "$3" "$1/python" && mount -t tmpfs -o mode=755 tmpfs /root &&
mkdir -p "$3" && mount --move "$1/python" "$3" &&
exec setpriv --reuid 61234 --regid 61234 --clear-groups env HOME="$1/home" TMPDIR="$1/home" PYTHONDONTWRITEBYTECODE=1 \
    "$2" -c "$4" "$5" "$6"
"""


def test_where_proc_is_covered_a_fresh_sandbox_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in many containers: the kernel then lets nobody mount a /proc of his own."""
    as_it_is = process.arguments

    def covered(*given: Any) -> list[str]:
        words = as_it_is(*given)
        at = words.index("--remount-ro")
        return [*words[:at], "--tmpfs", "/proc/sys", *words[at:]]

    monkeypatch.setattr(process, "arguments", covered)
    with pytest.raises(GradingError, match="No kernel can be forked from a template here: .*mount"):
        TemplateStarter(PLAIN, Settings())
    starter = choose_starter(PLAIN, Settings())
    try:
        assert starter.name == "sandbox"
    finally:
        starter.close()


USERS_CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from sandbox_talk import talking
from ampcourse.grading.model import Box
from ampcourse.grading.settings import Settings
from ampcourse.grading.template import TemplateStarter
starter = TemplateStarter(Box("x", {"__init__.py": b""}), Settings(processes=40))
with talking(starter.start({})) as talk:
    print(talk.run("import os; print(os.getuid(), open('/proc/self/status').read().count('Seccomp:\\t2'))"))
    print(talk.run(sys.argv[2]))
starter.close()
"""
FORKS = """
import os, time
count = 0
try:
    while count < 99:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        count += 1
except OSError:
    print(count < 40)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_gets_the_same() -> None:
    if not sys.base_prefix.startswith("/root/"):
        pytest.skip("Python does not lie in root's home here; the other tests run as that user")
    place = Path("/tmp") / f"ampcourse-user-{os.getpid()}"  # where that user can go
    home = place / "home"
    home.mkdir(parents=True)
    try:
        os.chown(home, 61234, 61234)
        given = [Path(__file__).parents[1] / "sandbox", FORKS]
        names = [place, sys.executable, sys.base_prefix, USERS_CODE]
        command = ["unshare", "-m", "bash", "-c", AS_A_USER, "bash", *names, *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120 * PATIENCE)
        assert done.stdout.splitlines() == ["1000 1", "True"], done.stderr[-2000:]
    finally:
        subprocess.run(["rm", "-rf", place], check=False)
