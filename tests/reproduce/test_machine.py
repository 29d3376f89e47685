"""The machine and the versions as a run reports them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ampcourse.reproduce import machine


def test_the_description_is_complete_and_true():
    about = machine.describe([{"name": "H200", "compute_capability": "9.0"}])
    assert about["cores"] >= 1
    assert 0.1 < about["memory_gib"] < 100_000
    assert about["processor"]
    assert about["system"]
    assert about["gpus"] == [{"name": "H200", "compute_capability": "9.0"}]
    versions = machine.versions()
    assert versions["numpy"] == np.__version__
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))


def test_describing_loads_no_tensorflow():
    code = (
        "import sys; from ampcourse.reproduce import machine as m; m.describe(); m.versions(); m.gpus();"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("line", "flags", "fast"),
    [
        ("flags\t\t: fpu avx2 fma f16c", ["f16c", "fma", "avx2"], False),
        ("flags\t\t: avx512f avx512_bf16 amx_bf16", ["avx512f", "avx512_bf16", "amx_bf16"], True),
        ("Features\t: fp asimd asimdhp bf16 sve", ["asimdhp", "bf16", "sve"], True),
        ("nothing", [], False),
    ],
)
def test_flags_are_read_on_intel_and_arm(monkeypatch, line, flags, fast):
    monkeypatch.setattr(machine, "_read", lambda path: f"model name\t: A Processor\n{line}\n")
    assert machine.flags() == flags
    assert machine.fast_bfloat16() is fast
    assert machine.processor() == "A Processor"


def test_a_container_limits_cores_and_memory(monkeypatch):
    limits = {"cpu.max": "150000 100000\n", "memory.max": "3221225472\n", "memory.current": "1073741824\n"}
    monkeypatch.setattr(machine, "_read", lambda path: limits.get(path.rpartition("/")[2], ""))
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert machine.cores() == 2
    assert machine.memory() <= 3 * 2**30
    assert machine.memory(available=True) <= 2 * 2**30


def test_no_driver_means_no_gpu_without_asking_tensorflow(monkeypatch):
    monkeypatch.setattr(machine, "_may_have_gpu", lambda: False)
    monkeypatch.setattr(machine.subprocess, "run", lambda *_, **__: pytest.fail("it was asked"))
    assert machine.gpus() == []


def test_tensorflow_is_asked_in_another_process(monkeypatch):
    monkeypatch.setattr(machine, "_may_have_gpu", lambda: True)
    monkeypatch.setattr(machine, "_ASK_TENSORFLOW", "print('noise'); print('[{\"name\": \"H200\"}]')")
    assert machine.gpus() == [{"name": "H200"}]
    monkeypatch.setattr(machine, "_ASK_TENSORFLOW", "raise SystemExit(1)")
    assert machine.gpus() == []
