"""Values in words, short enough to read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ampcourse.exercises.frames import clean

_LONGEST = 160
"""Characters; what would be longer, such as a batch of arrays, is told by its shape."""


def show(value: Any) -> str:
    """A value for people: short, exact where that is short, with powers of two named."""
    text = _show(value)
    if len(text) <= _LONGEST or not isinstance(value, dict | list | tuple):
        return text
    outlines = (_outline(value, most, ranges) for most, ranges in ((6, True), (6, False), (2, True), (2, False)))
    return next((outline for outline in outlines if len(outline) <= _LONGEST), _outline(value, 1, False))


def _outline(value: Any, most: int, ranges: bool) -> str:
    """A nest of lists: arrays by shape and range, and of each list or dict so many parts and the number of them all."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"array of shape {value.shape}" + (_range(value) if ranges else "")
    if not isinstance(value, dict | list | tuple):
        return _show(value)
    if isinstance(value, dict):
        parts = [f"{k!r}: {_outline(v, most, ranges)}" for k, v in list(value.items())[:most]]
    else:
        parts = [_outline(v, most, ranges) for v in value[:most]]
    parts += [f"... {len(value)} in all"] if len(value) > most else []
    left, right = "{}" if isinstance(value, dict) else "[]" if isinstance(value, list) else "()"
    return f"{left}{', '.join(parts)}{right}"


def _range(value: np.ndarray) -> str:
    if not value.size or value.dtype.kind not in "fiuV":
        return ""
    numbers = value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    lost = f", {numbers.size - finite.size} not finite" if finite.size < numbers.size else ""
    return (f" from {finite.min():.3g} to {finite.max():.3g}" if finite.size else "") + lost


def _show(value: Any) -> str:
    if isinstance(value, str):
        return repr(clean(value, 60))
    if isinstance(value, dict):
        parts = [f"{k!r}: {_show(v)}" for k, v in list(value.items())[:6]]
        return "{" + ", ".join(parts) + (", ..." if len(value) > 6 else "") + "}"
    if isinstance(value, list | tuple):
        parts = [_show(v) for v in value[:6]] + (["..."] if len(value) > 6 else [])
        left, right = "[]" if isinstance(value, list) else "()"
        return f"{left}{', '.join(parts)}{',' if isinstance(value, tuple) and len(value) == 1 else ''}{right}"
    if isinstance(value, np.ndarray) and value.ndim:
        return _show_array(value)
    number = value.item() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(number, np.generic | np.ndarray) or str(getattr(value, "dtype", "")) in ("bfloat16",):
        number = float(number)
    return _show_float(number) if isinstance(number, float) else repr(number)


def _show_float(number: float) -> str:
    if not np.isfinite(number):
        return str(number)
    mantissa, exponent = np.frexp(number)
    if abs(mantissa) == 0.5 and not 2**-10 < abs(number) < 2**20:
        return f"{'-' if number < 0 else ''}2**{exponent - 1}"
    short = f"{number:.9g}"
    return short if float(short) == number or "." in short else f"{number:.1f}"


def _show_array(value: np.ndarray) -> str:
    if not value.size:
        return f"empty array of shape {value.shape}"
    flat = [_show(v) for v in value.reshape(-1)[:6]]
    if value.ndim == 1:
        return f"[{', '.join(flat)}{', ...' if value.size > 6 else ''}]"
    if value.size <= 6:
        return "[" + ", ".join(_show_array(row) for row in value) + "]"
    return f"array of shape {value.shape}: {', '.join(flat[:3])}, ..."
