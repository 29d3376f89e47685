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

from kernel import Kernel, handed_in  # the fresh sandbox's

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
"""In the order in which the listening sockets come; the n-th has the "port" n."""
BLAS_THREADS = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads")


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
    _few_processors(plan["processors"])
    _set_blas_threads()
    importlib.invalidate_caches()
    sys.argv = ["ipykernel_launcher"]
    app = _application(listening, key)
    app.initialize(plan["arguments"])
    if inline := sys.modules.get("matplotlib_inline.backend_inline"):
        inline._enable_matplotlib_integration()  # it was loaded with pyplot, when there was no kernel yet
    app.start()


def _application(listening: list[int], key: str) -> Any:
    class Application(handed_in(dict(enumerate(listening, 1)))):
        def init_connection_file(self) -> None:
            """The connection came with the files."""

        def write_connection_file(self, **_: Any) -> None:
            """Nobody reads it."""

        def log_connection_info(self) -> None:
            """Only what the kernel asks for."""
            self._ports = {name: getattr(self, f"{name}_port") for name in CHANNELS}

    app = Application.instance(kernel_class=Kernel, transport="ipc", ip="kernel", log_level=logging.CRITICAL)
    for number, name in enumerate(CHANNELS, 1):
        setattr(app, f"{name}_port", number)
    app.session.key = key.encode()
    return app


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
    import tempfile

    random.seed()
    tempfile._name_sequence = None
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
    if count == 1:
        return  # as it is
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        libraries = {line.split(maxsplit=5)[5].strip() for line in file if "openblas" in line}
    for library in libraries:
        loaded = ctypes.CDLL(library)
        for name in BLAS_THREADS:
            if hasattr(loaded, name):
                getattr(loaded, name)(ctypes.c_int(count))
                break
