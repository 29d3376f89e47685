"""What the machine says of itself: the CPU and its number formats, NVIDIA's driver, and what TensorFlow sees.

Importing this does not import TensorFlow; only `tensorflow_facts` and `keras_facts` do, when called.
"""

from __future__ import annotations

import csv
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Linux names of the instructions that multiply bfloat16; `bf16` is what Arm calls them.
_BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16")


@dataclass(frozen=True)
class Cpu:
    """The processor; `bfloat16` holds the instruction sets found that multiply bfloat16, None where not known."""

    name: str
    cores: int
    bfloat16: tuple[str, ...] | None


@dataclass(frozen=True)
class Driver:
    """What nvidia-smi reports: one entry for each GPU, or why there is nothing to report."""

    gpus: tuple[str, ...] = ()
    version: str = ""
    memory: tuple[str, ...] = ()
    trouble: str = ""


@dataclass(frozen=True)
class Gpu:
    """A GPU that TensorFlow can use; the compute capability is None where TensorFlow does not know it.

    `memory` is the total as nvidia-smi tells it, such as "81920 MiB"; empty where it does not.
    """

    name: str
    capability: tuple[int, int] | None
    memory: str = ""


def tensorflow_facts() -> dict[str, Any]:
    """TensorFlow's version, its build, and the GPUs that it sees, as plain data; the devices are not started."""
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    build = tf.sysconfig.get_build_info()
    return {
        "tensorflow": tf.__version__,
        "gpu_build": bool(tf.test.is_built_with_gpu_support()),
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "gpus": [{"name": gpu.get("device_name"), "capability": gpu.get("compute_capability")} for gpu in details],
    }


def keras_facts() -> dict[str, Any]:
    """Keras's version, backend and float type."""
    import keras

    return {"keras": keras.__version__, "backend": keras.config.backend(), "floatx": keras.config.floatx()}


def as_gpus(found: list[dict[str, Any]], driver: Driver | None = None) -> tuple[Gpu, ...]:
    """The GPUs of `tensorflow_facts`, with the memory that the driver tells of GPUs of that name."""
    memory = dict(zip(driver.gpus, driver.memory, strict=True)) if driver else {}
    return tuple(
        Gpu(
            gpu.get("name") or "unknown GPU",
            tuple(gpu["capability"]) if gpu.get("capability") else None,
            memory.get(gpu.get("name"), ""),
        )
        for gpu in found
    )


def read_cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> Cpu:
    """The CPU from /proc/cpuinfo (Linux) or sysctl (macOS); elsewhere its instructions stay unknown."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    name = platform.processor() or platform.machine() or "unknown"
    if cpuinfo.is_file():
        return _from_cpuinfo(cpuinfo.read_text("utf-8", "replace"), name, cores)
    if platform.system() == "Darwin":
        brand = _output("sysctl", "-n", "machdep.cpu.brand_string").strip() or name
        flag = _output("sysctl", "-n", "hw.optional.arm.FEAT_BF16").strip()
        return Cpu(brand, cores, {"1": ("bf16",), "0": ()}.get(flag))
    return Cpu(name, cores, None)


def _from_cpuinfo(text: str, name: str, cores: int) -> Cpu:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    listed = fields.get("flags") or fields.get("Features")
    flags = None if listed is None else tuple(flag for flag in _BFLOAT16 if flag in listed.split())
    return Cpu(fields.get("model name") or name, cores, flags)


def read_driver() -> Driver:
    """The NVIDIA driver and its GPUs, by nvidia-smi; empty where there is no such program."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
        )
    except FileNotFoundError:
        return Driver()
    except (OSError, subprocess.TimeoutExpired) as error:
        return Driver(trouble=f"nvidia-smi does not answer ({type(error).__name__})")
    if done.returncode:
        said = (done.stdout or done.stderr).strip().splitlines()
        return Driver(trouble=said[0] if said else f"nvidia-smi ended with {done.returncode}")
    rows = [[cell.strip() for cell in row] for row in csv.reader(done.stdout.splitlines()) if len(row) == 3]
    return Driver(
        gpus=tuple(row[0] for row in rows),
        version=rows[0][1] if rows else "",
        memory=tuple(row[2] for row in rows),
    )


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
