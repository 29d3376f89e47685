"""Whatever a function returns becomes plain facts or one clear sentence; nothing it does to be looked at can hurt."""

from __future__ import annotations

import array
import collections
import decimal
import fractions
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ampcourse.exercises.engine import check_once
from ampcourse.exercises.facts import Unusable, facts
from ampcourse.exercises.model import Exercise

VALUES = np.array([1.5, -2.0, 0.25])
SAME_VALUES = {
    "array": VALUES,
    "list": VALUES.tolist(),
    "tuple": tuple(VALUES.tolist()),
    "list of numpy scalars": list(VALUES),
    "list of float16": list(VALUES.astype(np.float16)),
    "list of bfloat16": list(VALUES.astype(ml_dtypes.bfloat16)),
    "bfloat16": VALUES.astype(ml_dtypes.bfloat16),
    "float8": VALUES.astype(ml_dtypes.float8_e4m3fn),
    "big-endian": VALUES.astype(">f4"),
    "long double": VALUES.astype(np.longdouble),
    "strided": np.repeat(VALUES, 2)[::2],
    "subclass": VALUES.view(np.recarray),
    "masked": np.ma.masked_array(VALUES),
    "array.array": memoryview(array.array("d", VALUES)),
    "fractions": [fractions.Fraction(3, 2), fractions.Fraction(-2), fractions.Fraction(1, 4)],
    "decimals": [decimal.Decimal("1.5"), decimal.Decimal(-2), decimal.Decimal("0.25")],
    "named tuple": collections.namedtuple("T", "a b c")(*VALUES),
}


@pytest.mark.parametrize("value", SAME_VALUES.values(), ids=SAME_VALUES)
def test_numbers_are_numbers_however_they_are_held(value: Any) -> None:
    found = facts(value)
    assert list(found) == ["value"]
    assert found["value"].astype(np.float64).tolist() == VALUES.tolist()


def test_dtypes_are_kept() -> None:
    assert facts(VALUES.astype(ml_dtypes.bfloat16))["value"].dtype == ml_dtypes.bfloat16
    assert facts(list(VALUES.astype(np.float16)))["value"].dtype == np.float16


def test_tensorflow_values_are_numbers_too() -> None:
    tf = pytest.importorskip("tensorflow")
    for value in (tf.constant(VALUES), tf.Variable(VALUES), tf.constant(VALUES, tf.bfloat16)):
        assert facts(value)["value"].astype(np.float64).tolist() == VALUES.tolist()
    pair = facts([tf.constant(1.5), tf.constant(2.5)])
    assert pair["value"].tolist() == [1.5, 2.5]
    assert facts(tf.bfloat16)["value"] == "bfloat16"
    for strange in (tf.RaggedTensor.from_row_lengths([1, 2, 3], [1, 2]), tf.sparse.from_dense([0, 1])):
        with pytest.raises(Unusable):
            facts(strange)


def test_keras_values_are_numbers_too() -> None:
    keras = pytest.importorskip("keras")
    assert facts(keras.Variable(VALUES))["value"].tolist() == VALUES.tolist()
    symbolic = keras.KerasTensor((3,))
    with pytest.raises(Unusable):
        facts(symbolic)


@pytest.mark.parametrize("value", ["float16", np.float16, np.dtype("float16")], ids=repr)
def test_a_dtype_is_its_name(value: Any) -> None:
    assert facts(value) == {"value": "float16"}


def test_parts_are_named_by_key_or_position() -> None:
    found = facts({"a": 1, "b": [np.zeros(2), np.zeros(3)], "c": ["x", 2.0], "d": {"e": True}})
    assert list(found) == ["a", "b.0", "b.1", "c.0", "c.1", "d.e"]
    assert found["c.0"] == "x"


def test_facts_are_copies() -> None:
    source = np.zeros(3)
    found = facts(source[:])
    source[:] = 1
    assert not found["value"].any()


class Lying(list):
    """Says it is short and is not."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Any:
        return iter([7.0])


class Endless:
    def __len__(self) -> int:
        return 10**12

    def __getitem__(self, i: int) -> float:
        return 1.0


class Raising:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not look")

    def __repr__(self) -> str:
        raise RuntimeError("do not look")


class BadArray:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no array")


class HugeArray:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.broadcast_to(1.0, (10**5, 10**4))


def doubled(times: int) -> list:
    value: list = [1.0]
    for _ in range(times):
        value = [value, value]
    return value


def looped() -> list:
    value: list = []
    value.append(value)
    return value


REFUSED = {
    "nothing": (None, "return"),
    "generator": ((i for i in range(3)), "list"),
    "map": (map(float, [1]), "list"),
    "dict view": ({1: 2}.values(), "list"),
    "function": (np.sin, "call"),
    "class": (Endless, "call"),
    "set": ({1.0}, "set"),
    "bytes": (b"abc", "bytes"),
    "complex": (1j, "complex"),
    "object": (object(), "object"),
    "endless": (Endless(), "Endless"),
    "raising": (Raising(), "Raising"),
    "bad array": (BadArray(), "RuntimeError"),
    "huge array": (np.broadcast_to(1.0, (10**5, 10**4)), "too large"),
    "huge in __array__": (HugeArray(), "too large"),
    "huge in a list": ([np.broadcast_to(1.0, (10**5, 10**4))] * 2, "too much"),
    "huge in a ragged list": ([np.broadcast_to(1.0, 10**9), 1.0], "too much"),
    "huge by sharing": (doubled(28), "too much"),
    "too deep": (doubled(60), "nested"),
    "loop": (looped(), "nested"),
    "huge range": (range(10**12), "too"),
    "huge integer": (10**400, "too large"),
    "huge integer in a list": ([10**400, "a"], "too large"),
    "long text": ("x" * 10**6, "text"),
    "too many parts": ([str(i) for i in range(10**5)], "parts"),
    "None inside": ([1.0, None], "None"),
    "empty dict": ({}, "empty"),
    "array of texts": (np.array(["x"]), "expected numbers"),
    "array of objects": (np.array([object()]), "expected numbers"),
    "structured": (np.zeros(2, [("a", "f4")]), "expected numbers"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), "expected numbers"),
}


@pytest.mark.parametrize(("value", "word"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_judged_is_said_in_one_sentence(value: Any, word: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unusable) as refusal:
        facts(value)
    assert word in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300
    assert time.monotonic() - began < 5


def test_a_list_is_what_it_holds_not_what_it_says() -> None:
    assert facts(Lying([1.0, 2.0, 3.0]))["value"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("right", "belongs"),
    [("a word", "a text"), (1.5, "a number"), (True, "True or False"), (np.ones(3), "an array")],
    ids=["text", "number", "bool", "array"],
)
def test_none_in_an_answer_is_told_with_what_belongs_there(right: Any, belongs: str) -> None:
    def parts(answer: Any) -> dict[str, Any]:
        return {"first": 1.0, "second": answer()}

    asked = Exercise("demo.parts", lambda rng: {"all": ()}, lambda: right, {"all": 1}, observer=parts)
    says = check_once(asked, lambda: None).criteria[0].says
    assert says == f"'second' is None, where {belongs} belongs: is a `return` missing?"


def test_none_in_a_list_is_told_with_its_position() -> None:
    asked = Exercise("demo.list", lambda rng: {"all": ()}, lambda: [1.0, 2.0, 3.0], {"all": 1})
    says = check_once(asked, lambda: [1.0, None, 3.0]).criteria[0].says
    assert says.startswith("position 1 is None, where a number belongs")
    one = Exercise("demo.one", lambda rng: {"all": ()}, lambda: "text", {"all": 1})
    assert check_once(one, lambda: {"a": None}).criteria[0].says == "'a' is None and was not asked for"
