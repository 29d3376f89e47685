"""A notebook's surroundings: nothing of the person's own leaks in or out, and nothing costs time for nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ampcourse.reproduce import processes


@pytest.fixture
def surroundings(monkeypatch, tmp_path):
    for name in processes._THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AMPCOURSE_PROFILE", "grade")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("AMPCOURSE_HOME", "/home/learner")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return lambda profile="cpu", threads=2: processes.environment(tmp_path, "mark", profile, threads)


def test_settings_that_change_results_do_not_leak_in(surroundings):
    assert not {"AMPCOURSE_PROFILE", "TF_USE_LEGACY_KERAS"} & set(surroundings())
    assert surroundings()["KERAS_BACKEND"] == "tensorflow"


def test_a_run_never_writes_the_learners_progress_or_history(surroundings, tmp_path):
    for name in ("AMPCOURSE_HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        assert Path(surroundings()[name]).is_relative_to(tmp_path)


def test_the_cpu_profile_hides_gpus_and_the_gpu_profile_shares_their_memory(surroundings):
    assert surroundings("cpu")["CUDA_VISIBLE_DEVICES"] == "-1"
    assert "CUDA_VISIBLE_DEVICES" not in surroundings("gpu")
    assert surroundings("gpu")["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"


def test_threads_are_limited_but_a_persons_own_limit_counts(surroundings, monkeypatch):
    assert surroundings(threads=3)["TF_NUM_INTRAOP_THREADS"] == "3"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert surroundings(threads=3)["OMP_NUM_THREADS"] == "1"


def test_sockets_fit_even_where_the_temporary_folder_has_a_long_name(monkeypatch, tmp_path):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    folder = processes.scratch_folder()
    try:
        assert len(f"{folder}/99/k-5") <= 103
    finally:
        folder.rmdir()


def test_only_marked_processes_are_killed():
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    marked = subprocess.Popen(sleeps, env={processes.MARK: "test-mark"})
    other = subprocess.Popen(sleeps, env={processes.MARK: "another"})
    try:
        assert processes.kill("test-mark") == 1
        assert marked.wait(10) == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_notebooks_process_does_not_build_the_slow_grammar():
    code = "import sys, ampcourse.reproduce.engine, nbformat; sys.exit('rfc3987_syntax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
