"""What a kernel sends along with its bytes: open descriptors, whose closing may take as long as their maker likes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ampcourse.grading.submission.channel import PASS_RIGHTS, Channel


def _can_refuse() -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.setsockopt(socket.SOL_SOCKET, PASS_RIGHTS, 0)
        except OSError:
            return False
    return True


@pytest.mark.skipif(not _can_refuse(), reason="Linux before 6.16 takes descriptors; the sandbox's filter has to do")
def test_descriptors_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    channel = Channel({"transport": "ipc", "ip": "k", "shell_port": 1}, "shell", "DEALER", 1000)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("k-1")
        listener.listen()
        channel.socket()
        with listener.accept()[0] as kernel, open(os.devnull, "rb") as any_file:  # noqa: PTH123
            with pytest.raises(PermissionError):
                socket.send_fds(kernel, [b"\xff"], [any_file.fileno()])
            assert kernel.send(b"\xff") == 1
    channel.close()
