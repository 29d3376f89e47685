"""The five sockets on which a kernel is spoken to: opened here, in a folder closed to all others, and handed in."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ampcourse.grading.model import GradingError

PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
LONGEST = 107  # bytes of a Unix socket's path


class Channels:
    """Sockets that listen, before there is anybody to answer.

    Args:
        folder: ours alone; the sockets' files come to lie in it.
        key: of the messages; None makes one.
    """

    def __init__(self, folder: Path, key: str | None = None) -> None:
        self._base = folder / "k"
        longest = f"{self._base}-{len(PORTS)}"
        if len(longest.encode()) > LONGEST:
            raise GradingError(f"The folder for temporary files, '{folder.parent}', has too long a name: set TMPDIR.")
        self.info: Mapping[str, Any] = {
            "transport": "ipc",
            "ip": str(self._base),
            **{port: number for number, port in enumerate(PORTS, 1)},
            "key": secrets.token_hex(32) if key is None else key,
            "signature_scheme": "hmac-sha256",
            "kernel_name": "python3",
        }
        self._listening: list[socket.socket] = []
        try:
            for number in range(1, len(PORTS) + 1):
                one = socket.socket(socket.AF_UNIX)
                self._listening.append(one)
                one.bind(f"{self._base}-{number}")
                one.listen(64)
        except OSError:
            self.close()
            raise

    @property
    def descriptors(self) -> dict[int, int]:
        """By the channel's number: what to hand to the kernel."""
        return {number: one.fileno() for number, one in enumerate(self._listening, 1)}

    def handed_over(self) -> None:
        """Close our ends, so that dialling fails once the kernel is gone."""
        for one in self._listening:
            one.close()

    def close(self) -> None:
        """Close and remove all; may be called again."""
        self.handed_over()
        for number in range(1, len(PORTS) + 1):
            with contextlib.suppress(OSError):
                Path(f"{self._base}-{number}").unlink()
