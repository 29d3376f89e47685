"""The set-up on machines where something is missing, half done, or already there: one sentence, never a traceback."""

from __future__ import annotations

import ast
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from clone import ROOT, call, make_clone, quick_venv

BOOTSTRAP = ROOT / "tools" / "bootstrap.py"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings under which environments are made quickly."""
    return {"PYTHONPATH": str(quick_venv(tmp_path_factory.mktemp("quick")))}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return make_clone(tmp_path / "a clone é")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone that was set up; tests may use it but must leave it finished."""
    clone = make_clone(tmp_path_factory.mktemp("finished") / "a clone é")
    result = call(clone)
    assert result.returncode == 0, result.stdout + result.stderr
    return clone


@pytest.fixture
def setup_venv(monkeypatch: pytest.MonkeyPatch, clone: Path) -> Iterator[ModuleType]:
    """The module itself, working in the clone in small."""
    monkeypatch.syspath_prepend(str(clone / "tools"))
    monkeypatch.delitem(sys.modules, "setup_venv", raising=False)
    import setup_venv

    yield setup_venv
    sys.modules.pop("setup_venv", None)


def one_sentence(result: subprocess.CompletedProcess[str]) -> str:
    """The set-up's only line on stderr; fails if it succeeded or said more."""
    made = "make: ***" in result.stderr
    assert result.returncode == (2 if made else 1), result.stdout + result.stderr
    lines = [line for line in result.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Set-up: ")
    assert "Traceback" not in result.stdout
    return lines[0]


# --- which Python ----------------------------------------------------------------------------------------------------


def as_version(version: str) -> list[str]:
    """A command that runs the set-up in a Python that takes itself for another version."""
    code = (
        f"import runpy, sys; sys.version_info = ({version.replace('.', ', ')}, 0); sys.argv = ['tools/bootstrap.py']; "
    )
    return [sys.executable, "-c", code + "runpy.run_path('tools/bootstrap.py', run_name='__main__')"]


def shim(folder: Path, name: str, version: str) -> None:
    """A program that answers like that Python when asked for its version, and says so when it is handed the work."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then echo {version}; else echo "{name} got $1"; fi\n')
    path.chmod(0o755)


@pytest.mark.parametrize(("version", "word"), [("3.10", "old"), ("2.7", "old"), ("3.14", "new")])
def test_a_python_too_old_or_too_new(clone: Path, tmp_path: Path, version: str, word: str) -> None:
    shim(tmp_path / "bin", "python3", version)
    sentence = one_sentence(call(clone, as_version(version), PATH=str(tmp_path / "bin")))
    assert f"Python {version} is too {word}" in sentence
    assert "install Python 3.11, 3.12 or 3.13" in sentence
    assert not (clone / ".venv").exists()


def test_another_python_on_the_path_takes_over(clone: Path, tmp_path: Path) -> None:
    shim(tmp_path / "bin", "python3.12", "3.12")
    result = call(clone, as_version("3.9"), PATH=f"{tmp_path / 'bin'}:/bin:/usr/bin")
    assert result.stdout == "python3.12 got tools/bootstrap.py\n"


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_python_without_venv(clone: Path, tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("raise ImportError")
    sentence = one_sentence(call(clone, PYTHONPATH=str(tmp_path), PATH="/nowhere"))
    assert "lacks the module venv or ensurepip" in sentence
    assert f"python{sys.version_info[0]}.{sys.version_info[1]}-venv" in sentence


def test_make_without_any_python(clone: Path) -> None:
    sentence = one_sentence(call(clone, ["make", "setup", "PYTHON=python3.11-not-here"]))
    assert "there is no python3.11-not-here" in sentence


def test_every_python_can_read_the_first_file() -> None:
    """Nothing in it is newer than Python 2.7, so that an old Python prints the sentence and not a SyntaxError."""
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.AsyncFunctionDef, ast.Await, ast.YieldFrom)
    for node in ast.walk(ast.parse(BOOTSTRAP.read_text("utf-8"))):
        assert not isinstance(node, (*newer, ast.Match, ast.MatMult)), ast.dump(node)
        if isinstance(node, ast.FunctionDef):
            annotated = [argument for argument in node.args.args if argument.annotation]
            assert not (annotated or node.returns or node.args.kwonlyargs or node.args.posonlyargs)
        if isinstance(node, ast.Raise):
            assert node.cause is None
        if isinstance(node, ast.Call):  # print is a statement there; f(*a, b) and f(**a, **b) do not exist
            assert getattr(node.func, "id", "") != "print"
            assert all(not isinstance(argument, ast.Starred) for argument in node.args[:-1])
    assert BOOTSTRAP.read_bytes().isascii()


def test_old_pythons_that_are_here_say_the_sentence(clone: Path) -> None:
    """Besides the test of the syntax: whatever unsuitable Python this machine has is really asked."""
    for name in ("python2.7", "python3.6", "python3.7", "python3.8", "python3.9", "python3.10", "python3.14"):
        path = shutil.which(name)
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            result = call(clone, [path, "tools/bootstrap.py"], PATH="/nowhere")
            assert "install Python 3.11, 3.12 or 3.13" in one_sentence(result)


# --- doing it, and not doing it again --------------------------------------------------------------------------------


def test_a_second_call_installs_nothing_and_is_quick(finished: Path) -> None:
    before = (finished / ".venv" / "ampcourse-setup.json").stat().st_mtime_ns
    start = time.perf_counter()
    result = call(finished, PIP_FIND_LINKS="")  # without the wheel it could not install anything
    seconds = time.perf_counter() - start
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert (finished / ".venv" / "ampcourse-setup.json").stat().st_mtime_ns == before
    assert seconds < 3


def test_make_does_the_same_in_a_path_with_space_and_accent(finished: Path) -> None:
    result = call(finished, ["make", "setup", f"PYTHON={sys.executable}"], PIP_FIND_LINKS="")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_changed_project_reinstalls_only_the_course(finished: Path) -> None:
    project = finished / "pyproject.toml"
    project.write_text(project.read_text() + "# changed\n")
    result = call(finished, PIP_FIND_LINKS="")
    assert (result.returncode, result.stdout, result.stderr) == (0, "Set-up: done.\n", "")


def test_a_changed_lock_is_installed_into_the_same_environment(finished: Path) -> None:
    (finished / ".venv" / "mine").touch()
    lock = finished / "requirements.lock"
    lock.write_text(lock.read_text() + "# changed\n")
    result = call(finished)
    assert result.returncode == 0, result.stderr
    assert "installing requirements.lock" in result.stdout
    assert (finished / ".venv" / "mine").exists()


def test_two_calls_at_once_end_well(clone: Path, quick: dict[str, str]) -> None:
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: call(clone, **quick), range(2)))
    assert [result.returncode for result in results] == [0, 0], results
    assert sum("installing" in result.stdout for result in results) == 1


def test_a_half_made_environment_is_made_anew(clone: Path, quick: dict[str, str]) -> None:
    python = clone / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    (clone / ".venv" / "left over").touch()
    result = call(clone, **quick)
    assert result.returncode == 0, result.stderr
    assert "making it anew" in result.stdout
    assert not (clone / ".venv" / "left over").exists()
    assert (clone / ".venv" / "ampcourse-setup.json").exists()


def test_a_stamp_whose_python_is_gone_or_moved_does_not_count(
    setup_venv: ModuleType, finished: Path, clone: Path
) -> None:
    shutil.copytree(finished / ".venv", clone / ".venv", symlinks=True)
    assert setup_venv.finished() == {}, "scripts in a moved .venv point to the old place"
    stamp = json.loads((clone / ".venv" / "ampcourse-setup.json").read_text())
    (clone / ".venv" / "ampcourse-setup.json").write_text(json.dumps(stamp | {"place": str(clone / ".venv")}))
    assert setup_venv.finished()
    for link in (clone / ".venv" / "bin").glob("python*"):
        link.unlink()
    (clone / ".venv" / "bin" / "python").symlink_to("/nowhere/python3")
    assert setup_venv.finished() == {}


@pytest.mark.parametrize("content", ["", "[]", "{broken", '{"place": 3}'])
def test_a_broken_stamp_does_not_count(setup_venv: ModuleType, clone: Path, content: str) -> None:
    (clone / ".venv").mkdir()
    (clone / ".venv" / "ampcourse-setup.json").write_text(content)
    assert setup_venv.finished() == {}


def test_an_environment_of_ones_own_is_used_as_it_is(clone: Path) -> None:
    result = call(clone, AMPCOURSE_VENV=sys.prefix)
    assert (result.returncode, result.stdout) == (0, "")
    assert not (clone / ".venv").exists()
    assert "no bin/python" in one_sentence(call(clone, AMPCOURSE_VENV=str(clone)))


# --- what can go wrong on the way ------------------------------------------------------------------------------------


def test_no_network(clone: Path, quick: dict[str, str]) -> None:
    settings = {
        "PIP_NO_INDEX": "",
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "1",
    }
    sentence = one_sentence(call(clone, **quick, **settings))
    assert "package index does not answer" in sentence
    assert not (clone / ".venv").exists()
    assert call(clone, **quick).returncode == 0, "with a network again, the next call must do it"


def test_stopped_by_the_user(clone: Path, quick: dict[str, str]) -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    slow = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "5"}  # pip waits longer from try to try
    command = [sys.executable, "tools/bootstrap.py"]
    with subprocess.Popen(
        command, cwd=clone, env=os.environ | quick | slow, start_new_session=True, **pipes
    ) as process:
        assert "installing" in process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody in the foreground gets it
        said = process.stderr.read()
    assert (process.returncode, said) == (130, "\nSet-up: stopped; the next call begins again.\n")
    assert not (clone / ".venv").exists()


def test_a_package_that_is_not_the_locked_one(clone: Path, quick: dict[str, str]) -> None:
    lock = clone / "requirements.lock"
    lock.write_text(lock.read_text().partition("sha256:")[0] + "sha256:" + "0" * 64)
    assert "not the one that requirements.lock names" in one_sentence(call(clone, **quick))


def test_no_package_for_this_machine(clone: Path, quick: dict[str, str]) -> None:
    (clone / "wheels" / "numpy-1.0-py3-none-any.whl").rename(clone / "wheels" / "numpy-1.0-cp311-cp311-plan9.whl")
    assert "no package numpy==1.0 for this machine" in one_sentence(call(clone, **quick))


def test_a_file_where_the_folder_belongs(clone: Path) -> None:
    (clone / ".venv").write_text("mine")
    assert "move it away" in one_sentence(call(clone))
    assert (clone / ".venv").read_text() == "mine"


def test_whatever_else_pip_says_is_kept_in_a_file(clone: Path, tmp_path: Path, quick: dict[str, str]) -> None:
    (clone / "backend.py").write_text("raise RuntimeError('the backend broke')")
    sentence = one_sentence(call(clone, **quick, TMPDIR=str(tmp_path)))
    (log,) = tmp_path.glob("ampcourse-setup-*.log")
    assert str(log) in sentence
    assert "the backend broke" in log.read_text("utf-8")


def test_a_disk_too_small_is_seen_before_anything_is_written(
    setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = type("usage", (), {"free": 1_500_000_000})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert setup_venv.main() == 1
    assert capsys.readouterr().err == (
        "Set-up: The disk has 1.5 GB free and the packages need 4: free some and call again.\n"
    )
    assert not setup_venv.VENV.exists()


def test_a_disk_that_fills_up_leaves_no_half_made_environment(
    setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list, each_line) -> tuple[int, str]:
        setup_venv.VENV.mkdir(exist_ok=True)
        full = f"ERROR: Could not install packages due to an OSError: [Errno 28] {os.strerror(errno.ENOSPC)}\n"
        return (1, full) if "pip" in command else (0, "")

    monkeypatch.setattr(setup_venv, "run", run)
    assert setup_venv.main() == 1
    assert (
        capsys.readouterr().err
        == "Set-up: The disk is full: free some GB (the packages need 3, with CUDA 7) and call again.\n"
    )
    assert not setup_venv.VENV.exists()


@pytest.mark.parametrize(
    ("number", "says"),
    [(errno.ENOSPC, "The disk is full"), (errno.EACCES, "cannot be written"), (errno.EIO, "refused")],
)
def test_what_the_system_refuses(
    setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, says: str
) -> None:
    def refuse() -> None:
        raise OSError(number, os.strerror(number), "/some/file")

    monkeypatch.setattr(setup_venv, "set_up", refuse)
    assert setup_venv.main() == 1
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


# --- with a GPU ------------------------------------------------------------------------------------------------------


def test_cuda_comes_when_asked_for_and_stays(setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    both = ["requirements.lock", "requirements-gpu.lock"]
    monkeypatch.delenv("AMPCOURSE_GPU", raising=False)
    assert setup_venv.lock_files({}) == both[:1]
    assert setup_venv.lock_files({"files": " ".join(both)}) == both
    monkeypatch.setenv("AMPCOURSE_GPU", "1")
    assert setup_venv.lock_files({}) == both
    monkeypatch.setenv("AMPCOURSE_GPU", "0")
    assert setup_venv.lock_files({"files": " ".join(both)}) == both[:1]


# --- on JAX ----------------------------------------------------------------------------------------------------------


def test_jax_has_an_environment_of_its_own(finished: Path) -> None:
    """The second call does nothing; the environment for TensorFlow stays as it is; a failure names the right files."""
    before = (finished / ".venv" / "ampcourse-setup.json").stat().st_mtime_ns
    command = [sys.executable, "tools/bootstrap.py", "jax"]
    first, second = call(finished, command, AMPCOURSE_GPU="1"), call(finished, command, PIP_FIND_LINKS="")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "installing requirements-jax.lock into .venv-jax (about 1 GB" in first.stdout
    assert (second.stdout, second.stderr) == ("", "")
    stamp = json.loads((finished / ".venv-jax" / "ampcourse-setup.json").read_text("utf-8"))
    assert (stamp["files"], stamp["place"]) == ("requirements-jax.lock", str(finished / ".venv-jax"))
    assert (finished / ".venv" / "ampcourse-setup.json").stat().st_mtime_ns == before
    lock = finished / "requirements-jax.lock"
    good = lock.read_text()
    lock.write_text(good.partition("sha256:")[0] + "sha256:" + "0" * 64)
    shutil.rmtree(finished / ".venv-jax")
    assert "not the one that requirements-jax.lock names" in one_sentence(call(finished, command))
    assert not (finished / ".venv-jax").exists()
    lock.write_text(good)
    assert "AMPCOURSE_VENV_JAX names" in one_sentence(call(finished, command, AMPCOURSE_VENV_JAX=str(finished)))
