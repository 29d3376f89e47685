"""The half beside the learner's code: what happened becomes plain facts, whatever the code does."""

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


def seen(answer: Any, inputs: Any = ONE, seconds: float | None = None, observer: Any = call) -> Seen:
    return read(observe(observer, wire.pack(inputs), answer, seconds))


def fault(answer: Any, **how: Any) -> Fault:
    found = seen(answer, **how)["all"]
    assert isinstance(found, Fault), found
    return found


def test_the_value_comes_back() -> None:
    assert seen(lambda x: x + 1)["all"]["value"].tolist() == [1, 2, 3]


def test_an_observer_may_be_named() -> None:
    assert seen(lambda x: x, observer="call")["all"]["value"].tolist() == [0, 1, 2]


def test_it_runs_where_answers_and_formats_do_not_exist() -> None:
    code = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("ampcourse.exercises.answers", "ampcourse.numerics", "ampcourse.exercises.engine")):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Gone())
from ampcourse.exercises import observe, observers, wire
seen = wire.unpack(observe.observe("call", wire.pack({"all": (2.0,)}), lambda x: x * 2))
assert seen["criteria"]["all"]["facts"]["value"] == 4.0
known = [m for m in sys.modules if m.startswith("ampcourse.")]
for forbidden in ("answers", "numerics", "engine", "compare", "check", "model"):
    assert not any(m.split(".")[-1] == forbidden for m in known), known
assert "tensorflow" not in sys.modules
print("ran")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("ran\n", "")


def test_an_answer_cannot_change_the_question() -> None:
    def wipes(x: np.ndarray) -> float:
        x[:] = 0
        return 0.0

    packed = wire.pack(ONE)
    observe(call, packed, wipes)
    assert read(observe(call, packed, lambda x: x))["all"]["value"].tolist() == [0, 1, 2]


def test_one_array_returned_again_and_again_keeps_each_result() -> None:
    held = np.zeros(1)

    def same_array(x: float) -> np.ndarray:
        held[0] = x
        return held

    found = seen(same_array, {"a": (1.0,), "b": (2.0,)})
    assert (found["a"]["value"][0], found["b"]["value"][0]) == (1, 2)


class TestNotAttempted:
    def test_a_stub(self) -> None:
        def stub(x: Any) -> Any:
            raise NotImplementedError

        assert fault(stub).kind == "untouched"

    def test_a_decorated_stub(self) -> None:
        tf = pytest.importorskip("tensorflow")

        @tf.function
        def stub(x: Any) -> Any:
            raise NotImplementedError

        assert fault(stub).kind == "untouched"

    def test_a_method_that_a_library_calls(self) -> None:
        keras = pytest.importorskip("keras")

        class Layer(keras.layers.Layer):
            def call(self, x: Any) -> Any:
                raise NotImplementedError

        assert fault(Layer()).kind == "untouched"

    @pytest.mark.parametrize("error", [NotImplementedError(""), NotImplementedError("later"), NotImplementedError(1)])
    def test_not_with_a_text(self, error: Exception) -> None:
        def says_why(x: Any) -> Any:
            raise error

        assert fault(says_why).kind == "raised"

    def test_not_a_subclass(self) -> None:
        class Mine(NotImplementedError):
            pass

        def own(x: Any) -> Any:
            raise Mine

        assert fault(own).kind == "raised"

    def test_not_from_a_library(self) -> None:
        import io

        assert fault(lambda x: io.RawIOBase().readinto(bytearray(1))).kind == "raised"

    def test_not_from_another_unwritten_function(self) -> None:
        def other() -> Any:
            raise NotImplementedError

        found = fault(lambda x: other())
        assert found.kind == "raised"
        assert "other" in found.frames[-1]


class TestRaised:
    def test_own_line_and_function(self) -> None:
        def divide(x: Any) -> Any:
            return 1 / 0  # my line

        found = fault(divide)
        assert (found.kind, found.type) == ("raised", "ZeroDivisionError")
        assert "divide" in found.frames[-1]
        assert "return 1 / 0  # my line" in found.frames[-1]
        assert len(found.frames) == 1, "no frames of ours"
        assert not found.inside

    def test_a_library_is_named_but_not_shown(self) -> None:
        found = fault(lambda x: np.linalg.solve(x, x))
        assert len(found.frames) == 1
        assert "numpy" in found.inside
        assert "solve" in found.inside

    def test_a_recursion_shows_a_few_lines(self) -> None:
        def again(x: Any) -> Any:
            return again(x)

        found = fault(again)
        assert found.type == "RecursionError"
        assert len(found.frames) <= 5

    def test_wrong_number_of_arguments(self) -> None:
        def two(x: Any, y: Any) -> Any:
            return x

        found = fault(two)
        assert found.type == "TypeError"
        assert "'y'" in found.text

    def test_system_exit_is_an_outcome(self) -> None:
        assert fault(lambda x: sys.exit(0)).type == "SystemExit"

    def test_an_interrupt_is_passed_on(self) -> None:
        def interrupted(x: Any) -> Any:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            seen(interrupted)
        sys.stderr.write("")  # restored

    def test_an_error_that_cannot_be_shown(self) -> None:
        class Awkward(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        def raises(x: Any) -> Any:
            raise Awkward

        assert (fault(raises).type, fault(raises).text) == ("Awkward", "")

    def test_long_and_strange_messages_are_cut_and_cleaned(self) -> None:
        def raises(x: Any) -> Any:
            raise ValueError("\ud800\x1b[31m\u202e" + "y" * 10**6)

        text = fault(raises).text
        assert len(text) < 600
        assert not set("\ud800\x1b\u202e") & set(text)

    def test_a_function_made_into_a_graph_shows_the_lines_as_written(self) -> None:
        tf = pytest.importorskip("tensorflow")

        @tf.function
        def multiply(x: Any) -> Any:
            return tf.matmul(x[None, :], tf.zeros((5, 5), x.dtype))

        found = fault(multiply)
        assert found.type == "ValueError"
        assert found.text.startswith("Dimensions must be equal, but are 3 and 5 for 'MatMul(")
        assert [frame.partition(",")[0] for frame in found.frames] == ["multiply"]
        assert "tf.matmul(x[None, :], tf.zeros((5, 5), x.dtype))" in found.frames[0]
        assert found.inside == "tensorflow"

    def test_an_error_inside_a_layer_is_the_layers_own(self) -> None:
        keras = pytest.importorskip("keras")

        class Layer(keras.layers.Layer):
            def call(self, x: Any) -> Any:
                return x.no_such_thing

        found = fault(Layer())
        assert found.type == "AttributeError"
        assert "no_such_thing" in found.text
        assert "x.no_such_thing" in found.frames[-1]

    def test_tensorflow_messages_lose_node_names(self) -> None:
        tf = pytest.importorskip("tensorflow")
        found = fault(lambda x: tf.matmul(tf.zeros((2, 3)), tf.zeros((2, 3))))
        assert "function_node" not in found.text
        assert found.inside.startswith("tensorflow")
        assert len(found.frames) == 1


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


def test_too_much_in_all_is_said() -> None:
    found = seen(lambda x: [np.zeros(900_000 + i) for i in range(3)])["all"]
    assert isinstance(found, Fault)
    assert "too much" in str(found)
