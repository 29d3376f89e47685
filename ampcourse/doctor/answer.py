"""What TensorFlow says of itself, asked in a process of its own, and what follows from it for a learner."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampcourse.amp.machine_facts import Cpu, Driver, Gpu, as_gpus
from ampcourse.doctor.environment import NOTE, OK, PROBLEM, WARNING, Finding

_PATIENCE = 180  # seconds: a cold start from a slow disk takes a minute


@dataclass(frozen=True)
class Answer:
    """What the process found; `error` says why nothing more is known."""

    error: str = ""
    tensorflow: str = ""
    keras: str = ""
    backend: str = ""
    floatx: str = ""
    gpu_build: bool = False
    cuda: str = ""
    cudnn: str = ""
    gpus: tuple[Gpu, ...] = ()
    libraries_missing: bool = False
    measurement: dict[str, Any] | None = None


def ask(seconds: float) -> Answer:
    """Import TensorFlow in another process and let it report; never raises for what happens there."""
    with tempfile.TemporaryDirectory(prefix="ampcourse-") as folder:
        out = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "ampcourse.doctor.probe", str(out), str(seconds)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE, stdin=subprocess.DEVNULL
            )
            said, code = done.stderr, done.returncode
        except subprocess.TimeoutExpired:
            said, code = "", None
        try:
            content = json.loads(out.read_text("utf-8"))
        except (OSError, ValueError):
            content = {}
    return read_answer(content, said, code)


def read_answer(content: dict[str, Any], said: str, code: int | None) -> Answer:
    """Make an `Answer` of the process's JSON, its stderr and its exit code (None where it took too long)."""
    error = content.get("error", "")
    if code is None:
        error = f"no answer within {_PATIENCE} seconds"
    elif code < 0:
        error = f"the process was killed by {signal.Signals(-code).name}"
    elif code or not content:
        error = error or (said.strip().splitlines() or [f"the process ended with exit code {code}"])[-1]
    gpus = as_gpus(content.get("gpus", []))
    texts = ("tensorflow", "keras", "backend", "floatx", "cuda", "cudnn")
    return Answer(
        error=error,
        gpus=gpus,
        gpu_build=bool(content.get("gpu_build")),
        libraries_missing="Cannot dlopen" in said,
        measurement=content.get("measurement"),
        **{name: str(content.get(name) or "") for name in texts},
    )


def tensorflow_findings(answer: Answer, cpu: Cpu, driver: Driver) -> list[Finding]:
    """What the answer means for a learner: whether TensorFlow works, and which devices there are."""
    return [_import_finding(answer), *_keras_findings(answer), *_gpu_findings(answer, driver), _cpu_finding(cpu)]


def _import_finding(answer: Answer) -> Finding:
    name = "TensorFlow import"
    if not answer.tensorflow:
        advice = "Install it again: python -m pip install --force-reinstall 'tensorflow>=2.21,<2.22'"
        if "SIGILL" in answer.error:
            advice = "This CPU lacks instructions (AVX) that TensorFlow's packages need: use another machine."
        return Finding(name, PROBLEM, f"does not import: {answer.error}", advice)
    if answer.error:
        return Finding(name, WARNING, f"imports, but the measurement failed: {answer.error}", "Run doctor again.")
    return Finding(name, OK, "imports")


def _keras_findings(answer: Answer) -> list[Finding]:
    found = []
    where = "in the environment variable KERAS_BACKEND or in ~/.keras/keras.json"
    if answer.backend and answer.backend != "tensorflow":
        found.append(Finding("Keras backend", PROBLEM, answer.backend, f"Set it to 'tensorflow' {where}."))
    if answer.floatx and answer.floatx != "float32":
        found.append(
            Finding("Keras floatx", WARNING, answer.floatx, "Set 'floatx' to 'float32' in ~/.keras/keras.json.")
        )
    return found


def _gpu_findings(answer: Answer, driver: Driver) -> list[Finding]:
    found = []
    if driver.gpus:
        memory = ", ".join(driver.memory)
        found.append(Finding("NVIDIA driver", OK, f"{driver.version}: {', '.join(driver.gpus)} ({memory})"))
    elif driver.trouble:
        found.append(Finding("NVIDIA driver", WARNING, driver.trouble, "Reinstall the driver, or work on the CPU."))
    for gpu in answer.gpus:
        capability = "unknown" if gpu.capability is None else "{}.{}".format(*gpu.capability)
        libraries = f", built for CUDA {answer.cuda}, cuDNN {answer.cudnn}" if answer.cuda else ""
        found.append(Finding("GPU", OK, f"{gpu.name}, compute capability {capability}{libraries}"))
    if answer.tensorflow and not answer.gpus:
        found.append(_no_gpu(answer, driver))
    return found


def _no_gpu(answer: Answer, driver: Driver) -> Finding:
    if not driver.gpus:
        return Finding("GPU", NOTE, "none: the lessons run on the CPU")
    if answer.libraries_missing:
        return Finding("GPU", WARNING, "TensorFlow misses CUDA libraries", "pip install 'tensorflow[and-cuda]==2.21.*'")
    if not answer.gpu_build:
        return Finding(
            "GPU", WARNING, "this TensorFlow is built for the CPU only", "On Windows, use WSL 2; see README."
        )
    return Finding("GPU", WARNING, "TensorFlow does not see it", "Is CUDA_VISIBLE_DEVICES set, or the driver too old?")


def _cpu_finding(cpu: Cpu) -> Finding:
    known = "bfloat16 instructions unknown" if cpu.bfloat16 is None else ", ".join(cpu.bfloat16) or "no bfloat16"
    return Finding("CPU", OK, f"{cpu.name}, {cpu.cores} cores for us, {known}")
