"""Plain data as bytes and back, without pickle: what crosses the wall between a learner's code and the answers.

JSON carries the structure; arrays travel as raw bits with dtype and shape, so every value arrives bit by bit,
bfloat16 and float8 included. Bytes are not trusted: there is a size limit before anything is parsed, dtypes come from
a list, and sizes must agree. Whatever is not plain data in full is refused.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import ml_dtypes
import numpy as np

LARGEST_MESSAGE = 16 << 20
"""Bytes; longer messages are refused unread."""
LARGEST_ARRAY = 8 << 20
"""Bytes of one array before packing."""
LARGEST_INTEGER = 1024
"""Bits."""
DEEPEST = 32
"""Levels of lists and dicts."""
MOST_DIMENSIONS, LONGEST_DIMENSION = 64, 1 << 62
MOST_OTHER_KEYS = 256
"""Keys of one dict that are no text: numbers and tuples can be chosen so that all of them have the same hash."""

_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_SMALL = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e4m3fnuz", "float8_e5m2fnuz")
DTYPES: dict[str, np.dtype] = {
    name: np.dtype(name) for name in ("bool", *_INTEGERS, "float16", "float32", "float64")
} | {name: np.dtype(getattr(ml_dtypes, name)) for name in _SMALL}
NAMES: dict[np.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


class WireError(ValueError):
    """This is not plain data, or too much of it; the sentence says what."""


def pack(value: Any) -> bytes:
    """Plain data to bytes.

    Raises:
        WireError: if the value, or anything in it, is not plain data, or is too large.
    """
    message = json.dumps(_packed(value, DEEPEST), separators=(",", ":")).encode("ascii")
    if len(message) > LARGEST_MESSAGE:
        raise WireError(f"{len(message):,} bytes are too many: at most {LARGEST_MESSAGE:,} can be sent")
    return message


def unpack(message: bytes) -> Any:
    """Bytes to plain data: a fresh copy at every call, arrays writable.

    Raises:
        WireError: whatever the bytes are, if they are not what `pack` makes.
    """
    if len(message) > LARGEST_MESSAGE:
        raise WireError(f"{len(message):,} bytes are too many: at most {LARGEST_MESSAGE:,} are read")
    try:
        return _unpacked(json.loads(message))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        raise WireError(f"not plain data: {type(error).__name__}") from None


def _packed(value: Any, depth: int) -> Any:
    if depth < 0:
        raise WireError(f"lists and dicts are nested more than {DEEPEST} levels deep")
    kind = type(value)
    if kind is int and value.bit_length() > LARGEST_INTEGER:
        raise WireError("a whole number is too large")
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_packed(v, depth - 1) for v in value]
    if kind is tuple:
        return {"tuple": [_packed(v, depth - 1) for v in value]}
    if kind is dict:
        if sum(type(key) is not str for key in value) > MOST_OTHER_KEYS:
            raise WireError(f"a dict has more than {MOST_OTHER_KEYS} keys that are no text")
        return {"dict": [[_packed(k, depth - 1), _packed(v, depth - 1)] for k, v in value.items()]}
    if kind is np.ndarray or isinstance(value, np.generic):
        return _packed_array(value)
    raise WireError(f"{kind.__name__} is not plain data")


def _packed_array(value: np.ndarray | np.generic) -> dict[str, Any]:
    if value.nbytes > LARGEST_ARRAY:  # of a broadcast array too, which is small only until it is copied
        raise WireError(f"an array of shape {value.shape} is too large: {value.nbytes:,} bytes")
    if value.dtype not in NAMES:
        raise WireError(f"arrays of {value.dtype} are not plain data")
    data = base64.b64encode(value.tobytes()).decode("ascii")
    form = "array" if isinstance(value, np.ndarray) else "scalar"
    return {form: NAMES[value.dtype], "shape": list(value.shape), "data": data}


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(v) for v in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"tuple"}:
        return tuple(_unpacked(value["tuple"]))
    if value.keys() == {"dict"}:
        return _unpacked_dict(value["dict"])
    if value.keys() == {"array", "shape", "data"}:
        return _unpacked_array(value["array"], value["shape"], value["data"])
    if value.keys() == {"scalar", "shape", "data"}:
        return _unpacked_array(value["scalar"], [], value["data"])[()]
    raise ValueError("unknown form")


def _unpacked_dict(pairs: list[list]) -> dict[Any, Any]:
    if sum(type(key) is not str for key, _ in pairs) > MOST_OTHER_KEYS:
        raise ValueError("too many keys that are no text")
    return {_unpacked(key): _unpacked(value) for key, value in pairs}


def _unpacked_array(name: str, shape: list[int], data: str) -> np.ndarray:
    dtype, raw = DTYPES[name], base64.b64decode(data, validate=True)
    # Sizes are bounded before they are multiplied: the product of a million long numbers takes hours.
    plain = len(shape) <= MOST_DIMENSIONS and all(type(n) is int and 0 <= n < LONGEST_DIMENSION for n in shape)
    if not plain or math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError("shape and data disagree")
    if dtype == np.bool_:  # bytes other than 0 and 1 would be neither true nor false
        return (np.frombuffer(raw, np.uint8) != 0).reshape(shape)
    return np.frombuffer(raw, dtype).reshape(shape).copy()
