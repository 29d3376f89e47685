"""What a format does to gradients: their exponents, what is flushed, subnormal or overflowing, and the error left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.numerics.formats import Format, get_format
from ampcourse.numerics.inputs import as_float64, positive, some_float64


@dataclass(frozen=True, eq=False)
class ExponentHistogram:
    """How many values have which exponent floor(log2(abs(value))).

    `exponents` (int64) runs from the least to the greatest without gaps and `counts` (int64) belongs to it; both are
    empty where no value is finite and non-zero. `zeros` and `nonfinite` are counted apart; `total` counts all.
    """

    exponents: np.ndarray
    counts: np.ndarray
    zeros: int
    nonfinite: int
    total: int


@dataclass(frozen=True)
class Fate:
    """What became of values when they were scaled and stored in a format.

    `flushed` (stored as zero), `subnormal`, `normal` and `overflowed` are fractions of the finite non-zero values and
    add up to 1; where there are none, all four are 0. `zeros`, `nonfinite` and `total` are counts of what was given.
    `relative_error` is the L2 norm of (stored / scale - value) over the L2 norm of value, for the finite values, and
    infinite if one overflowed.
    """

    flushed: float
    subnormal: float
    normal: float
    overflowed: float
    zeros: int
    nonfinite: int
    total: int
    relative_error: float
    scale: float
    format: str


def exponent_histogram(values: Any) -> ExponentHistogram:
    """Counts values by exponent, as in Micikevicius et al. 2018 (arXiv:1710.03740), figure 3 and section 3.2.

    Raises ValueError for no values, TypeError for what is not real numbers.
    """
    array = some_float64(values)
    usable = array[np.isfinite(array) & (array != 0)]
    exponents, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    if usable.size:
        each = np.frexp(usable)[1].astype(np.int64) - 1  # exact, where log2 may round up just below a power of two
        exponents = np.arange(each.min(), each.max() + 1)
        counts = np.bincount(each - exponents[0])
    return ExponentHistogram(exponents, counts, _count(array == 0), _count(~np.isfinite(array)), array.size)


def fate(values: Any, format: str | Format = "float16", scale: float = 1.0) -> Fate:
    """Scales values, stores them in a format and says what became of them: see `Fate`.

    Zeros alone mislead: subnormals are kept but imprecise, which only the relative error shows. Loss scaling is due to
    Micikevicius et al. 2018 (arXiv:1710.03740), section 3.2.

    Raises ValueError for no values, an unknown format, or a scale that is not finite and above zero; TypeError for
    what is not real numbers.
    """
    return _fate(some_float64(values), get_format(format), positive(scale, "scale"))


def fate_by_scale(values: Any, scales: Any, format: str | Format = "float16") -> list[Fate]:
    """The fate of values under each of several loss scales, in their order; raises as `fate` does."""
    array, chosen = some_float64(values), get_format(format)
    if not isinstance(scales, Iterable):
        raise TypeError(f"scales must be a list or array of numbers, not {type(scales).__name__}.")
    return [_fate(array, chosen, positive(scale, "each scale")) for scale in scales]


def relative_error(values: Any, stored: Any) -> float:
    """L2 norm of (stored - values) over the L2 norm of values: 0 is exact, 1 is what storing only zeros gives.

    Infinite where something stored is not finite, or where all values are zero and something stored is not. Raises
    ValueError for no values, different shapes, or values that are not finite; TypeError for what is not real numbers.
    """
    wanted, got = as_float64(values, "values"), as_float64(stored, "stored")
    if wanted.shape != got.shape:
        raise ValueError(f"values and stored must have the same shape, not {wanted.shape} and {got.shape}.")
    wanted = some_float64(wanted)
    if not np.isfinite(wanted).all():
        raise ValueError("values must be finite: an error relative to inf or NaN means nothing.")
    return _relative_error(wanted, got.ravel())


def _relative_error(wanted: np.ndarray, got: np.ndarray) -> float:
    if not np.isfinite(got).all():
        return float("inf")
    size = np.abs(wanted).max(initial=0.0)
    if size == 0:
        return 0.0 if not got.any() else float("inf")
    with np.errstate(over="ignore", under="ignore"):
        # Divided by the largest first: squares of gradients near 1e-170 would be zero even in float64.
        return float(np.linalg.norm(got / size - wanted / size) / np.linalg.norm(wanted / size))


def _fate(array: np.ndarray, format: Format, scale: float) -> Fate:
    finite = array[np.isfinite(array)]
    with np.errstate(over="ignore", under="ignore"):
        stored = format.round(finite * scale)
        error = _relative_error(finite, stored / scale)
    magnitude = np.abs(stored[finite != 0])
    count = max(magnitude.size, 1)
    flushed = _count(magnitude == 0)
    overflowed = _count(~np.isfinite(magnitude))
    normal = _count(np.isfinite(magnitude) & (magnitude >= format.least_normal))
    return Fate(
        flushed=flushed / count,
        subnormal=(magnitude.size - flushed - normal - overflowed) / count,
        normal=normal / count,
        overflowed=overflowed / count,
        zeros=finite.size - magnitude.size,
        nonfinite=array.size - finite.size,
        total=array.size,
        relative_error=error,
        scale=scale,
        format=format.name,
    )


def _count(mask: np.ndarray) -> int:
    return int(np.count_nonzero(mask))
