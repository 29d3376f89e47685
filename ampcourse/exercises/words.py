"""Values in words, short enough to read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ampcourse.exercises.frames import clean


def show(value: Any) -> str:
    """A value for people: short, exact where that is short, with powers of two named."""
    if isinstance(value, str):
        return repr(clean(value, 60))
    if isinstance(value, dict):
        parts = [f"{k!r}: {show(v)}" for k, v in list(value.items())[:6]]
        return "{" + ", ".join(parts) + (", ..." if len(value) > 6 else "") + "}"
    if isinstance(value, list | tuple):
        parts = [show(v) for v in value[:6]] + (["..."] if len(value) > 6 else [])
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
    flat = [show(v) for v in value.reshape(-1)[:6]]
    if value.ndim == 1:
        return f"[{', '.join(flat)}{', ...' if value.size > 6 else ''}]"
    if value.size <= 6:
        return "[" + ", ".join(_show_array(row) for row in value) + "]"
    return f"array of shape {value.shape}: {', '.join(flat[:3])}, ..."
