"""One connection to a socket of a kernel that is not trusted: ZMTP 3.0, the part that a client needs.

Not libzmq, because that keeps whatever a peer sends until a message is complete, however many parts it has, and for
good ends a connection on which one part was too large. Here a message never holds more than `largest` bytes: the rest
of it is read and dropped, so that neither a flood nor a forged message fills the memory of the process that grades.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MORE, LONG, COMMAND = 1, 2, 4
FEWEST_FRAMES, MOST_FRAMES = 6, 24
"""Parts of a Jupyter message."""
PIECE = 1 << 17
AGAIN = 0.005
"""Seconds between two tries to connect."""
PASS_RIGHTS = 83
"""Linux's SO_PASSRIGHTS: whether a peer may send open descriptors along, since 6.16."""

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_READY = b"\x05READY\x0bSocket-Type" + b"%b" + b"\x08Identity" + bytes(4)


@dataclass
class Message:
    """The parts of one message, as far as they were kept.

    Attributes:
        frames: the parts; the last one kept may be cut.
        size: bytes that were sent.
        cut: whether something was not kept.
    """

    frames: list[bytearray] = field(default_factory=list)
    size: int = 0
    cut: bool = False


class Broken(Exception):
    """The peer does not speak the protocol, or has gone."""


class Channel:
    """A socket "shell", "control" or "iopub" of a kernel. Never blocks.

    Args:
        info: Jupyter's connection info.
        name: of the channel.
        kind: "DEALER" or "SUB".
        largest: bytes kept of one message.
    """

    def __init__(self, info: Mapping[str, Any], name: str, kind: str, largest: int) -> None:
        port = info[f"{name}_port"]
        ipc = info.get("transport", "tcp") == "ipc"
        self._address = f"{info['ip']}-{port}" if ipc else (info["ip"], int(port))
        self._family = socket.AF_UNIX if ipc else socket.AF_INET
        self._kind, self._largest = kind.encode(), largest
        self._socket: socket.socket | None = None
        self._next_try = 0.0
        self._hello, self._out, self._met = b"", bytearray(), False
        self._arrived: list[Message] = []
        self.broken = False
        """Whether it was connected and is no more."""

    def close(self) -> None:
        """Let go of the socket."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self.broken = None, True

    def socket(self) -> socket.socket | None:
        """The socket to wait for; None while there is nobody to connect to."""
        if self._socket is None and not self.broken and time.monotonic() >= self._next_try:
            self._connect()
        return self._socket

    def send(self, frames: list[bytes]) -> None:
        """Send one message, as soon as the connection stands."""
        for frame in frames[:-1]:
            self._out += _framed(frame, MORE)
        self._out += _framed(frames[-1], 0)
        self._write()

    def wants_to_write(self) -> bool:
        """Whether something waits to be sent that can be sent."""
        return bool(self._hello) or (self._met and bool(self._out))

    def take(self) -> list[Message]:
        """Read one piece of what has arrived: the messages that it completes."""
        self._read()
        arrived, self._arrived = self._arrived, []
        return arrived

    # ------------------------------------------------------------------ the connection

    def _connect(self) -> None:
        self._next_try = time.monotonic() + AGAIN
        new = socket.socket(self._family, socket.SOCK_STREAM)
        with contextlib.suppress(OSError):  # an older kernel; what is not asked for is closed there as soon as it comes
            new.setsockopt(socket.SOL_SOCKET, PASS_RIGHTS, 0)
        new.settimeout(1.0)  # within one machine a connection stands at once, or nobody listens
        try:
            new.connect(self._address)
        except OSError:
            new.close()
            return
        new.setblocking(False)
        self._begin_with(new)

    def _begin_with(self, connected: socket.socket) -> None:
        """Say hello on a connection that stands."""
        self._socket, self._met = connected, False
        ready = _READY.replace(b"%b", len(self._kind).to_bytes(4, "big") + self._kind)
        self._hello = _GREETING + bytes([COMMAND, len(ready)]) + ready
        self._out[:0] = _framed(b"\x01", 0) if self._kind == b"SUB" else b""
        self._buffer, self._greeted = bytearray(), False
        self._message, self._kept = Message(), 0
        self._flags, self._left, self._inside = 0, 0, False
        self._write()

    def _write(self) -> None:
        if self._socket is None:
            return
        try:
            if self._hello:
                self._hello = self._hello[self._socket.send(self._hello) :]
            if not self._hello and self._met and self._out:
                del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def _read(self) -> None:
        """Read one piece, and take apart what is complete."""
        self._write()
        if self._socket is None:
            return
        try:
            piece = self._socket.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self.close()
            return
        self._buffer += piece
        try:
            self._take_apart()
        except Broken:
            self.close()

    # ------------------------------------------------------------------ the protocol

    def _take_apart(self) -> None:
        at, size = 0, len(self._buffer)
        if not self._greeted:
            if size < len(_GREETING):
                return
            if self._buffer[0] != 0xFF or self._buffer[10] < 3:
                raise Broken
            at, self._greeted = len(_GREETING), True
        while at < size:
            if not self._inside:
                flags = self._buffer[at]
                head = 9 if flags & LONG else 2
                if size - at < head:
                    break
                self._begin(flags, int.from_bytes(self._buffer[at + 1 : at + head], "big"))
                at += head
            piece = self._buffer[at : at + self._left]
            at += len(piece)
            self._continue(piece)
        del self._buffer[:at]

    def _begin(self, flags: int, length: int) -> None:
        self._flags, self._left, self._inside = flags, length, True
        if not flags & COMMAND:
            self._message.size += length
            if len(self._message.frames) < MOST_FRAMES:
                self._message.frames.append(bytearray())
            else:
                self._message.cut = True

    def _continue(self, piece: bytearray) -> None:
        """Add to the present part; at its end, and at that of the message, go on to the next."""
        self._left -= len(piece)
        message, command = self._message, self._flags & COMMAND
        if not command and not message.cut:
            room = self._largest - self._kept
            message.frames[-1] += piece[:room]
            self._kept += min(len(piece), room)
            message.cut = len(piece) > room
        if self._left:
            return
        self._inside = False
        if command and not self._met:
            self._met = True
            self._write()
        if not command and not self._flags & MORE:
            if len(message.frames) >= FEWEST_FRAMES:
                self._arrived.append(message)
            self._message, self._kept = Message(), 0


def _framed(frame: bytes, flags: int) -> bytes:
    if len(frame) < 256:
        return bytes([flags, len(frame)]) + frame
    return bytes([flags | LONG]) + len(frame).to_bytes(8, "big") + frame
