"""The low-precision formats that the checks know, and how numbers are told."""

from __future__ import annotations

from typing import Any

import numpy as np

from ampcourse.numerics.formats import BFLOAT16, FLOAT16

LOW = {"float16": FLOAT16, "bfloat16": BFLOAT16}
WIDE = ("float32", "float64")


def dtype_of(tensor: Any) -> str:
    """Name of a tensor's, variable's or array's dtype."""
    dtype = getattr(tensor, "dtype", tensor)
    return str(getattr(dtype, "name", dtype))


def is_low(tensor: Any) -> bool:
    """Whether a tensor is float16 or bfloat16."""
    return dtype_of(tensor) in LOW


def as_float(value: Any) -> np.ndarray | None:
    """Numbers as a float64 array; None for what holds no numbers."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "USOV" and str(array.dtype) not in LOW:
            return None
        with np.errstate(all="ignore"):
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def rounded(value: np.ndarray, dtype: str) -> np.ndarray:
    """Values rounded to a low-precision format, as float64."""
    return np.asarray(LOW[dtype].round(value))


def told(number: float) -> str:
    """A number as people write it."""
    if number != number or number in (float("inf"), float("-inf")):
        return str(number)
    if number == int(number) and abs(number) < 1e7:
        return f"{int(number):,}"
    return f"{number:.3g}"
