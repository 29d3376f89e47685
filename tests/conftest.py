"""What every test shares: a private home for progress, no log lines from TensorFlow, `full` tests only if asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Generator

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "agg")

# Markers of tests that need a system package, which CI must have.
SYSTEM_PACKAGES = {"browser", "sandbox", "postgresql"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the long tests, as before a release")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_share(item)))
    if config.getoption("--full"):
        return
    skip = pytest.mark.skip(reason="long: run by `make test-full`")
    for item in items:
        if "full" in item.keywords:
            item.add_marker(skip)


def _share(item: pytest.Item) -> str:
    """What one process runs: a file, whose tests share what is slow to make; of all exercises, those of one lesson; of
    the hostile submissions, those of one way to start kernels."""
    file = item.nodeid.partition("::")[0]
    if file.endswith("/test_hostile.py") and hasattr(item, "callspec"):
        return f"{file} {item.callspec.id.partition('-')[0]}"
    lesson = re.search(r"\b([a-z0-9_]+)\.[a-z0-9_]+", item.callspec.id) if hasattr(item, "callspec") else None
    return f"{file} {lesson[1]}" if lesson and file.endswith("/test_every_exercise.py") else file


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a missing system package may not pass as a skip: there nobody would notice that a test never runs."""
    report = yield
    asked_for = "full" not in item.keywords or item.config.getoption("--full")
    if report.skipped and os.environ.get("AMPCOURSE_CI") and asked_for and SYSTEM_PACKAGES & set(item.keywords):
        report.outcome, report.longrepr = "failed", f"skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def _private_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the progress, or the fetched data, of the person who runs it."""
    monkeypatch.setenv("AMPCOURSE_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("AMPCOURSE_CACHE", str(tmp_path_factory.mktemp("cache")))
