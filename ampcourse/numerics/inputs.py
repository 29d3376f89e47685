"""Checks that every function here makes of what it is given, so that a mistake gets one sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def as_float64(values: Any, name: str = "values") -> np.ndarray:
    """Any real numbers as a float64 array; exact for all float formats up to float64 and integers up to 2**53.

    May be the array itself: callers must not write into it.

    Raises TypeError for text, complex numbers, ragged lists and other objects.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        if isinstance(values, list | tuple):
            raise TypeError(f"{name} must be numbers in a regular array; its rows have different lengths.") from error
        raise TypeError(
            f"{name} cannot be read as an array of numbers: {type(values).__name__} gave '{error}'."
        ) from error
    # ml_dtypes' formats have kind "V"; they are told from other void types by being castable to float64.
    if array.dtype.kind not in "biuf" and not (array.dtype.kind == "V" and np.can_cast(array.dtype, np.float64)):
        raise TypeError(f"{name} must be real numbers, not {_describe(values, array)}.")
    with np.errstate(all="ignore"):  # a signalling NaN is data here, not an accident
        return array.astype(np.float64, copy=False)


def some_float64(values: Any, name: str = "values") -> np.ndarray:
    """As `as_float64`, but flat in C order, and a ValueError where there is nothing."""
    array = as_float64(values, name).ravel()
    if array.size == 0:
        raise ValueError(f"{name} is empty; at least one number is needed.")
    return array


def positive(value: Any, name: str) -> float:
    """A finite number above zero, as float."""
    if isinstance(value, str | bytes) or np.ndim(value) != 0:
        raise TypeError(f"{name} must be one number, not {type(value).__name__}.")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be one number, not {type(value).__name__}.") from error
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be finite and above zero, not {number:g}.")
    return number


def _describe(values: Any, array: np.ndarray) -> str:
    return type(values).__name__ if array.dtype == object and array.ndim == 0 else f"an array of {array.dtype}"
