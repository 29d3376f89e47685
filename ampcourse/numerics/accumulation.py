"""Sums and dot products in a format, every step rounded: where small terms are swamped by a large partial sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.numerics.formats import Format, get_format
from ampcourse.numerics.inputs import as_float64, some_float64

_ORDERS = ("sequential", "pairwise")


def accumulate(values: Any, format: str | Format = "float16", start: float = 0.0) -> np.ndarray:
    """Partial sums from left to right, as float64: start + v1, start + v1 + v2, ..., each rounded to the format.

    The values (taken in C order) and `start` are rounded to the format before. Every addition is correctly rounded.
    Recursive summation in Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 4.1.

    Raises ValueError for an unknown format or no values, TypeError for what is not real numbers.
    """
    chosen = get_format(format)
    terms = chosen.round(some_float64(values)).tolist()
    total = float(chosen.round(_one_number(start, "start")))
    nearest = _scalar_round(chosen)
    sums = np.empty(len(terms))
    for i, term in enumerate(terms):
        total = nearest(total + term)
        sums[i] = total
    return sums


def swamped(values: Any, format: str | Format = "float16", start: float = 0.0) -> np.ndarray:
    """For each value, whether adding it left the partial sum of `accumulate` as it was.

    A value that the format stores as zero has not been swamped, and a sum that has overflowed swamps nothing.
    Micikevicius et al. 2018 (arXiv:1710.03740), section 3.1, describe it for weight updates. Raises as `accumulate`.
    """
    chosen = get_format(format)
    sums = accumulate(values, chosen, start)
    before = np.concatenate([[chosen.round(start)], sums[:-1]])
    return (sums == before) & np.isfinite(sums) & (chosen.round(some_float64(values)) != 0)


def sum_in(values: Any, format: str | Format = "float16", order: str = "sequential") -> float:
    """The sum of the values in a format, every addition rounded.

    "sequential" adds from left to right: the error bound grows with the number of terms n. "pairwise" adds neighbours,
    then neighbouring sums, and so on: it grows with log2(n) (Higham 2002, section 4.2). Raises as `accumulate`, and
    ValueError for another order.
    """
    if order not in _ORDERS:
        raise ValueError(f"order must be 'sequential' or 'pairwise', not {order!r}.")
    chosen = get_format(format)
    if order == "sequential":
        return float(accumulate(values, chosen)[-1])
    level = chosen.round(some_float64(values))
    while level.size > 1:
        left_over = level[level.size & ~1 :]
        with np.errstate(invalid="ignore"):  # inf - inf is NaN here as it is on the hardware
            sums = chosen.round(level[:-1:2] + level[1::2])
        level = np.concatenate([sums, left_over])
    return float(level[0])


def dot(a: Any, b: Any, multiply: str | Format = "float16", accumulate: str | Format = "float32") -> float:
    """The dot product of a and b: inputs rounded to the format `multiply`, products and sums to `accumulate`.

    The significand of a product of two float16 or two bfloat16 values fits into float32's, so ("float16", "float32")
    adds exact products in float32: the recipe of Micikevicius et al. 2018 (arXiv:1710.03740), section 3.3, but for
    its last step, rounding the result to float16. With ("float16", "float16") every product is rounded to float16.
    Adds from left to right, in C order.

    Raises ValueError for an unknown format, different shapes or no values, TypeError for what is not real numbers.
    """
    inputs, sums = get_format(multiply), get_format(accumulate)
    left, right = as_float64(a, "a"), as_float64(b, "b")
    if left.shape != right.shape:
        raise ValueError(f"a and b must have the same shape, not {left.shape} and {right.shape}.")
    with np.errstate(invalid="ignore"):  # inf * 0 is NaN here as it is on the hardware
        products = inputs.round(some_float64(left, "a")) * inputs.round(some_float64(right, "b"))
    return sum_in(products, sums)


def _scalar_round(format: Format) -> Callable[[float], float]:
    """Rounds one float: a sum from left to right cannot be vectorised, and numpy is slow on scalars."""
    emin, last_place, largest = format.emin, 52 - format.fraction_bits, format.largest
    beyond = math.inf if format.infinities else math.nan

    def nearest(x: float) -> float:
        if not math.isfinite(x):
            return x if format.infinities else math.nan
        # 1.5 * 2**52 units of x's last place: the float64 addition itself then rounds to that place, ties to even.
        align = math.ldexp(1.5, max(math.frexp(x)[1] - 1, emin) + last_place)
        rounded = math.copysign(abs(x + align - align), x)
        return rounded if abs(rounded) <= largest else math.copysign(beyond, x)

    return nearest


def _one_number(value: Any, name: str) -> np.ndarray:
    number = as_float64(value, name)
    if number.ndim:
        raise TypeError(f"{name} must be one number, not an array of shape {number.shape}.")
    return number
