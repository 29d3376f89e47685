"""Speaking to a kernel that may end while it is asked; looking at the template from outside."""

from __future__ import annotations

import contextlib
import queue
import time
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient


def last_words(kernel: Any, code: str, seconds: float) -> tuple[str, str]:
    """Run a cell to its end or the kernel's: what it printed, and the reason why it ended."""
    client = BlockingKernelClient()
    client.load_connection_info(dict(kernel.connection))
    client.start_channels()
    said, ends = [], time.monotonic() + seconds
    try:
        client.wait_for_ready(timeout=seconds)
        asked = client.execute(code, store_history=False, allow_stdin=False)
        while time.monotonic() < ends:
            with contextlib.suppress(queue.Empty):
                message = client.get_iopub_msg(timeout=0.1)
                content = message["content"]
                if message["parent_header"].get("msg_id") != asked:
                    continue
                said += [content["text"]] if message["msg_type"] == "stream" else content.get("traceback", [])
                if content.get("execution_state") == "idle":
                    break
                continue
            if not kernel.alive():
                break
    except RuntimeError:
        pass  # it ended before it was ready
    finally:
        client.stop_channels()
    return "".join(said).strip(), kernel.reason()


def below(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for one in found:
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(path.read_text(errors="replace").rpartition(")")[2].split()[1]) == one:
                    found.append(int(path.parent.name))
    return found


def server_of(pid: int) -> int:
    """The template itself, below the bubblewrap around it."""
    for one in below(pid):
        words = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
        if not words[0].endswith(b"bwrap") and any(word.endswith(b"server.py") for word in words):
            return one
    raise AssertionError("there is no template")


def memory_of(pid: int) -> bytes:
    """All that a process may write to."""
    parts = []
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if rights.startswith("rw") and "[v" not in line:
                begin, end = (int(word, 16) for word in span.split("-"))
                memory.seek(begin)
                with contextlib.suppress(OSError):
                    parts.append(memory.read(end - begin))
    return b"\n".join(parts)
