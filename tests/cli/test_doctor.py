"""The doctor: what it finds on good and bad machines, and what it then says about mixed precision."""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from ampcourse.amp import machine_speed
from ampcourse.amp.machine_advice import cpu_gains, gains, gpu_gain
from ampcourse.amp.machine_facts import Cpu, Driver, Gpu, read_cpu, read_driver
from ampcourse.cli import main
from ampcourse.doctor import environment
from ampcourse.doctor.answer import Answer, ask, read_answer, tensorflow_findings
from ampcourse.doctor.environment import PROBLEM, WARNING, Finding
from ampcourse.doctor.report import Diagnosis, show

CPU = Cpu("Some CPU", 2, ())
WORKS = Answer(tensorflow="2.21.0", keras="3.15.1", backend="tensorflow", floatx="float32")


def statuses(findings: list[Finding]) -> dict[str, str]:
    return {finding.name: finding.status for finding in findings}


def measured(float32: list[float], bfloat16: list[float], float16: list[float]) -> dict:
    return machine_speed.summary(1024, {"float32": float32, "bfloat16": bfloat16, "float16": float16})


# --- on this machine ----------------------------------------------------------------------------------


def test_here_a_learner_can_work_and_the_measurement_is_real() -> None:
    said = CliRunner().invoke(main, ["doctor", "--json"])
    content = json.loads(said.stdout)
    assert said.exit_code == 0, content["findings"]
    assert content["ok"]
    assert {"Python", "tensorflow", "keras", "tf-keras", "kernel python3", "CPU"} <= {
        f["name"] for f in content["findings"]
    }
    assert content["gains"][-1].startswith(f"The policy that pays here is {content['policy']}: ")
    measurement = content["measurement"]
    assert measurement["rounds"] >= machine_speed.LEAST_ROUNDS
    assert all(ms > 0 for ms in measurement["milliseconds"].values())
    for dtype in ("bfloat16", "float16"):
        speed = measurement["speed"][dtype]
        assert 0 < speed["low"] <= speed["median"] <= speed["high"]
        assert f"{speed['median']:.2f} times the speed of float32" in " ".join(content["gains"])


# --- TensorFlow in its own process --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise ImportError('libcudart is missing')", "ImportError: libcudart is missing"),
        ("import os; os.kill(os.getpid(), 4)", "killed by SIGILL"),
        ("import os; os._exit(3)", "exit code 3"),
        ("raise SystemExit('no')", "SystemExit: no"),
    ],
)
def test_a_tensorflow_that_does_not_import_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, says: str
) -> None:
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = ask(seconds=0)
    assert says in answer.error
    findings = tensorflow_findings(answer, CPU, Driver())
    assert statuses(findings)["TensorFlow import"] == PROBLEM
    assert "nothing can be gained yet" in gains(CPU, Driver(), answer)[0]
    diagnosis = Diagnosis(tuple(findings), CPU, Driver(), answer, gains(CPU, Driver(), answer))
    assert not diagnosis.ok


def test_a_problem_means_exit_code_1_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tensorflow.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(main, ["doctor", "--no-measure"])
    assert said.exit_code == 1
    assert said.stderr == ""
    assert f"hidden by {tmp_path / 'tensorflow.py'}" in said.stdout
    assert "Rename that file" in said.stdout
    assert said.stdout.rstrip().endswith(
        "You cannot work here yet: see 'what to do' for import tensorflow, TensorFlow import."
    )


def test_a_measurement_that_kills_the_process_leaves_the_facts_known() -> None:
    answer = read_answer({"tensorflow": "2.21.0", "backend": "tensorflow"}, "", -6)
    assert (answer.tensorflow, answer.measurement) == ("2.21.0", None)
    assert statuses(tensorflow_findings(answer, CPU, Driver()))["TensorFlow import"] == WARNING
    assert "SIGABRT" in answer.error


def test_no_answer_in_time_is_a_problem() -> None:
    assert statuses(tensorflow_findings(read_answer({}, "", None), CPU, Driver()))["TensorFlow import"] == PROBLEM


def test_another_keras_backend_or_floatx_is_named() -> None:
    answer = read_answer({"tensorflow": "2.21.0", "backend": "jax", "floatx": "float16"}, "", 0)
    found = statuses(tensorflow_findings(answer, CPU, Driver()))
    assert (found["Keras backend"], found["Keras floatx"]) == (PROBLEM, WARNING)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(tensorflow="2.21.0", libraries_missing=True, gpu_build=True), "CUDA libraries"),
        (Answer(tensorflow="2.21.0", gpu_build=False), "CPU only"),
        (Answer(tensorflow="2.21.0", gpu_build=True), "does not see it"),
    ],
)
def test_a_gpu_that_tensorflow_does_not_use_is_explained(answer: Answer, says: str) -> None:
    driver = Driver(("NVIDIA A100",), "550.1", ("81920 MiB",))
    finding = next(f for f in tensorflow_findings(answer, CPU, driver) if f.name == "GPU")
    assert finding.status == WARNING
    assert says in finding.found
    assert finding.advice
    assert "TensorFlow does not use it" in gains(CPU, driver, answer)[0]


# --- the machine --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "bfloat16"),
    [
        ("model name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512_bf16\n\nflags\t: fpu", "AMD EPYC", ("avx512_bf16",)),
        ("model name : Xeon\nflags : amx_bf16 avx512_bf16 amx_tile", "Xeon", ("avx512_bf16", "amx_bf16")),
        ("model name : Old\nflags : sse avx2", "Old", ()),
        ("Features : fp asimd bf16", None, ("bf16",)),
        ("Features : fp asimd", None, ()),
        ("nothing known", None, None),
    ],
)
def test_the_cpus_instructions_are_read(tmp_path: Path, text: str, name: str | None, bfloat16: object) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    cpu = read_cpu(path)
    assert cpu.bfloat16 == bfloat16
    assert name is None or cpu.name == name
    assert cpu.cores >= 1


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'NVIDIA A100, 550.54.15, 81920 MiB'", Driver(("NVIDIA A100",), "550.54.15", ("81920 MiB",))),
        ("echo 'A, 1, 2 MiB'; echo 'B, 1, 3 MiB'", Driver(("A", "B"), "1", ("2 MiB", "3 MiB"))),
        ("echo 'Driver/library version mismatch'; exit 9", Driver(trouble="Driver/library version mismatch")),
        ("exit 9", Driver(trouble="nvidia-smi ended with 9")),
    ],
)
def test_nvidia_smi_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: Driver) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert read_driver() == expected


def test_no_nvidia_smi_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_driver() == Driver()


# --- packages and kernel ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted", "status"),
    [
        ("tensorflow", ">=2.21,<2.22", "ok"),
        ("tensorflow", ">=2.99,<3", WARNING),
        ("keras", ">=2.15,<2.16", PROBLEM),
        ("click", ">=99", WARNING),
        ("a-package-nobody-has", ">=1", PROBLEM),
    ],
)
def test_versions_are_held_against_what_is_taught(name: str, wanted: str, status: str) -> None:
    finding = environment.package_finding(name, wanted)
    assert finding.status == status
    assert (wanted in finding.advice) == (status != "ok")


def test_an_uninstalled_course_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    monkeypatch.setattr(metadata, "metadata", missing)
    assert [f.status for f in environment.package_findings()] == [PROBLEM]
    assert environment.python_finding().status == WARNING


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["python", "-m", "ipykernel_launcher"], "ok"),
        ([sys.executable, "-m", "ipykernel_launcher"], "ok"),
        (["/nowhere/python", "-m", "ipykernel_launcher"], PROBLEM),
        (["/bin/false"], PROBLEM),
        (["/bin/true"], "note"),
        (None, PROBLEM),
    ],
)
def test_a_kernel_of_another_python_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str] | None, status: str
) -> None:
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": argv, "display_name": "x", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec) if argv else "{")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    finding = environment.kernel_finding()
    assert finding.status == status
    assert bool(finding.advice) == (status == PROBLEM)


def test_a_folder_that_refuses_progress_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AMPCOURSE_HOME", str(tmp_path / "file" / "below"))
    assert environment.progress_finding().status == WARNING
    monkeypatch.setenv("AMPCOURSE_HOME", "~no_such_user/x")
    assert environment.progress_finding().status == WARNING
    monkeypatch.setenv("AMPCOURSE_HOME", str(tmp_path / "new"))
    assert environment.progress_finding().status == "ok"


# --- advice -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "capability", "says", "not_says"),
    [
        ("P100", (6, 0), "no Tensor Cores", "can gain"),
        ("V100", (7, 0), "mixed_bfloat16 gains no speed", "TF32 by default"),
        ("T4", (7, 5), "loss scaling", "TF32 by default"),
        ("GTX 1660", (7, 5), "no Tensor Cores", "can gain"),
        ("A100", (8, 0), "TF32 by default", "gains no speed"),
        ("H100", (9, 0), "needs no loss scaling", "gains no speed"),
        ("B200", (10, 0), "needs no loss scaling", "no Tensor Cores"),
        ("AMD", None, "not known", "Tensor Cores multiply"),
    ],
)
def test_compute_capability_decides_what_a_gpu_gains(
    name: str, capability: tuple[int, int] | None, says: str, not_says: str
) -> None:
    sentence = gpu_gain(Gpu(name, capability))
    assert says in sentence
    assert not_says not in sentence
    answer = Answer(tensorflow="2.21.0", gpus=(Gpu(name, capability),))
    said = gains(CPU, Driver(), answer)
    assert said[0] == sentence
    assert "not everything halves" in said[1]


@pytest.mark.parametrize(
    ("float32", "bfloat16", "says"),
    [
        ([10.0] * 8, [5.0] * 8, "2.00 times the speed of float32"),
        ([10.0] * 8, [5.0] * 8, "faster than float32"),
        ([10.0] * 8, [25.0] * 8, "slower than float32"),
        ([10.0] * 8, [10.5] * 8, "no clear difference"),
        ([10.0] * 8, [2.0, 2.0, 2.0, 5.0, 6.0, 30.0, 30.0, 30.0], "no clear difference"),
    ],
)
def test_a_measurement_says_no_more_than_it_shows(float32: list[float], bfloat16: list[float], says: str) -> None:
    said = cpu_gains(Cpu("x", 2, ("avx512_bf16",)), measured(float32, bfloat16, float32))
    assert says in said[0]
    assert "no clear difference" in said[1]


def test_without_a_measurement_only_the_instructions_speak() -> None:
    for flags, says in ((("amx_bf16",), "can be fast"), ((), "neither avx512_bf16 nor amx_bf16"), (None, "not known")):
        said = " ".join(cpu_gains(Cpu("x", 2, flags), None))
        assert says in said
        assert "measured," not in said


def test_rounds_are_compared_within_themselves() -> None:
    """A machine that slows down half-way does not change the ratio."""
    slow_later = [1.0, 1.0, 1.0, 9.0, 9.0, 9.0]
    summary = measured(slow_later, [2 * x for x in slow_later], slow_later)
    assert summary["speed"]["bfloat16"] == {"median": 0.5, "low": 0.5, "high": 0.5}
    assert summary["rounds"] == 6


# --- the report ---------------------------------------------------------------------------------------


def test_plain_output_is_aligned_text_without_colour(capsys: pytest.CaptureFixture[str]) -> None:
    findings = (Finding("a", "ok", "fine"), Finding("longer name", WARNING, "odd\x1b[31m\nthing", "Do it."))
    show(Diagnosis(findings, CPU, Driver(), WORKS, ("One gain.",)))
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert lines[1].index("ok") == lines[2].index("warning") == lines[0].index("status")
    assert "\x1b" not in said
    assert "Do it." in lines[2]
    assert lines[-1] == "You can work here; have a look at longer name."


def test_a_terminal_gets_the_same_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("ampcourse.terminal.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    findings = (Finding("[bold]name", "ok", "found [link=x]y"),)
    show(Diagnosis(findings, CPU, Driver(), WORKS, ("One gain.",)))
    said = capsys.readouterr().out
    for word in ("[bold]name", "ok", "found [link=x]y", "One gain.", "You can work here."):
        assert word in said
