"""What crosses the wall arrives bit by bit, and nothing else arrives at all."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ampcourse.exercises import wire
from ampcourse.exercises.compare import read

plain_arrays = hnp.arrays(
    dtype=st.sampled_from([np.dtype(c) for c in "?bBhHiIqQefd"]), shape=hnp.array_shapes(min_dims=0, min_side=0)
)
small_floats = st.builds(
    lambda bits, name: np.array(bits, np.uint8 if "8" in name.split("_")[0][-2:] else np.uint16).view(
        getattr(ml_dtypes, name)
    ),
    st.lists(st.integers(0, 255), max_size=5),
    st.sampled_from(["bfloat16", "float8_e4m3fn", "float8_e5m2"]),
)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | plain_arrays | small_floats
plain = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(a: object, b: object) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return a == b


@given(plain)
@settings(max_examples=150, deadline=None)
def test_plain_data_arrives_bit_by_bit(value: object) -> None:
    assert same(wire.unpack(wire.pack(value)), value)


@pytest.mark.parametrize("scalar", [np.float16(0.1), np.int64(-3), np.bool_(True), ml_dtypes.bfloat16(1.5)])
def test_numpy_scalars_stay_scalars(scalar: np.generic) -> None:
    back = wire.unpack(wire.pack(scalar))
    assert type(back) is type(scalar)
    assert back == scalar


def test_each_unpacking_is_a_fresh_writable_copy() -> None:
    packed = wire.pack([np.zeros(3)])
    wire.unpack(packed)[0][:] = 1
    assert not wire.unpack(packed)[0].any()


def test_non_contiguous_and_broadcast_arrays_arrive() -> None:
    for array in (np.arange(12).reshape(3, 4).T[::2], np.broadcast_to(1.5, (4, 5))):
        assert np.array_equal(wire.unpack(wire.pack(array)), array)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        b"bytes",
        1j,
        np.array(["x"]),
        np.array([object()]),
        np.zeros(2, "V4"),
        np.broadcast_to(1.0, (10**5, 10**4)),
        ["x" * (17 << 20)],
        10**4000,
        {"a": [lambda: 1]},
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_not_plain_data_is_not_sent(value: object) -> None:
    with pytest.raises(wire.WireError):
        wire.pack(value)


def test_a_list_in_itself_is_not_sent() -> None:
    loop: list = []
    loop.append(loop)
    with pytest.raises(wire.WireError):
        wire.pack(loop)


def forged(**changes: object) -> bytes:
    array = {"array": "float64", "shape": [1], "data": base64.b64encode(bytes(8)).decode()} | changes
    return json.dumps(
        {"dict": [["criteria", {"dict": [["a", {"dict": [["facts", {"dict": [["value", array]]}]]}]]}]]}
    ).encode()


FORGED = {
    "nothing": b"",
    "half": b"{",
    "no observation": b"[]",
    "null": b"null",
    "nested": b"[" * 100_000,
    "nested dicts": b'{"dict":[["a",' * 50_000,
    "too long": b"x" * (17 << 20),
    "not text": bytes(range(256)),
    "unknown form": b'{"pickle": "gASVAAAA"}',
    "unhashable key": b'{"dict": [[[1], 2]]}',
    "not pairs": b'{"dict": [1]}',
    "huge number": b"1" * 5000,
    "unknown dtype": forged(array="object"),
    "dtype is a list": forged(array=[1]),
    "too few bytes": forged(shape=[2]),
    "astronomic shape": forged(shape=[10**12]),
    "negative shape": forged(shape=[-1]),
    "negative twice": forged(shape=[-1, -1]),
    "shape is text": forged(shape="1"),
    "shape of floats": forged(shape=[1.0]),
    "shape of bools": forged(shape=[True]),
    "zero times astronomic": forged(shape=[2**70, 0], data=""),
    "too many axes": forged(shape=[1] * 100),
    "not base64": forged(data="!!!!"),
    "data is a number": forged(data=8),
    "extra key": forged(more=1),
}


@pytest.mark.parametrize("message", FORGED.values(), ids=FORGED)
def test_forged_bytes_are_no_facts_and_crash_nothing(message: bytes) -> None:
    seen = read(message)
    assert not seen.criteria
    assert seen["a"].kind == "missing"


def test_forged_bools_are_true_or_false() -> None:
    raw = base64.b64encode(bytes([0, 1, 2, 255])).decode()
    back = wire.unpack(json.dumps({"array": "bool", "shape": [4], "data": raw}).encode())
    assert back.tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    "entry",
    [1, [], {}, {"facts": 1}, {"facts": {"value": 1.0}}, {"facts": {1: np.zeros(1)}}, {"fault": 1}, {"fault": {}}]
    + [{"fault": {"kind": "raised", "frames": f}} for f in (1, [1], [{"line": "x"}])],
    ids=repr,
)
def test_observations_of_the_wrong_form_are_no_facts(entry: object) -> None:
    message = wire.pack({"criteria": {"a": entry}, "printed": "", "warned": ""})
    assert read(message)["a"].kind == "missing"


def test_an_unknown_kind_of_fault_is_no_observation() -> None:
    entry = {"fault": {"kind": "right", "text": "full marks"}}
    assert read(wire.pack({"criteria": {"a": entry}, "printed": "", "warned": ""}))["a"].kind == "missing"


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda t: t.encode("utf-8", "surrogatepass")))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_refused(message: bytes) -> None:
    read(message)
    with contextlib.suppress(wire.WireError):
        wire.unpack(message)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["float64", "bool", "AAAA", "", "value"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["dict", "tuple", "array", "scalar", "shape", "data", "facts", "fault"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(json_values)
@settings(max_examples=300, deadline=None)
def test_any_json_is_read_or_refused(value: object) -> None:
    message = json.dumps(value).encode()
    read(message)
    with contextlib.suppress(wire.WireError):
        wire.unpack(message)


def _long_shapes() -> str:
    sizes = ",".join(["9" * 4_000] * 500)
    return f'{{"array":"bool","data":"","shape":[{sizes}]}}'


def _keys_of_one_hash() -> str:
    pairs = ",".join(f"[{(2**61 - 1) * n},0]" for n in range(1, 30_000))
    return f'{{"dict":[{pairs}]}}'


def _tuples_of_one_hash() -> str:
    keys = [",".join("-1" if n >> bit & 1 else "-2" for bit in range(14)) for n in range(1 << 14)]
    pairs = ",".join('[{"tuple":[' + key + "]},0]" for key in keys)
    return f'{{"dict":[{pairs}]}}'


@pytest.mark.parametrize("forge", [_long_shapes, _keys_of_one_hash, _tuples_of_one_hash])
def test_no_message_takes_much_longer_than_its_length(forge: Callable[[], str]) -> None:
    message = forge().encode()
    began = time.process_time()
    with pytest.raises(wire.WireError):
        wire.unpack(message)
    assert time.process_time() - began < 1
