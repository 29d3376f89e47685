"""Output and stderr: code may do what it likes with them, and all is as before afterwards."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from ampcourse import quiet, quietly


def captured(code: Callable[[], Any]) -> quiet.Captured:
    with quietly() as found:
        code()
    return found


def test_prints_are_kept_and_cut() -> None:
    def prints() -> None:
        for _ in range(200_000):
            sys.stdout.write("line\n")

    found = captured(prints)
    assert found.printed.startswith("line")
    assert len(found.printed) < 2_200
    assert "more characters" in found.printed


def test_nothing_reaches_stderr(capfd: pytest.CaptureFixture) -> None:
    def noisy() -> None:
        warnings.warn("careful", stacklevel=1)
        sys.stderr.write("python\n")
        os.write(2, b"descriptor\n")
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'child\\n')"], check=True)

    found = captured(noisy)
    for word in ("careful", "python", "descriptor", "child"):
        assert word in found.warned
    assert capfd.readouterr().err == ""
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n", "stderr works again"


def test_log_lines_of_tensorflow_are_no_warnings() -> None:
    def logs() -> None:
        os.write(2, b"2025-01-01 10:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN\n")
        os.write(2, b"I0000 00:00:1764527384.123456   12345 cpu_feature_guard.cc:227] This\n")

    assert captured(logs).warned == ""


def test_a_logger_made_before_is_quiet_and_put_back(capfd: pytest.CaptureFixture) -> None:
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("a.library")
    logger.addHandler(handler)
    try:
        before = handler.stream
        assert "from a library" in captured(lambda: logger.warning("from a library")).warned
        assert handler.stream is before
        logger.warning("afterwards")
        assert capfd.readouterr().err == "afterwards\n"
    finally:
        logger.removeHandler(handler)


def test_a_logger_made_meanwhile_works_afterwards(capfd: pytest.CaptureFixture) -> None:
    logger = logging.getLogger("another.library")

    def imports_a_library() -> None:
        logger.addHandler(logging.StreamHandler(sys.stderr))
        logger.warning("first")

    try:
        assert "first" in captured(imports_a_library).warned
        logger.warning("second")
        assert capfd.readouterr().err == "second\n"
        assert "third" in captured(lambda: logger.warning("third")).warned
        assert capfd.readouterr().err == ""
    finally:
        logger.handlers.clear()


def test_closing_or_replacing_stdout_does_no_harm() -> None:
    before = sys.stdout, sys.stderr

    def closes() -> None:
        sys.stdout.close()
        sys.stderr = None
        sys.stdout = None

    captured(closes)
    assert (sys.stdout, sys.stderr) == before


def test_from_several_threads_at_once(capfd: pytest.CaptureFixture) -> None:
    before, done = (sys.stdout, sys.stderr), []

    def code() -> None:
        with quietly():
            os.write(2, b"quiet\n")
            time.sleep(0.02)
        done.append(True)

    threads = [threading.Thread(target=code) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 8
    assert (sys.stdout, sys.stderr) == before
    capfd.readouterr()
    os.write(2, b"still here\n")
    assert capfd.readouterr().err == "still here\n"


def test_a_block_inside_a_block() -> None:
    inner = quiet.Captured()

    def nested() -> None:
        nonlocal inner
        sys.stdout.write("outer ")
        inner = captured(lambda: sys.stdout.write("inner"))

    assert (captured(nested).printed, inner.printed) == ("outer ", "inner")


def test_an_error_leaves_the_streams_as_they_were() -> None:
    before = sys.stdout, sys.stderr

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        captured(fails)
    assert (sys.stdout, sys.stderr) == before
