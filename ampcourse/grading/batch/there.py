"""What runs in a worker process of a Dask cluster: it checks itself, and grades by the same host as one machine does.

The host, with its template and worker processes, is made when the first work comes and ends when none has come for a
while, so that a head that was killed leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import platform
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ampcourse
from ampcourse.grading.batch.host import Host, make_host
from ampcourse.grading.model import GradingError

IDLE_SECONDS = 120.0


@dataclass(frozen=True)
class Told:
    """What a worker must know of a run. `blob`: the pickled assignments; `grader`: as "module:function"."""

    run: str
    unsafe: bool
    fast: bool
    grader: str
    blob: bytes | None = None


@functools.cache
def package() -> str:
    """A digest of this package's own files that decide about scores: the same version may be another state of it."""
    root, digest = Path(ampcourse.__file__).parent, hashlib.sha256()
    for folder in ("exercises", "grading"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def check(unsafe: bool) -> dict[str, Any]:
    """What the head wants to know of a machine before it sends work."""
    reasons: list[str] = []
    if not unsafe:
        from ampcourse.grading.sandbox import probe

        layers = probe()
        reasons = [] if layers.complete else [str(reason) for reason in layers.reasons]
    return {
        "version": ampcourse.__version__,
        "package": package(),
        "python": platform.python_version_tuple()[:2],
        "reasons": reasons,
    }


_lock = threading.Lock()
_hosts: dict[str, Host] = {}
_used: dict[str, float] = {}
_at_work: dict[str, int] = {}


def grade(told: Told, work: bytes, slots: int) -> bytes | None:
    """Grade one submission; None if the assignments are not here, so that they must be sent along.

    Args:
        told: of the run.
        work: pickled `Work`.
        slots: how many threads of this process grade at a time.

    Raises:
        GradingError: if kernels cannot be isolated here.
    """
    host = _host(told, slots)
    if host is None:
        return None
    try:
        return pickle.dumps(host.grade(pickle.loads(work)))
    finally:
        with _lock:
            _at_work[told.run] -= 1
            _used[told.run] = time.monotonic()


def _host(told: Told, slots: int) -> Host | None:
    """The host of a run, marked as in use."""
    with _lock:
        if told.run not in _hosts:
            if told.blob is None:
                return None
            assignments = pickle.loads(told.blob)
            _hosts[told.run] = make_host(assignments, slots, unsafe=told.unsafe, fast=told.fast, grader=told.grader)
            threading.Thread(target=_close_when_idle, args=[told.run], daemon=True).start()
        _at_work[told.run] = _at_work.get(told.run, 0) + 1
        return _hosts[told.run]


def _close_when_idle(run: str) -> None:
    while True:
        time.sleep(IDLE_SECONDS / 20)
        with _lock:
            if run not in _hosts:
                return
            idle = not _at_work.get(run) and time.monotonic() - _used.get(run, time.monotonic()) > IDLE_SECONDS
        if idle:
            close(run)


def close(run: str) -> None:
    """End what a run has here; may be called again."""
    with _lock:
        host = _hosts.pop(run, None)
        _used.pop(run, None)
    if host is not None:
        with contextlib.suppress(GradingError, OSError):
            host.close()
