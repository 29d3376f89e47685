"""hardware(): what it says of good and bad machines, and that the doctor says the same."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from ampcourse import doctor
from ampcourse.amp import hardware, machine
from ampcourse.amp.machine import Hardware
from ampcourse.amp.machine_facts import Cpu, Driver, Gpu, as_gpus

OLD, NEW, UNKNOWN = Cpu("Old", 2, ()), Cpu("New", 2, ("avx512_bf16", "amx_bf16")), Cpu("Odd", 2, None)
P100, V100, A100 = Gpu("P100", (6, 0)), Gpu("V100", (7, 0)), Gpu("A100", (8, 0), "81920 MiB")
H200, GTX, AMD = Gpu("H200", (9, 0)), Gpu("GTX 1660", (7, 5)), Gpu("MI300", None)


def here(cpu: Cpu = OLD, **found: Any) -> Hardware:
    return Hardware(cpu, **{"tensorflow": "2.21.0", "keras": "3.15.1", "backend": "tensorflow"} | found)


def speed(bfloat16: float, float16: float) -> dict[str, Any]:
    def ratios(ratio: float) -> dict[str, float]:
        return {"median": ratio, "low": 0.95 * ratio, "high": 1.05 * ratio}

    return {"size": 512, "rounds": 9, "speed": {"bfloat16": ratios(bfloat16), "float16": ratios(float16)}}


@pytest.mark.parametrize(
    ("machine", "policy", "says"),
    [
        (here(gpus=(A100,)), "mixed_bfloat16", "no loss scaling"),
        (here(gpus=(H200, A100)), "mixed_bfloat16", "no loss scaling"),
        (here(gpus=(V100,)), "mixed_float16", "Scale the loss"),
        (here(gpus=(A100, V100)), "mixed_float16", "the least able of these GPUs, V100,"),
        (here(gpus=(A100, P100)), "float32", "P100, has no Tensor Cores"),
        (here(gpus=(P100,)), "float32", "save memory"),
        (here(gpus=(GTX,)), "float32", "no Tensor Cores"),
        (here(gpus=(AMD,)), "float32", "not known"),
        (here(OLD), "float32", "no instructions for bfloat16"),
        (here(UNKNOWN), "float32", "not known"),
        (here(NEW), "mixed_bfloat16", "nothing was measured"),
        (here(NEW, measurement=speed(1.9, 0.5)), "mixed_bfloat16", "measured to be faster"),
        (here(NEW, measurement=speed(0.9, 0.5)), "float32", "no 16-bit product was measured"),
        (here(OLD, measurement=speed(0.4, 1.5)), "mixed_float16", "float16 products were measured"),
        (here(OLD, measurement=speed(1.05, 1.05)), "float32", "clearly faster"),
        (here(NEW, gpus=(P100,)), "float32", "P100"),
        (here(tensorflow=""), "float32", "does not import"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_policy_that_pays_and_why(machine: Hardware, policy: str, says: str) -> None:
    assert machine.policy == policy
    assert says in machine.reason
    if machine.tensorflow:
        assert machine.advice[-1] == f"The policy that pays here is {policy}: {machine.reason}"


def test_a_cpu_policy_warns_of_xla() -> None:
    assert "jit_compile" in here(NEW).reason
    assert "jit_compile" not in here(gpus=(A100,)).reason


def test_equal_gpus_are_spoken_of_once() -> None:
    assert here(gpus=(A100, A100)).advice == here(gpus=(A100,)).advice
    assert str(here(gpus=(A100, A100))).count("A100, compute capability 8.0, 81920 MiB") == 2


def test_a_gpu_that_tensorflow_does_not_use_is_named_and_does_not_count() -> None:
    machine = here(OLD, driver=Driver(("NVIDIA A100",), "550.1", ("81920 MiB",)))
    assert machine.policy == "float32"
    assert "NVIDIA A100, which TensorFlow does not use" in str(machine)
    assert "until it does, the CPU counts" in machine.advice[0]


def test_memory_comes_from_the_driver_by_name() -> None:
    driver = Driver(("T4", "A100"), "550.1", ("15360 MiB", "81920 MiB"))
    found = [{"name": "A100", "capability": [8, 0]}, {"name": "Other", "capability": None}, {"name": None}]
    assert as_gpus(found, driver) == (Gpu("A100", (8, 0), "81920 MiB"), Gpu("Other", None), Gpu("unknown GPU", None))


class Shape(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_it_shows_as_an_accessible_table_and_escapes_names() -> None:
    machine = here(Cpu("<b>CPU</b>", 2, ()), gpus=(A100,))
    html = machine._repr_html_()
    tags = Shape(html).tags
    assert [tag for tag, _ in tags].count("caption") == 1
    assert all(attrs.get("scope") in {"col", "row"} for tag, attrs in tags if tag == "th")
    assert [tag for tag, _ in tags].count("li") == len(machine.advice)
    assert "&lt;b&gt;CPU" in html
    assert all(sentence in str(machine) for sentence in machine.advice)


def test_another_backend_is_said() -> None:
    assert "Keras runs on jax here" in here(backend="jax").advice[-1]


# --- on this machine ----------------------------------------------------------------------------------


def test_the_doctor_says_the_same_sentences() -> None:
    assert doctor.diagnose(measure=False).gains == hardware().advice


def test_what_is_here_is_found_and_nothing_is_written_to_stderr() -> None:
    code = (
        "from ampcourse.amp import hardware; h = hardware(); print(h.tensorflow, h.policy); import keras; "
        "assert h.keras == keras.__version__; assert h.cpu.cores >= 1 and not h.trouble"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith("2.")


def test_a_measurement_changes_what_is_said() -> None:
    measured = hardware(measure=0.2)
    assert measured.measurement["rounds"] >= 5
    assert any("times the speed of float32" in sentence for sentence in measured.advice)


def test_a_tensorflow_or_keras_that_does_not_import_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ImportError("libcudart is missing")

    monkeypatch.setattr(machine, "keras_facts", broken)
    broken.__name__ = "keras_facts"
    found = hardware()
    assert "Trouble: keras does not import (ImportError: libcudart is missing)" in found.advice
    assert found.tensorflow
    monkeypatch.setattr(machine, "tensorflow_facts", broken)
    assert "nothing can be gained yet" in hardware(measure=1).advice[0]


@pytest.mark.parametrize("nonsense", [-1, float("nan"), 1e9, True, "4", None])
def test_nonsense_seconds_are_refused_in_a_sentence(nonsense: Any) -> None:
    with pytest.raises(ValueError, match=r"seconds from 0 to 600.*not "):
        hardware(measure=nonsense)


def test_facts_become_sentences_without_tensorflow() -> None:
    code = "import sys, ampcourse.doctor, ampcourse.amp.machine_advice; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
