"""The package, its data, its figures and the help of its commands need no TensorFlow."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_it_imports_and_reads_its_pictures() -> None:
    import ampcourse

    (x, y), (_, test) = ampcourse.data.load()
    assert (x.shape, y.shape, test.shape) == ((10_000, 28, 28, 1), (10_000,), (2_000,))
    assert x.dtype == np.float32


@pytest.mark.parametrize("module", ["ampcourse", "ampcourse.data", "ampcourse.numerics", "ampcourse.plots"])
def test_importing_is_silent(module: str) -> None:
    result = run("-c", f"import {module}")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_command_explains_itself() -> None:
    from ampcourse.cli import main

    for name in ("", *main.commands):
        result = run("-m", "ampcourse.cli", *name.split(), "--help")
        assert result.returncode == 0 and "Usage: " in result.stdout, name
        assert result.stderr == "", name


def test_numbers_and_figures_work() -> None:
    from ampcourse import numerics, plots

    assert numerics.FORMATS and plots
    assert "tensorflow" not in sys.modules
