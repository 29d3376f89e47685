"""Numbers as words: for labels, alternative texts, and the one-sentence errors of bad arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ampcourse.numerics import Format, get_format


def exponent_of(value: float) -> int | None:
    """k where value is exactly 2**k, else None."""
    if not (math.isfinite(value) and value > 0):
        return None
    significand, exponent = math.frexp(value)
    return exponent - 1 if significand == 0.5 else None


def spell(value: float) -> str:
    """A number in a sentence: 3 to 4 digits, thousands separated, small or large powers of two as powers."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if (k := exponent_of(value)) is not None and not 0.1 <= value < 1e6:
        return f"2^{k}"
    return f"{value:.3g}" if abs(value) < 1e4 or abs(value) >= 1e6 else f"{value:,.0f}"


def power(value: float) -> str:
    """A loss scale or a gap: as a power of two where it is one, other than 1, 2, 4 and 8."""
    k = exponent_of(abs(float(value)))
    if k is None or 0 <= k <= 3:
        return spell(value)
    return f"{'-' if value < 0 else ''}2^{k}"


def raised(text: str) -> str:
    """Words for a figure: the exponent of `2^-14` raised."""
    head, caret, exponent = text.partition("^")
    return f"${head}^{{{exponent}}}$" if caret else text


def percent(fraction: float) -> str:
    """A fraction as a percentage; what is not quite 0 or 1 never reads as 0 % or 100 %."""
    if math.isnan(fraction):
        return "undefined"
    if fraction in (0.0, 1.0):
        return f"{fraction * 100:.0f} %"
    if fraction < 1e-6:
        return "<0.0001 %"
    if 0.9999 < fraction < 1:
        return ">99.99 %"
    if fraction < 0.01:
        return f"{float(f'{fraction * 100:.2g}'):.4f}".rstrip("0") + " %"
    return f"{fraction * 100:.{2 if 0.99 < fraction < 1 else 1}f} %"


def listed(parts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last


def as_formats(formats: Any) -> list[Format]:
    """One format, its name, or several of them, as a list without repeats.

    Raises:
        ValueError: for none, for an unknown one, or for one named twice.
    """
    given = [formats] if isinstance(formats, str | Format) else list(formats)
    found = [get_format(one) for one in given]
    if not found:
        raise ValueError("No format was given: name at least one, such as 'float16'.")
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"The format '{twice[0]}' was given twice: name each format once.")
    return found


def as_numbers(values: Any, what: str) -> np.ndarray:
    """A flat float64 array of what was given: a number, an array, a tensor, or a list of arrays of any shapes.

    Raises:
        ValueError: if it is empty or holds something that is not a real number.
    """
    parts = values if isinstance(values, list | tuple) else [values]
    try:
        flat = np.concatenate([_real(part) for part in parts]) if parts else np.empty(0)
    except (TypeError, ValueError):
        raise ValueError(f"The {what} must be numbers: give an array, or a list of arrays.") from None
    if not flat.size:
        raise ValueError(f"There are no {what} to draw: give at least one number.")
    return flat


def _real(part: Any) -> np.ndarray:
    array = np.ravel(np.asarray(part))
    if array.dtype.kind in "OUSc":
        raise TypeError(array.dtype)
    return array.astype(np.float64)


def as_interval(x: Any, what: str = "x") -> tuple[float, float]:
    """A range of positive numbers, both ends finite.

    Raises:
        ValueError: if it is not two positive numbers in rising order.
    """
    try:
        low, high = (float(end) for end in x)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a range of two numbers, such as (2**-4, 2**4).") from None
    if not (0 < low < high < math.inf):
        raise ValueError(f"{what} runs from {low:g} to {high:g}: give two positive numbers, the smaller one first.")
    return low, high


def as_scale(scale: Any) -> float:
    """A loss scale: one positive finite number.

    Raises:
        ValueError: for anything else.
    """
    try:
        number = float(scale)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"The loss scale must be one positive number such as 2.0**15, not {scale!r}.")
    return number
