"""Talking to one kernel that is not trusted: requests go out, and whatever comes back is read with limits.

The student's process knows the key and can send anything at any time, so a reply counts only for the one request whose
random name it carries, and only ever as bytes to be looked at. What is too large, malformed or unasked for is dropped.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import os
import secrets
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ampcourse.grading.model import Kernel
from ampcourse.grading.submission.channel import Channel, Message

OK, ERROR, TIMEOUT, DIED, FLOODED = "ok", "error", "timeout", "died", "flooded"

LARGEST_REPLY, LARGEST_OUTPUT = 20 << 20, 4 << 20
"""Bytes kept of one message on the shell channel and among the outputs."""
LARGEST_HEADER = 1 << 16
MOST_PARTS = 200_000
"""Lists, dicts and elements in one message: JSON of a few bytes each would become a hundred times its size."""
MOST_MESSAGES, MOST_BYTES = 400_000, 1 << 30
"""Outputs of one request; a cell that sends more is stopped."""
PATIENCE = float(os.environ.get("AMPCOURSE_PATIENCE") or 1)
LATE = 5.0 * PATIENCE
"""Seconds without a word, after the reply, until the rest of the outputs counts as lost."""
GRACE = 5.0 * PATIENCE
"""Seconds in which an interrupted kernel must come to rest."""

_DELIMITER = b"<IDS|MSG>"
Sink = Callable[[str, Mapping[str, Any]], None]
"""Takes the type and the content of an output message."""


@dataclass(frozen=True)
class Reply:
    """How a request ended.

    Attributes:
        status: "ok" or "error" as the kernel says; "timeout" if it never answered, "died" if its process has ended,
            "flooded" if it sent more than anybody reads.
        content: the reply's content, not to be trusted; empty if there was none.
        buffers: raw bytes that came with it.
        complete: whether the outputs came to their end.
    """

    status: str
    content: Mapping[str, Any] = field(default_factory=dict)
    buffers: tuple[bytes, ...] = ()
    complete: bool = True

    @property
    def answered(self) -> bool:
        """Whether the kernel can be used on."""
        return self.status in (OK, ERROR)


@dataclass
class _Waiting:
    """What has come so far for one request."""

    sent: str
    expects: str
    ends: float
    sink: Sink | None
    reply: Reply | None = None
    idle: bool = False
    heard: float = 0.0
    messages: int = 0
    bytes: int = 0

    def over(self, now: float) -> Reply | None:
        """How it ended; None if it has not."""
        if self.reply is not None and (self.idle or now - self.heard > LATE or now > self.ends + 4 * LATE):
            return Reply(self.reply.status, self.reply.content, self.reply.buffers, self.idle)
        if self.messages > MOST_MESSAGES or self.bytes > MOST_BYTES:
            return Reply(FLOODED)
        return Reply(TIMEOUT) if self.reply is None and now >= self.ends else None


class Session:
    """The channels to one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        key = kernel.connection["key"]
        self._key = key.encode() if isinstance(key, str) else bytes(key)
        self._digest = str(kernel.connection.get("signature_scheme", "hmac-sha256")).removeprefix("hmac-")
        hashlib.new(self._digest)
        self._name = secrets.token_hex(16)
        self._shell = Channel(kernel.connection, "shell", "DEALER", LARGEST_REPLY)
        self._outputs = self._listening()
        self._control = Channel(kernel.connection, "control", "DEALER", LARGEST_HEADER)
        self._looked, self._ends = 0.0, 0.0
        self._alive = True

    def close(self) -> None:
        """Close the channels and end the kernel."""
        for channel in (self._shell, self._outputs, self._control):
            channel.close()
        self.kernel.stop()

    def wait_until_ready(self, seconds: float) -> bool:
        """Wait until the kernel answers and its outputs arrive; False if that does not happen."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            waits = self._request("kernel_info_request", {}, left)
            while waits.reply is None or (not waits.messages and time.monotonic() - waits.heard < 0.1):
                if waits.over(time.monotonic()) or not self._step(waits, left):
                    return False
            if waits.messages:
                return True
        return False

    def ask(
        self,
        kind: str,
        content: Mapping[str, Any],
        seconds: float,
        sink: Sink | None = None,
        buffers: tuple[bytes, ...] = (),
    ) -> Reply:
        """Send one request on the shell channel and collect what belongs to it."""
        waits = self._request(kind, content, seconds, sink, buffers)
        return self._wait(waits)

    def execute(self, code: str, seconds: float, sink: Sink | None = None, **options: Any) -> Reply:
        """Run code; if it takes too long, interrupt it, and say "timeout" whether or not it then stops.

        A kernel that answers after all has `content`, and can be used on.
        """
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": False} | options
        return self.within("execute_request", content, seconds, sink)

    def within(
        self,
        kind: str,
        content: Mapping[str, Any],
        seconds: float,
        sink: Sink | None = None,
        buffers: tuple[bytes, ...] = (),
    ) -> Reply:
        """Send a request; if it takes too long, interrupt it, and say "timeout" whether or not it then stops."""
        waits = self._request(kind, content, seconds, sink, buffers)
        reply = self._wait(waits)
        if reply.status not in (TIMEOUT, FLOODED):
            return reply
        self.interrupt()
        waits.ends, waits.messages, waits.bytes = time.monotonic() + GRACE, 0, 0
        last = self._wait(waits)
        return Reply(reply.status, last.content if last.answered else {}, (), last.complete)

    def interrupt(self) -> None:
        """Ask the kernel to interrupt what it runs: a message, because a signal would end its sandbox."""
        self._control.send(self._message("interrupt_request", {}, secrets.token_hex(16)))

    def _listening(self) -> Channel:
        return Channel(self.kernel.connection, "iopub", "SUB", LARGEST_OUTPUT)

    def _request(
        self,
        kind: str,
        content: Mapping[str, Any],
        seconds: float,
        sink: Sink | None = None,
        buffers: tuple[bytes, ...] = (),
    ) -> _Waiting:
        name = secrets.token_hex(16)  # jupyter_client counts: whoever has seen one name would know the next
        self._shell.socket()
        self._shell.send([*self._message(kind, content, name), *buffers])
        return _Waiting(name, kind.removesuffix("_request") + "_reply", time.monotonic() + seconds, sink)

    def _wait(self, waits: _Waiting) -> Reply:
        while True:
            now = time.monotonic()
            if (ended := waits.over(now)) is not None:
                return ended
            if not self._step(waits, waits.ends - now if waits.reply is None else LATE):
                return Reply(DIED) if waits.reply is None else Reply(waits.reply.status, complete=False)

    def _step(self, waits: _Waiting, seconds: float) -> bool:
        """Take what arrives within a moment; False if nothing does any more: the process has ended, or its sockets."""
        if self._collect(waits, min(seconds, 0.1)):
            return True
        now = time.monotonic()
        if now - self._looked > 0.09:  # asking may cost something
            self._looked, self._alive = now, self.kernel.alive()
        if self._outputs.broken:
            self._outputs = self._listening()
        if self._shell.broken and self._alive:  # it ends, or it has closed its sockets: nothing comes any more
            self._ends = self._ends or now + 2 * PATIENCE
            return now < self._ends
        return self._alive or self._collect(waits, 0)

    def _collect(self, waits: _Waiting, seconds: float) -> bool:
        """Take what has arrived; False if there was nothing."""
        poll, channels = select.poll(), {}
        for channel in (self._shell, self._outputs, self._control):
            socket = channel.socket()
            if socket is not None:
                channels[socket.fileno()] = channel
                poll.register(socket, select.POLLIN | (select.POLLOUT if channel.wants_to_write() else 0))
        waiting = any(c.socket() is None and not c.broken for c in (self._shell, self._outputs))
        events = poll.poll(min(seconds, 0.005 if waiting else seconds) * 1000)
        found = False
        for number, _ in events:
            for message in channels[number].take():
                found = True
                self._sort(channels[number], message, waits)
        return found

    def _sort(self, channel: Channel, message: Message, waits: _Waiting) -> None:
        if channel is self._outputs:
            waits.messages += 1
            waits.bytes += message.size
        read = self._read(message, waits.sent)
        if read is None:
            return
        kind, content, buffers = read
        if channel is self._shell and kind == waits.expects and waits.reply is None:
            status = OK if content.get("status", OK) == OK else ERROR
            waits.reply, waits.heard = Reply(status, content, buffers), time.monotonic()
        elif channel is self._outputs and not waits.idle:
            waits.heard = time.monotonic()
            if kind == "status":
                waits.idle = content.get("execution_state") == "idle"
            elif waits.sink is not None:
                waits.sink(kind, content)

    def _message(self, kind: str, content: Mapping[str, Any], name: str) -> list[bytes]:
        header = {
            "msg_id": name,
            "msg_type": kind,
            "username": "grader",
            "session": self._name,
            "date": datetime.datetime.now(datetime.UTC).isoformat(),
            "version": "5.3",
        }
        parts = [json.dumps(part).encode() for part in (header, {}, {}, content)]
        return [_DELIMITER, self._sign(parts), *parts]

    def _sign(self, parts: list[bytes] | list[bytearray]) -> bytes:
        signature = hmac.new(self._key, digestmod=self._digest)
        for part in parts:
            signature.update(part)
        return signature.hexdigest().encode()

    def _read(self, message: Message, sent: str) -> tuple[str, Mapping[str, Any], tuple[bytes, ...]] | None:
        """Type, content and buffers of a message that answers this request; None for all others and what is none."""
        try:
            at = message.frames.index(_DELIMITER)
            signature, *parts = message.frames[at + 1 : at + 6]
            header, parent, _, content = parts
        except ValueError:
            return None
        if sent.encode() not in parent or max(len(header), len(parent)) > LARGEST_HEADER:
            return None
        if not message.cut and not hmac.compare_digest(signature, self._sign(parts)):
            return None
        try:
            about, answers = _json(header), _json(parent)
            kind = about.get("msg_type")
            if answers.get("msg_id") != sent or not isinstance(kind, str):
                return None
            if message.cut or len(content) > LARGEST_OUTPUT or not simple_enough(content):
                return kind, _too_large(kind, content), ()
            return kind, _json(content), tuple(bytes(frame) for frame in message.frames[at + 6 :])
        except (ValueError, TypeError, RecursionError, MemoryError):
            return None


def _too_large(kind: str, content: bytearray) -> Mapping[str, Any]:
    """What can be read of a message that was too large: the beginning of a text, whether a cell failed."""
    if kind == "stream" and content.startswith(b'{"name"'):
        start = content[: 1 << 20]
        for cut in range(12):  # it may end within an escape, or within a letter
            try:
                return {**_json(start[: len(start) - cut] + b'"}'), "cut": True}
            except ValueError:
                continue
    failed = kind.endswith("_reply") and content.startswith(b'{"status": "error"')
    return {"cut": True} | ({"status": ERROR} if failed else {})


def simple_enough(text: bytes | bytearray) -> bool:
    """Whether this JSON has few enough parts to be parsed without filling the memory."""
    return sum(text.count(sign) for sign in (b"[", b"{", b",")) <= MOST_PARTS


def _json(text: bytes | bytearray) -> dict[str, Any]:
    if not simple_enough(text):
        raise ValueError("too many parts")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError("not an object")
    return found
