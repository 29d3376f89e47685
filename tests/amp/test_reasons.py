"""What an error says in one line, and that every tool says it for every kind of thing that goes wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcourse.amp import dtype_table, hlo, rewritten_graph
from ampcourse.amp.reasons import essence

X = np.zeros((2, 3), "float32")


class Model(keras.Model):
    """A model whose `call` is the function it is given."""

    def __init__(self, inside: Callable[[Any], Any]) -> None:
        super().__init__(name="model")
        self.inside = inside

    def call(self, x: Any) -> Any:
        return self.inside(x)


def fails(x: Any) -> Any:
    raise RuntimeError("the first line\nthe second line")


def no_key(x: Any) -> Any:
    return {"a": x}["b"]


def branches(x: Any) -> Any:
    return x if tf.reduce_sum(x) > 0 else -x


def in_numpy(x: Any) -> Any:
    return np.tanh(np.asarray(x))


def small() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="small")


CASES = {
    "raises": (lambda: Model(fails), X, "the first line"),
    "no key": (lambda: Model(no_key), X, "there is no key 'b'"),
    "branches": (lambda: Model(branches), X, "symbolic"),
    "in NumPy": (lambda: Model(in_numpy), X, "symbolic"),
    "another shape": (small, np.zeros((2, 5), "float32"), "value 3|shape.*3"),
    "no axis": (small, np.float32(1), r"\(None, 3\)"),
    "text": (small, "text", "Python's str"),
    "lists of numbers": (small, [[1.0, 2.0, 3.0]], "Python's float"),
    "objects": (small, np.array([[1, None, 2]]), "object"),
    "dates": (small, np.array(["2020-01-01"], "datetime64[D]"), "datetime64|dates"),
    "symbolic": (small, keras.KerasTensor((2, 3)), "no values"),
    "an iterator": (small, iter([1]), "iterator"),
}


@pytest.mark.parametrize("tool", [dtype_table, hlo, rewritten_graph])
@pytest.mark.parametrize("case", CASES)
def test_every_tool_says_what_is_wrong(case: str, tool: Callable, capfd: pytest.CaptureFixture) -> None:
    make, sample, says = CASES[case]
    with pytest.raises(ValueError, match=says) as caught:
        tool(make(), sample)
    text = str(caught.value)
    assert text.endswith(".") and len(text) < 450
    assert not [noise for noise in ("\n", "\x1b", "\\n", "Exception encountered", "def ", "...", "..") if noise in text]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("tool", [dtype_table, hlo, rewritten_graph])
def test_what_a_model_prints_while_it_is_traced_is_kept_away(tool: Callable, capfd: pytest.CaptureFixture) -> None:
    def speaks(x: Any) -> Any:
        sys.stdout.write("said")
        tf.get_logger().warning("logged")
        return x

    tool(Model(speaks), X)
    assert capfd.readouterr() == ("", "")


def test_several_arguments_are_told_apart_from_one() -> None:
    class Two(keras.Model):
        def call(self, x: Any, other: Any) -> Any:
            return x + other

    for call in (lambda: dtype_table(Two(), X), lambda: rewritten_graph(Two(), X), lambda: hlo(Two(), X)):
        with pytest.raises(ValueError, match="missing a required argument: 'other'") as caught:
            call()
        assert "line" not in str(caught.value) and "Python's `if`" not in str(caught.value)


KERAS = "Exception encountered when calling A.call().\n\n\x1b[1mtold\x1b[0m\n\nArguments received by A.call():"
AUTOGRAPH = 'in user code:\n\n    File "a.py", line 3, in f  *\n        x = y\n\n    TypeError: told.\n'
STACK = 'told\n\nStack trace:\nFile "a.py", line 3, in f\nFile "b.py", line 4\n\t [[{{node x}}]]'


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError(""), "ValueError"),
        (KeyError("k"), "there is no key 'k'"),
        (KeyError(3), "there is no key 3"),
        (KeyError(KERAS), "there is no key 'told'"),
        (ValueError(KERAS), "told"),
        (TypeError(AUTOGRAPH), "told"),
        (ValueError(STACK), "told"),
        (ValueError("A first sentence. " + "x" * 300), "A first sentence"),
    ],
)
def test_the_essence(error: Exception, says: str) -> None:
    assert essence(error) == says
    assert len(essence(ValueError("x" * 300))) == 240
