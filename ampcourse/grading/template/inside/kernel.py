"""The Jupyter kernel of one submission, in a fork of the template: its own randomness, files, key and sockets."""

# ruff: noqa: PTH123

from __future__ import annotations

import ctypes
import importlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import ipykernel.kernelapp
import zmq
from ipykernel.heartbeat import Heartbeat
from ipykernel.iostream import IOPubThread
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from zmq.eventloop.zmqstream import ZMQStream

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
"""In the order in which the listening sockets come; the n-th has the "port" n."""
BLAS_THREADS = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads")


class _HandedIn:
    """Sockets that somebody else has bound: the kernel listens, and needs no folder for that."""

    listening: tuple[int, ...] = ()

    @classmethod
    def bind(cls, zmq_socket: Any, port: int) -> None:
        """Give the socket its descriptor; the name means nothing here."""
        zmq_socket.setsockopt(zmq.USE_FD, cls.listening[port - 1])
        zmq_socket.bind(f"ipc://kernel-{port}")


class _Heart(Heartbeat):
    def _try_bind_socket(self) -> None:
        _HandedIn.bind(self.socket, self.port)


class _Output(IOPubThread):
    """What forked children print comes over an abstract Unix socket of the kernel's own network namespace.

    The original binds a port on 127.0.0.1, for which libzmq wants to look over the network's devices.
    """

    def _setup_pipe_in(self) -> None:
        self._pipe_uuid = os.urandom(16)
        pipe_in = self.socket.context.socket(zmq.PULL)
        pipe_in.linger = 0
        self._pipe_place = f"ipc://@kernel-output-{os.urandom(8).hex()}"
        pipe_in.bind(self._pipe_place)
        self._pipe_in = ZMQStream(pipe_in, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def _setup_pipe_out(self) -> tuple[zmq.Context, zmq.Socket]:
        context = zmq.Context()
        pipe_out = context.socket(zmq.PUSH)
        pipe_out.linger = 3000
        pipe_out.connect(self._pipe_place)
        return context, pipe_out


ipykernel.kernelapp.IOPubThread = _Output


class _Kernel(IPythonKernel):
    async def poll_stopped_queue(self) -> None:
        """There is no debugger that could stop."""


class _App(IPKernelApp):
    """ipykernel's own application without connection file, debugger, and sockets of its own making."""

    def _try_bind_socket(self, s: Any, port: int) -> int:
        _HandedIn.bind(s, port)
        return port

    def init_connection_file(self) -> None:
        """The connection came with the files."""

    def write_connection_file(self, **_: Any) -> None:
        """Nobody reads it."""

    def log_connection_info(self) -> None:
        """Only what the kernel asks for."""
        self._ports = {name: getattr(self, f"{name}_port") for name in CHANNELS}

    def init_control(self, context: Any) -> None:
        """Without the debugger's connection to the shell channel, which would be tried for ever."""
        super().init_control(context)
        self.debug_shell_socket.close(0)

    def init_heartbeat(self) -> None:
        """As in the original, with the descriptor that was handed in."""
        self.heartbeat = _Heart(zmq.Context(), (self.transport, self.ip, self.hb_port))
        self.heartbeat.start()


def run(plan: dict[str, Any], profile: str, payload: int, listening: list[int]) -> None:
    """Become the kernel; comes back when it ends.

    Args:
        plan: the template's.
        profile: for the environment variable of that meaning.
        payload: descriptor of what `ampcourse.grading.template.payload` packed; read here, after the fork, so that
            the template never holds a connection's key.
        listening: descriptors of the sockets, in the order of `CHANNELS`.
    """
    os.environ.clear()
    os.environ.update(plan["environment"] | {"AMPCOURSE_PROFILE": profile})
    os.chdir(plan["work"])
    key = _unpack(payload, Path(plan["work"]))
    _draw_anew()
    _set_blas_threads()
    _few_processors(plan["processors"])
    importlib.invalidate_caches()
    sys.argv = ["ipykernel_launcher"]
    _HandedIn.listening = tuple(listening)
    app = _App.instance(kernel_class=_Kernel, transport="ipc", ip="kernel", log_level=logging.CRITICAL)
    for number, name in enumerate(CHANNELS, 1):
        setattr(app, f"{name}_port", number)
    app.session.key = key.encode()
    app.initialize(plan["arguments"])
    app.start()


def _unpack(payload: int, work: Path) -> str:
    """Write the submission's files and give the connection's key."""
    with open(payload, "rb") as file:
        about = json.loads(file.readline())
        for name, size in about["files"]:
            place = work / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read(size))
    return about["key"]


def _draw_anew() -> None:
    """Generators that were seeded before the fork would draw the same in every kernel. Python's own seeds itself."""
    import random

    random.seed()
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()
    if ssl := sys.modules.get("ssl"):
        ssl.RAND_add(os.urandom(32), 32.0)


def _few_processors(most: int) -> None:
    """TensorFlow starts a thread for each processor that it may use, several times over: more than a limit allows."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) > most:
        begin = int.from_bytes(os.urandom(2), "big")
        os.sched_setaffinity(0, [available[(begin + index) % len(available)] for index in range(most)])


def _set_blas_threads() -> None:
    """The template loads numpy with one thread, since a fork loses all others; here there may be as many as usual."""
    wanted = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")
    count = int(wanted) if wanted and wanted.isdigit() else len(os.sched_getaffinity(0))
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        libraries = {line.split(maxsplit=5)[5].strip() for line in file if "openblas" in line}
    for library in libraries:
        loaded = ctypes.CDLL(library)
        for name in BLAS_THREADS:
            if hasattr(loaded, name):
                getattr(loaded, name)(ctypes.c_int(count))
                break
