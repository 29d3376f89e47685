"""In CI a test that is skipped for want of something fails; on a user's machine it is skipped with its reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from clone import ROOT

TESTS = """
import pytest

@pytest.mark.browser
def test_in_a_browser():
    pytest.skip("Chromium is not installed")

@pytest.mark.full
def test_that_takes_an_hour():
    pass

@pytest.mark.full
@pytest.mark.browser
def test_that_takes_an_hour_in_a_browser():
    pass

def test_where_there_is_nothing_to_test():
    pytest.skip("root may write anywhere")
"""


@pytest.mark.parametrize(("ci", "status", "summary"), [("", 0, "4 skipped"), ("1", 1, "1 failed, 3 skipped")])
def test_skips_fail_in_ci_only(tmp_path: Path, ci: str, status: int, summary: str) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-rs", tmp_path]
    settings = os.environ | {"AMPCOURSE_CI": ci, "PYTEST_ADDOPTS": "-p no:cacheprovider"}
    result = subprocess.run(command, env=settings, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == status, result.stdout
    assert summary in result.stdout
    assert "Chromium is not installed" in result.stdout
