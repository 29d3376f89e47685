"""From whatever a learner's code returned to plain facts: named arrays and texts, of bounded size.

Values may lie about their length, size or contents, or raise when looked at, so types are checked before anything of
theirs is called, and nothing is copied before its size is known.
"""

from __future__ import annotations

import decimal
import fractions
from typing import Any

import numpy as np

from ampcourse.exercises.wire import DEEPEST, LARGEST_ARRAY, NAMES

Facts = dict[str, np.ndarray | str]

MOST_FACTS = 2_000
LONGEST_TEXT = 20_000
_MOST_ELEMENTS = LARGEST_ARRAY  # of one byte at least
_PLAIN = (bool, int, float, np.generic)


class Unusable(Exception):
    """What was returned cannot be judged; the sentence says why.

    Attributes:
        at: the name of the fact that is None, if that is what is wrong: whoever judges knows what belongs there.
    """

    def __init__(self, says: str, at: str = "") -> None:
        super().__init__(says)
        self.at = at


def facts(value: Any) -> Facts:
    """Name everything in `value`: dicts by key, lists by position where their parts differ in shape, else "value".

    Raises:
        Unusable: if it is nothing, not numbers or text, or too much.
    """
    if value is None:
        raise Unusable("nothing was returned: is a `return` missing?")
    found: Facts = {}
    try:
        _collect(value, "", found, DEEPEST)
    except Unusable:
        raise
    except Exception as error:  # what was returned may be code of the learner's too
        raise Unusable(f"{_name(value)} was returned, and looking at it raises {type(error).__name__}") from None
    return found


def _collect(value: Any, path: str, found: Facts, depth: int) -> None:
    if depth < 0:
        raise Unusable("lists and dicts are nested too deep")
    if isinstance(value, dict):
        parts = [(_key(k), v) for k, v in dict.items(value)]
    elif isinstance(value, list | tuple):
        array = _uniform(value)
        parts = list(enumerate(_plain_list(value))) if array is None else None
        value = array
    else:
        parts = None
    if parts is None:
        if len(found) >= MOST_FACTS:
            raise Unusable(f"more than {MOST_FACTS:,} separate parts were returned")
        if value is None:
            raise Unusable("None was returned for a part of the answer", at=path or "value")
        found[path or "value"] = _leaf(value)
        return
    if not parts:
        raise Unusable("an empty dict was returned")
    for key, part in parts:
        _collect(part, f"{path}.{key}" if path else str(key), found, depth - 1)


def _key(key: Any) -> str:
    return str(key)[:200] if type(key) in (str, int, float, bool) else type(key).__name__


def _plain_list(value: list | tuple) -> list:
    """The elements that are really there, whatever a subclass says of itself."""
    return list((list if isinstance(value, list) else tuple).__iter__(value))


def _uniform(value: list | tuple) -> np.ndarray | None:
    """The list as one array, or None where its parts are texts, dicts or of different shapes."""
    count, plain = _count(value, DEEPEST, {})
    if count > _MOST_ELEMENTS:
        raise Unusable(f"too much was returned: more than {_MOST_ELEMENTS:,} numbers")
    try:
        if plain:
            array = np.asarray(_plain_list(value))
        else:
            leaves = [_list_leaf(v) for v in _plain_list(value)]
            if any(leaf is None or leaf.shape != leaves[0].shape for leaf in leaves):
                return None
            array = np.stack(leaves)
    except (ValueError, OverflowError, TypeError):
        return None
    return array if array.dtype in NAMES else None


def _list_leaf(value: Any) -> np.ndarray | None:
    if isinstance(value, list | tuple):
        return _uniform(value)
    return None if value is None or isinstance(value, str | dict) else _leaf(value)


def _count(value: Any, depth: int, known: dict[int, tuple[int, bool]]) -> tuple[int, bool]:
    """How many numbers a list holds when written out, and whether they are all of types known to be harmless.

    A list may hold another one many times, so what is counted already is looked up in `known`.
    """
    if depth < 0:
        raise Unusable("lists are nested too deep")
    if isinstance(value, np.ndarray):
        return int(np.ndarray.size.__get__(value)), type(value) is np.ndarray
    if not isinstance(value, list | tuple):
        return 1, isinstance(value, _PLAIN)
    if id(value) in known:
        return known[id(value)]
    count, plain, parts = 0, type(value) in (list, tuple), _plain_list(value)
    if set(map(type, parts)) <= {float, int, bool}:
        count, parts = len(parts), []
    for part in parts:
        inner, inner_plain = _count(part, depth - 1, known)
        count, plain = count + inner, plain and inner_plain
    return known.setdefault(id(value), (count, plain))


def _leaf(value: Any) -> np.ndarray | str:
    if isinstance(value, str):
        text = str.__str__(value)
        if len(text) > LONGEST_TEXT:
            raise Unusable(f"a text of {len(text):,} characters was returned")
        return text
    if (name := _dtype_name(value)) is not None:
        return name
    array = _array(value)
    if array.nbytes > LARGEST_ARRAY:
        raise Unusable(f"an array of shape {array.shape} is too large to be an answer ({array.nbytes:,} bytes)")
    if array.dtype.kind in "fiu":  # big-endian, or longer than travels
        longest = np.float64 if array.dtype.kind == "f" and array.dtype.itemsize > 8 else array.dtype
        array = array.astype(np.dtype(longest).newbyteorder("="), copy=False)
    if array.dtype not in NAMES:
        raise Unusable(_unexpected(value, array))
    return np.array(array)  # a copy: an answer may return one array again and again, or a view of its input


def _array(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return np.asarray(value)  # of a subclass, the array inside
    if isinstance(value, fractions.Fraction | decimal.Decimal):
        return np.asarray(float(value))
    if isinstance(value, range):
        if len(value) > _MOST_ELEMENTS:
            raise Unusable(f"a range of {len(value):,} numbers is too large to be an answer")
        return np.asarray(list(value))
    if isinstance(value, (*_PLAIN, complex, memoryview)):
        return np.asarray(value)
    if not hasattr(type(value), "__array__"):  # anything else numpy would ask for its length and every element
        raise Unusable(_unexpected(value, None))
    try:
        array = np.asarray(value)
    except Exception as error:
        raise Unusable(
            f"{_name(value)} was returned, which cannot be turned into numbers ({type(error).__name__})"
        ) from None
    return array


def _dtype_name(value: Any) -> str | None:
    """The name of a dtype, however it is spelled: np.float16, np.dtype("float16"), tf.float16."""
    if isinstance(value, np.dtype):
        return str(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return str(np.dtype(value))
    if type(value).__name__ == "DType" and type(value).__module__.startswith("tensorflow."):
        return str(value.name)
    return None


def _name(value: Any) -> str:
    if issubclass(type(value), np.ndarray):  # asked of the type: the value may lie about its class, or raise
        return "an array"
    if issubclass(type(value), bytes | bytearray):
        return "bytes"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _unexpected(value: Any, array: np.ndarray | None) -> str:
    if callable(value):
        return f"{_name(value)} was returned, not its result: is a call missing?"
    if hasattr(type(value), "__next__") or type(value).__name__.startswith("dict_"):
        return f"{_name(value)} was returned: turn it into a list or an array first"
    if isinstance(value, int):
        return "a whole number was returned that is too large for any array"
    inside = f" of {array.dtype}" if array is not None and array.dtype != object else ""
    return f"expected numbers or text, got {_name(value)}{inside}"
