"""The time that an answer may take, and that the alarm is as before afterwards."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np
import pytest

from ampcourse.exercises import wire
from ampcourse.exercises.compare import Seen, read
from ampcourse.exercises.observe import observe
from ampcourse.exercises.observers import call

ONE = {"all": (np.arange(3.0),)}


def seen(answer: Any, inputs: Any = ONE, seconds: float | None = None) -> Seen:
    return read(observe(call, wire.pack(inputs), answer, seconds))


def test_an_endless_loop_is_stopped_and_the_rest_not_run() -> None:
    def endless(x: Any) -> Any:
        while True:
            pass

    began = time.monotonic()
    found = seen(endless, {"a": (1.0,), "b": (1.0,)}, seconds=0.3)
    assert time.monotonic() - began < 5
    assert (found["a"].kind, found["b"].kind) == ("timeout", "timeout")
    assert "0.3 seconds" in str(found["a"])


def test_catching_everything_does_not_help() -> None:
    def stubborn(x: Any) -> Any:
        while True:
            with contextlib.suppress(Exception):
                time.sleep(60)

    assert seen(stubborn, seconds=0.2)["all"].kind == "timeout"


def test_sleeping_a_little_is_fine() -> None:
    assert seen(lambda x: time.sleep(0.05) or x, seconds=5)["all"]["value"].size == 3


def test_the_alarm_is_left_as_it_was() -> None:
    signal = pytest.importorskip("signal")
    seen(lambda x: x, seconds=5)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_an_alarm_of_the_learner_is_not_taken() -> None:
    signal = pytest.importorskip("signal")
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        assert seen(lambda x: x, seconds=5)["all"]["value"].size == 3
    finally:
        signal.signal(signal.SIGALRM, before)
