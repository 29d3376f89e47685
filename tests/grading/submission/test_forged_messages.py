"""Whatever a student's process sends: nothing raises, little is kept, and no request is answered by another's reply."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from submission_samples import Grade, handed_in, outputs

from ampcourse.exercises import check
from ampcourse.exercises.engine import Question
from ampcourse.exercises.wire import pack
from ampcourse.grading.model import Asked
from ampcourse.grading.submission.channel import Channel
from ampcourse.grading.submission.judged import judged
from ampcourse.grading.submission.observed import Observed
from ampcourse.grading.submission.session import DIED, OK, TIMEOUT, Session

KEY = b"key"
READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER\x08Identity\x00\x00\x00\x00"
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
HELLO = GREETING + bytes([4, len(READY)]) + READY


def frame(data: bytes, more: bool = True) -> bytes:
    return bytes([2 | more]) + len(data).to_bytes(8, "big") + data


def message(kind: str, parent: str, content: Any, *buffers: bytes, key: bytes = KEY) -> bytes:
    """A signed message as a kernel sends it, as bytes on the wire."""
    parts = [json.dumps(part).encode() for part in ({"msg_type": kind}, {"msg_id": parent}, {}, content)]
    signature = hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest().encode()
    frames = [b"identity", b"<IDS|MSG>", signature, *parts, *buffers]
    return b"".join(frame(one, at < len(frames) - 1) for at, one in enumerate(frames))


@contextmanager
def peer(path: Path, answer: Callable[[str], list[tuple[str, bytes]]]) -> Iterator[SimpleNamespace]:
    """A kernel that answers each request with the bytes that `answer` makes of its name: (channel, bytes)."""
    listening = {}
    for number, name in enumerate(("shell", "iopub"), 1):
        listening[name] = socket.socket(socket.AF_UNIX)
        listening[name].bind(f"{path}/k-{number}")
        listening[name].listen(1)
    open_ = SimpleNamespace(alive=True)

    def serve() -> None:
        connections = {name: each.accept()[0] for name, each in listening.items()}
        for each in connections.values():
            each.sendall(HELLO)
        got = b""
        while b'"msg_id": "' not in got or len(got.partition(b'"msg_id": "')[2]) < 32:
            got += connections["shell"].recv(65536)
        for name, data in answer(got.partition(b'"msg_id": "')[2][:32].decode()):
            connections[name].sendall(data)
        open_.connections = connections

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ports = {"shell_port": 1, "iopub_port": 2, "control_port": 3}
    info = {"transport": "ipc", "ip": f"{path}/k", "key": KEY.decode(), "signature_scheme": "hmac-sha256", **ports}
    yield SimpleNamespace(connection=info, alive=lambda: open_.alive, stop=lambda: None, reason=lambda: "", open=open_)
    thread.join(5)
    for each in (*listening.values(), *getattr(open_, "connections", {}).values()):
        each.close()


def asked(tmp_path: Path, answer: Callable[[str], list[tuple[str, bytes]]], seconds: float = 0.5) -> Any:
    seen: list[Any] = []
    with peer(tmp_path, answer) as kernel:
        session = Session(kernel)
        reply = session.ask("execute_request", {}, seconds, lambda kind, content: seen.append((kind, content)))
        session.close()
    return SimpleNamespace(reply=reply, seen=seen)


def good(name: str) -> list[tuple[str, bytes]]:
    idle = message("status", name, {"execution_state": "idle"})
    return [("shell", message("execute_reply", name, {"status": "ok"}, b"bytes")), ("iopub", idle)]


def test_a_reply_and_its_bytes_arrive(tmp_path: Path) -> None:
    found = asked(tmp_path, good, 10)
    assert (found.reply.status, found.reply.buffers, found.reply.complete) == (OK, (b"bytes",), True)


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(lambda name: message("execute_reply", "0" * 32, {"status": "ok"}), id="for another request"),
        pytest.param(lambda name: message("kernel_info_reply", name, {"status": "ok"}), id="of another type"),
        pytest.param(lambda name: message("execute_reply", name, {"status": "ok"}, key=b"guess"), id="wrongly signed"),
        pytest.param(lambda name: message("execute_reply", name, [name]), id="no object"),
        pytest.param(lambda name: message("execute_reply", name, None), id="nothing"),
        pytest.param(lambda name: frame(name.encode(), False), id="one part"),
        pytest.param(lambda name: b"\x01\x00" * 100_000 + b"\x00\x00", id="many empty parts"),
        pytest.param(lambda name: b"\x04\xff", id="half a command"),
        pytest.param(lambda name: b"", id="silence"),
    ],
)
def test_what_is_no_reply_to_this_request_is_dropped(forged: Callable[[str], bytes], tmp_path: Path) -> None:
    assert asked(tmp_path, lambda name: [("shell", forged(name))]).reply.status == TIMEOUT


def test_a_reply_among_the_outputs_is_no_reply(tmp_path: Path) -> None:
    found = asked(tmp_path, lambda name: [("iopub", message("execute_reply", name, {"status": "ok"}))])
    assert found.reply.status == TIMEOUT


def test_a_true_reply_counts_after_forged_ones(tmp_path: Path) -> None:
    def answer(name: str) -> list[tuple[str, bytes]]:
        forged = [message("execute_reply", secrets.token_hex(16), {"status": "error"}) for _ in range(500)]
        return [("shell", b"".join(forged)), ("iopub", b"".join(forged)), *good(name)]

    began = time.monotonic()
    assert asked(tmp_path, answer, 10).reply.buffers == (b"bytes",)
    assert time.monotonic() - began < 4  # what came in one piece is not left lying


def test_the_rest_of_what_is_too_large_is_read_and_the_next_message_arrives(tmp_path: Path) -> None:
    def answer(name: str) -> list[tuple[str, bytes]]:
        text = message("stream", name, {"name": "stdout", "text": "ä" * 5_000_000})
        picture = message("display_data", name, {"data": {"image/png": "A" * 9_000_000}})
        return [("iopub", text + picture), *good(name)]

    found = asked(tmp_path, answer, 20)
    (_, text), (kind, picture) = found.seen
    assert text["cut"] is True and set(text["text"]) == {"ä"} and len(text["text"]) > 100_000
    assert (kind, picture) == ("display_data", {"cut": True})
    assert found.reply.status == OK


def test_a_reply_of_countless_small_parts_is_not_parsed(tmp_path: Path) -> None:
    def answer(name: str) -> list[tuple[str, bytes]]:
        return [("shell", message("execute_reply", name, {"x": [[]] * 500_000})), good(name)[1]]

    assert asked(tmp_path, answer, 20).reply.content == {"cut": True}


def test_a_kernel_that_has_gone_is_noticed(tmp_path: Path) -> None:
    with peer(tmp_path, lambda name: []) as kernel:
        kernel.open.alive = False
        began = time.monotonic()
        assert Session(kernel).ask("execute_request", {}, 60).status == DIED
    assert time.monotonic() - began < 10


def test_the_names_of_requests_cannot_be_guessed(tmp_path: Path) -> None:
    names: list[str] = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        asked(folder, lambda name: names.append(name) or good(name))
    assert len(names[0]) == 32 and names[0][:8] != names[1][:8]


@settings(deadline=None, max_examples=200)
@given(
    pieces=st.lists(
        st.binary(max_size=40) | st.sampled_from([b"\x01\x00", b"\x02" + b"\xff" * 8, b"\x00\x05<IDS|MSG>"])
    )
)
def test_no_bytes_raise_or_pile_up(pieces: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    channel = Channel({"transport": "ipc", "ip": "/nowhere/k", "shell_port": 1}, "shell", "DEALER", 1000)
    ours.setblocking(False)
    channel._begin_with(ours)
    theirs.sendall(HELLO + b"".join(pieces))
    theirs.close()
    kept = [found for _ in range(20) for found in channel.take()]
    assert all(sum(map(len, found.frames)) <= 1000 for found in kept)
    channel.close()


# ---------------------------------------------------------------------- observations

KEYS = ["criteria", "positive", "negative", "facts", "fault", "kind", "value", "frames", "printed", "warned", "array"]
FACTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=12,
)


def _judged(observation: bytes) -> Any:
    question = Question(check.exercise("mini.double"), [1, 2])
    return judged("q", 2, Asked("mini.double", "call", (question,), 1.0), Observed((question,), (observation,)), 1)


@settings(deadline=None, max_examples=150)
@given(content=FACTS)
@pytest.mark.usefixtures("mini_answers")
def test_no_forged_facts_earn_a_point_or_raise(content: Any) -> None:
    found = _judged(pack({"criteria": content, "printed": "", "warned": ""}))
    assert found.result.score == 0
    assert float(found.outputs[-1].data["text/plain"]) == 0


@settings(deadline=None, max_examples=150)
@given(raw=st.binary(max_size=200) | st.text(max_size=50).map(lambda text: json.dumps(text).encode()))
@pytest.mark.usefixtures("mini_answers")
def test_no_bytes_earn_a_point_or_raise(raw: bytes) -> None:
    assert _judged(raw).result.score == 0


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "handle.__code__ = (lambda stream, ident, parent: None).__code__",
            id="silent",
            marks=pytest.mark.full,
        ),
        pytest.param("content['status'] = 'ok'; buffers = [b'[' * 10**6]", id="deep"),
        pytest.param("buffers = [b'9' * (50 << 20)]", id="50 MB"),
        pytest.param('buffers = [b\'{"criteria": {"positive": {"facts": {"value": NaN}}}}\']', id="NaN"),
        pytest.param("buffers = []; content = {'score': 2.0, 'missing': 5}", id="no bytes"),
        pytest.param("content = {'missing': '</script>'}; buffers = []", id="a name of its own"),
    ],
)
def test_a_forged_handler_costs_only_what_it_answers(code: str, grade: Grade) -> None:
    forged = f"""
def double(x):
    kernel = get_ipython().kernel
    def forged(stream, ident, parent):
        content, buffers, handle = {{}}, [], forged
        {code}
        kernel.session.send(stream, "ampcourse_observe_reply", content, parent, ident=ident, buffers=buffers)
    kernel.shell_handlers["ampcourse_observe"] = forged
    return 2 * x
"""
    total = "import numpy as np\nget_ipython()\ndef total(x):\n    return np.sum(x)"
    _, questions, notebook = grade(handed_in(double=forged, total=total))
    assert questions["double-check"].score == 0
    assert "</script>" not in json.dumps(outputs(notebook, "double-check"))
    assert questions["total-check"].score == 3
