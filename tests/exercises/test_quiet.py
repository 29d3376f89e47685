"""Output, stderr and time: the learner's code may do what it likes with them, and all is as before afterwards."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

from ampcourse.exercises import wire
from ampcourse.exercises.compare import Fault, Seen, read
from ampcourse.exercises.observe import observe
from ampcourse.exercises.observers import call

ONE = {"all": (np.arange(3.0),)}


def seen(answer: Any, inputs: Any = ONE, seconds: float | None = None) -> Seen:
    return read(observe(call, wire.pack(inputs), answer, seconds))


def fault(answer: Any, **how: Any) -> Fault:
    found = seen(answer, **how)["all"]
    assert isinstance(found, Fault), found
    return found


class TestQuiet:
    def test_prints_are_kept_and_cut(self) -> None:
        def prints(x: Any) -> Any:
            for _ in range(200_000):
                sys.stdout.write("line\n")
            return x

        found = seen(prints)
        assert found["all"]["value"].size == 3
        assert found.printed.startswith("line")
        assert len(found.printed) < 2_200
        assert "more characters" in found.printed

    def test_nothing_reaches_stderr(self, capfd: pytest.CaptureFixture) -> None:
        def noisy(x: Any) -> Any:
            warnings.warn("careful", stacklevel=1)
            sys.stderr.write("python\n")
            os.write(2, b"descriptor\n")
            subprocess.run([sys.executable, "-c", "import os; os.write(2, b'child\\n')"], check=True)
            return x

        found = seen(noisy)
        for word in ("careful", "python", "descriptor", "child"):
            assert word in found.warned
        assert capfd.readouterr().err == ""
        os.write(2, b"later\n")
        assert capfd.readouterr().err == "later\n", "stderr works again"

    def test_log_lines_of_tensorflow_are_no_warnings(self) -> None:
        def logs(x: Any) -> Any:
            os.write(2, b"2025-01-01 10:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN\n")
            os.write(2, b"I0000 00:00:1764527384.123456   12345 cpu_feature_guard.cc:227] This\n")
            return x

        assert seen(logs).warned == ""

    def test_a_logger_made_before_is_quiet_and_put_back(self, capfd: pytest.CaptureFixture) -> None:
        handler = logging.StreamHandler(sys.stderr)
        logger = logging.getLogger("a.library")
        logger.addHandler(handler)
        try:
            before = handler.stream
            assert "from a library" in seen(lambda x: logger.warning("from a library") or x).warned
            assert handler.stream is before
            logger.warning("afterwards")
            assert capfd.readouterr().err == "afterwards\n"
        finally:
            logger.removeHandler(handler)

    def test_a_logger_made_meanwhile_works_afterwards(self, capfd: pytest.CaptureFixture) -> None:
        logger = logging.getLogger("another.library")

        def imports_a_library(x: Any) -> Any:
            logger.addHandler(logging.StreamHandler(sys.stderr))
            logger.warning("first")
            return x

        try:
            assert "first" in seen(imports_a_library).warned
            logger.warning("second")
            assert capfd.readouterr().err == "second\n"
            assert "third" in seen(lambda x: logger.warning("third") or x).warned
            assert capfd.readouterr().err == ""
        finally:
            logger.handlers.clear()

    def test_closing_or_replacing_stdout_does_no_harm(self) -> None:
        before = sys.stdout, sys.stderr

        def closes(x: Any) -> Any:
            sys.stdout.close()
            sys.stderr = None
            sys.stdout = None
            return x

        assert seen(closes)["all"]["value"].size == 3
        assert (sys.stdout, sys.stderr) == before

    def test_from_several_threads_at_once(self, capfd: pytest.CaptureFixture) -> None:
        before, found = (sys.stdout, sys.stderr), []

        def answer(x: Any) -> Any:
            time.sleep(0.02 * len(found))
            return x

        threads = [threading.Thread(target=lambda: found.append(seen(answer, seconds=5))) for _ in range(8)]
        for thread in threads:
            thread.start()
            time.sleep(0.005)
        for thread in threads:
            thread.join()
        assert [f["all"]["value"].size for f in found] == [3] * 8
        assert (sys.stdout, sys.stderr) == before
        os.write(2, b"still here\n")
        assert capfd.readouterr().err == "still here\n"

    def test_a_check_inside_a_check(self) -> None:
        def checks_something_else(x: Any) -> Any:
            sys.stdout.write("outer ")
            inner = seen(lambda y: sys.stdout.write("inner") and y)
            return [inner["all"]["value"].sum(), inner.printed == "inner"]

        found = seen(checks_something_else)
        assert found["all"]["value"].tolist() == [3, 1]
        assert found.printed == "outer "


class TestTime:
    def test_an_endless_loop_is_stopped_and_the_rest_not_run(self) -> None:
        def endless(x: Any) -> Any:
            while True:
                pass

        began = time.monotonic()
        found = seen(endless, {"a": (1.0,), "b": (1.0,)}, seconds=0.3)
        assert time.monotonic() - began < 5
        assert (found["a"].kind, found["b"].kind) == ("timeout", "timeout")
        assert "0.3 seconds" in str(found["a"])

    def test_catching_everything_does_not_help(self) -> None:
        def stubborn(x: Any) -> Any:
            while True:
                with contextlib.suppress(Exception):
                    time.sleep(60)

        assert fault(stubborn, seconds=0.2).kind == "timeout"

    def test_sleeping_a_little_is_fine(self) -> None:
        assert seen(lambda x: time.sleep(0.05) or x, seconds=5)["all"]["value"].size == 3

    def test_the_alarm_is_left_as_it_was(self) -> None:
        signal = pytest.importorskip("signal")
        seen(lambda x: x, seconds=5)
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL

    def test_an_alarm_of_the_learner_is_not_taken(self) -> None:
        signal = pytest.importorskip("signal")
        before = signal.signal(signal.SIGALRM, lambda *_: None)
        try:
            assert seen(lambda x: x, seconds=5)["all"]["value"].size == 3
        finally:
            signal.signal(signal.SIGALRM, before)
