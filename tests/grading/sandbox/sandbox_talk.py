"""Speaking to a kernel, and what a hostile one would like to find on the machine."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient

PATIENCE = float(os.environ.get("AMPCOURSE_PATIENCE", "1"))
WORD = "bait-4711"


class Talk:
    """A client of one kernel."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self._client = BlockingKernelClient()
        self._client.load_connection_info(dict(kernel.connection))
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60 * PATIENCE)

    def run(self, code: str, seconds: float = 30.0) -> str:
        """Run a cell: what it printed, with the error's name and words if there was one."""
        parts: list[str] = []

        def hear(message: Mapping[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                parts.append(content["text"])
            elif message["msg_type"] == "error":
                parts.append("\n".join([f"{content['ename']}: {content['evalue']}", *content["traceback"]]))

        self._client.execute_interactive(
            code, timeout=seconds * PATIENCE, output_hook=hear, allow_stdin=False, store_history=False
        )
        return "".join(parts).strip()

    def close(self) -> None:
        self._client.stop_channels()


@contextmanager
def talking(kernel: Any) -> Iterator[Talk]:
    """The kernel is stopped at the end."""
    talk = None
    try:
        talk = Talk(kernel)
        yield talk
    finally:
        if talk is not None:
            talk.close()
        kernel.stop()


@contextmanager
def laid_out(folder: Path, course: str = "/course") -> Iterator[dict[str, Any]]:
    """Bait: files, listening sockets, a process and a variable, all with one word in them."""
    places = [
        folder / f"{WORD}.txt",
        Path("/tmp") / f"{WORD}-{os.getpid()}-{folder.name}",
        Path("/dev/shm") / f"{WORD}-{os.getpid()}-{folder.name}",
    ]
    for place in places:
        place.write_text(WORD)
    home = os.environ.get("HOME", "/root")
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind(f"\0{WORD}-{os.getpid()}-{folder.name}")
        hidden.listen()
        with socket.socket(socket.AF_UNIX) as named:
            # A path's name is short; pytest's folders are not.
            path = Path(f"/tmp/{WORD}-{os.getpid()}-{folder.name}.socket")
            named.bind(str(path))
            named.listen()
            sleeper = subprocess.Popen(["sleep", "600"], env={**os.environ, "NAME": WORD})
            try:
                yield {
                    "word": WORD,
                    "paths": [*map(str, places), str(path), str(folder), f"{home}/.ssh", f"{home}/.bashrc", *_clone()],
                    "pids": [sleeper.pid, os.getpid(), os.getppid()],
                    "port": listener.getsockname()[1],
                    "abstract": f"{WORD}-{os.getpid()}-{folder.name}",
                    "socket": str(path),
                    "course": course,
                }
            finally:
                sleeper.kill()
                sleeper.wait()
                for place in [*places, path]:
                    place.unlink(missing_ok=True)


def _clone() -> list[str]:
    root = Path(__file__).resolve().parents[3]
    return [str(path) for path in root.iterdir() if path.name != ".venv"]


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process has ended, as a zombie or altogether, within this time."""
    end = time.monotonic() + seconds * PATIENCE
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False
