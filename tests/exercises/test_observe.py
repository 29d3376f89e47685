"""The half beside the learner's code: what happened becomes plain facts, whatever the code does."""

from __future__ import annotations

import subprocess
import sys
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


def test_an_observer_may_be_named_with_the_lesson_that_needs_it() -> None:
    def doubles(scale: float, good: int, finite: bool, growth: int) -> tuple[float, int, bool]:
        return scale * 2, good, finite

    packed = wire.pack({"all": (1.0, 0, 10, [True, False])})
    facts = wire.unpack(observe("loss_scaling.drive_loss_scale", packed, doubles))["criteria"]["all"]["facts"]
    assert facts["scale"].tolist() == [2.0, 4.0]


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

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (lambda *args: None, ("cannot be used", "NoneType", "return")),
            (lambda *args: (1.0, 2), ("cannot be used", "unpack")),
            (lambda *args: ("x", 1, True), ("cannot be used", "float")),
            (lambda *args: (None, 1, True), ("cannot be used", "float", "return")),
        ],
    )
    def test_what_the_observer_cannot_use_is_no_error_of_ours(self, answer: Any, words: tuple) -> None:
        found = fault(answer, inputs={"all": (2.0, 0, 3, [True])}, observer="loss_scaling.drive_loss_scale")
        assert found.kind == "unusable"
        for word in words:
            assert word in found.text

    def test_too_few_parameters_for_an_observer_too(self) -> None:
        found = fault(lambda scale: 1.0, inputs={"all": (2.0, 0, 3, [True])}, observer="loss_scaling.drive_loss_scale")
        assert found.kind == "raised"
        assert "argument" in found.text

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

    def test_a_lambda_made_into_a_graph(self) -> None:
        tf = pytest.importorskip("tensorflow")
        found = fault(tf.function(lambda x: x + missing))  # noqa: F821
        assert found.type == "NameError"
        assert [frame.partition(",")[0] for frame in found.frames] == ["<lambda>"]

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


def test_too_much_in_all_is_said() -> None:
    found = seen(lambda x: [np.zeros(900_000 + i) for i in range(3)])["all"]
    assert isinstance(found, Fault)
    assert "too much" in str(found)
