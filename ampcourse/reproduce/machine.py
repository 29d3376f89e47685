"""Which machine and which versions a run used; nothing here imports TensorFlow into this process."""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

# What decides how fast, and on some machines how exactly, 16-bit numbers are computed.
_TELLING_FLAGS = (
    *("f16c", "fma", "avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16"),
    *("asimdhp", "bf16", "sve", "sve2"),
)
_FAST_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}
_PACKAGES = ("ampcourse", "tensorflow", "keras", "tf_keras", "numpy", "ml_dtypes", "papermill", "ipykernel")
_ASK_TENSORFLOW = """
import json, tensorflow as tf
found = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices("GPU")]
print("\\n" + json.dumps([{"name": one.get("device_name", "unknown"),
                           "compute_capability": ".".join(map(str, one.get("compute_capability", ())))}
                          for one in found]))
"""


def describe(gpus: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """The machine as a run reports it: system, processor, usable cores, memory in GiB, telling flags and GPUs."""
    return {
        "system": platform.platform(),
        "processor": processor(),
        "cores": cores(),
        "memory_gib": round(memory() / 2**30, 1),
        "flags": flags(),
        "fast_bfloat16": fast_bfloat16(),
        "gpus": list(gpus or ()),
    }


def versions() -> dict[str, str | None]:
    """The versions of Python and of the packages that decide the results; None where one is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    for key in ("model name", "Model", "Hardware"):
        if name := _cpuinfo(key):
            return name
    return _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine() or "unknown"


def flags() -> list[str]:
    """Those of the processor's abilities that matter to 16-bit arithmetic, by Linux's names."""
    words = set((_cpuinfo("flags") or _cpuinfo("Features")).split())
    if _sysctl("hw.optional.arm.FEAT_BF16") == "1":
        words.add("bf16")
    return [flag for flag in _TELLING_FLAGS if flag in words]


def fast_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself; without it bfloat16 takes two to three times as long."""
    return not _FAST_BFLOAT16.isdisjoint(flags())


def cores() -> int:
    """The cores this process may use: what the machine has, less affinity and the container's limit."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        usable = min(usable, math.ceil(int(quota) / int(period)))
    return max(1, usable)


def memory(available: bool = False) -> int:
    """Bytes of memory this process may use, all or (`available`) what is free now; the container's limit counts."""
    import psutil

    system = psutil.virtual_memory()
    size = system.available if available else system.total
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    if limit.isdigit():
        used = _read("/sys/fs/cgroup/memory.current").strip() if available else "0"
        size = min(size, max(0, int(limit) - int(used or 0)))
    return size


def gpus() -> list[dict[str, str]]:
    """The GPUs that TensorFlow sees (name, compute capability), asked in another process; [] if there can be none."""
    if not _may_have_gpu():
        return []
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _ASK_TENSORFLOW], capture_output=True, text=True, timeout=300, env=quiet, check=True
        )
        return json.loads(asked.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return []


def _may_have_gpu() -> bool:
    """Importing TensorFlow takes seconds, so look for a driver first."""
    signs = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
    if sys.platform == "darwin":
        return bool(metadata.packages_distributions().get("tensorflow-plugins"))
    return shutil.which("nvidia-smi") is not None or any(Path(sign).exists() for sign in signs)


def _cpuinfo(key: str) -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    if sys.platform != "darwin":
        return ""
    asked = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
    return asked.stdout.strip()
