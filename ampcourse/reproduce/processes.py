"""A notebook's processes: their environment, and how to end every one of them, however deep."""

from __future__ import annotations

import json
import os
import site
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import ampcourse

MARK = "AMPCOURSE_RUN"
# A person's own settings that would change what a lesson computes or shows.
_DROPPED = (
    *("AMPCOURSE_PROFILE", "TF_ENABLE_AUTO_MIXED_PRECISION", "TF_ENABLE_AUTO_MIXED_PRECISION_GRAPH_REWRITE"),
    *("TF_USE_LEGACY_KERAS", "NVIDIA_TF32_OVERRIDE", "PYTHONSTARTUP"),
)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
_LONGEST_SOCKET = 80  # a Unix socket's path may have 103 characters on some systems; "/0/k-5" comes on top


def scratch_folder() -> Path:
    """A new folder for sockets, connection files and the kernels' own files; its path is short enough for sockets."""
    base = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="ampc-", dir=base if len(base) < _LONGEST_SOCKET else "/tmp"))


def environment(scratch: Path, mark: str, profile: str, threads: int) -> dict[str, str]:
    """The environment of one notebook's processes.

    Nothing of the person's own leaks in (startup files, another Python's kernel) or out (a learner's progress, shell
    history, socket files): all of it lies in `scratch`, a folder of this notebook alone. `mark` is how `kill` finds
    the processes later. Several notebooks at once share the cores: each gets `threads` of them.
    """
    chosen = {key: value for key, value in os.environ.items() if key not in _DROPPED}
    for name in _THREADS:
        chosen.setdefault(name, str(threads))
    chosen.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if profile == "cpu":
        chosen["CUDA_VISIBLE_DEVICES"] = "-1"
    else:
        chosen.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    chosen |= {
        MARK: mark,
        "AMPCOURSE_HOME": str(scratch / "home"),
        "IPYTHONDIR": str(scratch / "ipython"),
        "JUPYTER_PATH": str(scratch / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
        "KERAS_BACKEND": "tensorflow",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYTHONHASHSEED": "0",
    }
    if path := _import_path():
        chosen["PYTHONPATH"] = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH", ""))))
    return chosen


def furnish(scratch: Path) -> None:
    """Make the folders that `environment` names, and a kernel that is this very Python whatever else is installed."""
    for name in ("home", "ipython", "runtime", "work"):
        (scratch / name).mkdir(parents=True)
    kernel = scratch / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), "utf-8")


def kill(mark: str, spare: Iterable[int] = ()) -> int:
    """End every process that carries the mark, also those that left their parent or group; say how many there were."""
    import psutil

    spared, killed = set(spare), 0
    # A process may fork while the list is read, so look again until none is left.
    for _ in range(20):
        found = [one for one in psutil.process_iter() if one.pid not in spared and _carries(one, mark)]
        if not found:
            break
        for process in found:
            try:
                process.kill()
                killed += 1
            except psutil.NoSuchProcess:
                pass
        time.sleep(0.02)
    return killed


def _carries(process: object, mark: str) -> bool:
    import psutil

    try:
        surroundings: Mapping[str, str] = process.environ()  # type: ignore[attr-defined]
    except (psutil.Error, OSError):
        return False
    return surroundings.get(MARK) == mark


def _import_path() -> str:
    """Where the notebooks' processes find this package if it runs from a clone that is not installed."""
    parent = str(Path(ampcourse.__file__).resolve().parent.parent)
    installed = {*site.getsitepackages(), site.getusersitepackages()}
    return "" if parent in {str(Path(one).resolve()) for one in installed} else parent
