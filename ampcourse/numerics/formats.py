"""Binary floating-point formats up to float32: encode, decode and round, exact for every bit pattern.

A format is a sign, an exponent and a fraction (IEEE 754-2019, section 3.4). Its bit patterns without the sign, read as
integers, are in the same order as the numbers they stand for; everything below stands on that order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from ampcourse.numerics.codes import Codec
from ampcourse.numerics.inputs import as_float64

EXPONENT_BITS = range(2, 9)
FRACTION_BITS = range(1, 24)
_CLASSES = np.array(["zero", "subnormal", "normal", "infinity", "nan"])


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: one sign bit, `exponent_bits`, and `fraction_bits` explicitly stored.

    The exponent is biased by 2**(exponent_bits - 1) - 1; the field 0 holds zeros and subnormals. With `infinities` the
    highest exponent holds infinities and NaNs (IEEE 754-2019, section 3.4). Without, as in float8_e4m3fn, it holds
    ordinary numbers but for one NaN with all bits set (Micikevicius et al. 2022, arXiv:2209.05433, section 3).

    Formats range from e2m1 to e8m23 (float32): so float64 holds the exact product of any two values, and rounding
    their float64 sum to the format gives the correctly rounded sum.

    Methods take real numbers of any shape and return arrays of that shape, or a numpy scalar for a scalar. They raise
    TypeError for what is not real numbers. A value that the format cannot hold is rounded first, except in `next_up`,
    `next_down` and `neighbours`.

    Raises TypeError or ValueError for sizes out of range.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    infinities: bool = True

    def __post_init__(self) -> None:
        _check_size(self.exponent_bits, EXPONENT_BITS, "exponent_bits")
        _check_size(self.fraction_bits, FRACTION_BITS, "fraction_bits")

    @property
    def bits(self) -> int:
        """Bits of a pattern: sign, exponent and fraction. tf32 has 19, though it is kept in 32."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        """What is added to the exponent before it is stored."""
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def precision(self) -> int:
        """Bits of the significand, with the leading one that is not stored."""
        return self.fraction_bits + 1

    @property
    def emin(self) -> int:
        """Exponent of the least normal number, and of all subnormals."""
        return 1 - self.bias

    @property
    def emax(self) -> int:
        """Exponent of the largest finite number."""
        return self.bias if self.infinities else self.bias + 1

    @property
    def largest(self) -> float:
        """The largest finite value."""
        missing = 1 if self.infinities else 2  # without infinities the last pattern of the top binade is NaN
        return 2.0**self.emax * (2 - missing * self.epsilon)

    @property
    def least_normal(self) -> float:
        """The least positive value that has the full precision."""
        return 2.0**self.emin

    @property
    def least_subnormal(self) -> float:
        """The least positive value."""
        return 2.0 ** (self.emin - self.fraction_bits)

    @property
    def epsilon(self) -> float:
        """Machine epsilon: the gap between 1 and the next larger value, 2**-fraction_bits."""
        return 2.0**-self.fraction_bits

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to a normal number, half of epsilon (Higham 2002, section 2.1)."""
        return self.epsilon / 2

    def encode(self, x: Any) -> np.ndarray:
        """Bit patterns of x rounded to the format: uint8, uint16 or uint32, whichever is wide enough.

        Rounds once from float64, to nearest, ties to even (IEEE 754-2019, section 4.3.1). Beyond the largest value
        comes infinity, or NaN where the format has none. NaN keeps its sign and the upper bits of its payload.
        """
        return self._codec.encode(as_float64(x, "x"))[()]

    def decode(self, bits: Any) -> np.ndarray:
        """Values of bit patterns, exactly, as float64. Raises ValueError for a pattern wider than the format."""
        patterns = np.asarray(bits)
        if patterns.size and patterns.dtype.kind not in "iu":
            raise TypeError(f"bits must be whole numbers (bit patterns), not {patterns.dtype}.")
        if patterns.size and (patterns.min() < 0 or patterns.max() >= 2**self.bits):
            raise ValueError(f"bits must lie between 0 and {2**self.bits - 1}: {self.name} has {self.bits} bits.")
        return self._codec.decode(patterns.astype(np.int64))[()]

    def round(self, x: Any) -> np.ndarray:
        """The format's value nearest to x, as float64; rounds as `encode` does and keeps the sign of zero."""
        return self._codec.round(as_float64(x, "x"))[()]

    def ulp(self, x: Any) -> np.ndarray:
        """Unit in the last place: the gap from x to the next value away from zero (Goldberg 1991, section 1.2).

        The largest value gets the gap of its binade, zero the least subnormal, infinity and NaN get NaN.
        """
        magnitude = np.abs(self.round(x))
        exponent = np.maximum(np.frexp(magnitude)[1] - 1, self.emin)
        gap = np.ldexp(1.0, exponent - self.fraction_bits)
        return np.where(magnitude == 0, self.least_subnormal, np.where(np.isfinite(magnitude), gap, np.nan))[()]

    def next_up(self, x: Any) -> np.ndarray:
        """The least value above x (IEEE 754-2019, section 5.3.1), also where x is not a value of the format.

        Above the largest value comes infinity, or NaN where the format has none; -0.0 follows the negative values.
        """
        return self._step(as_float64(x, "x"))[()]

    def next_down(self, x: Any) -> np.ndarray:
        """The greatest value below x; `-next_up(-x)`."""
        return -self._step(-as_float64(x, "x"))[()]

    def neighbours(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nearest values below and above x, not x itself."""
        return self.next_down(x), self.next_up(x)

    def classify(self, x: Any) -> np.ndarray:
        """What x is once rounded: "zero", "subnormal", "normal", "infinity" or "nan"."""
        magnitude = np.abs(self.round(x))
        kind = (magnitude > 0).astype(int) + (magnitude >= self.least_normal) + np.isinf(magnitude)
        return np.take(_CLASSES, np.where(np.isnan(magnitude), 4, kind))

    def fields(self, x: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sign, biased exponent and fraction of x's bit pattern, as int64."""
        patterns = np.asarray(self.encode(x)).astype(np.int64)
        exponent = (patterns >> self.fraction_bits) & (2**self.exponent_bits - 1)
        fraction = patterns & (2**self.fraction_bits - 1)
        return (patterns >> (self.bits - 1))[()], exponent[()], fraction[()]

    def bit_string(self, x: Any) -> Any:
        """The bit pattern of x in figures, its three fields apart: 1.0 in float16 is "0 01111 0000000000"."""

        def write(sign: int, exponent: int, fraction: int) -> str:
            return f"{sign} {exponent:0{self.exponent_bits}b} {fraction:0{self.fraction_bits}b}"

        return _elementwise(write, *self.fields(x))

    @cached_property
    def _codec(self) -> Codec:
        return Codec(self.exponent_bits, self.fraction_bits, self.infinities)

    def _step(self, x: np.ndarray) -> np.ndarray:
        rounded_up, stepped = self._codec.round(x), self._codec.next_up(x)
        result = np.where(rounded_up > x, rounded_up, stepped)
        return np.where(np.isnan(x), x, result)


def _elementwise(function: Callable[..., str], *arrays: np.ndarray) -> Any:
    if np.ndim(arrays[0]) == 0:
        return function(*(int(array) for array in arrays))
    flat = [function(*row) for row in zip(*(array.ravel().tolist() for array in arrays), strict=True)]
    return np.array(flat, dtype=str).reshape(arrays[0].shape)


def _check_size(value: Any, allowed: range, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}.")
    if value not in allowed:
        raise ValueError(f"{name} must lie between {allowed[0]} and {allowed[-1]}, not {value}.")


FLOAT32 = Format("float32", 8, 23)
TF32 = Format("tf32", 8, 10)
FLOAT16 = Format("float16", 5, 10)
BFLOAT16 = Format("bfloat16", 8, 7)
FLOAT8_E4M3FN = Format("float8_e4m3fn", 4, 3, infinities=False)
FLOAT8_E5M2 = Format("float8_e5m2", 5, 2)
FORMATS: Mapping[str, Format] = MappingProxyType(
    {f.name: f for f in (FLOAT32, TF32, FLOAT16, BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2)}
)


def get_format(format: str | Format) -> Format:
    """The format of this name, or of a split such as "e5m10"; a Format is returned as it is.

    A split has infinities and NaNs as IEEE 754 lays them out; "fn" after it ("e4m3fn") leaves the infinities out.
    Raises ValueError for an unknown name or a split out of range, TypeError for what is not a name.
    """
    if isinstance(format, Format):
        return format
    if not isinstance(format, str):
        raise TypeError(f"A format is given by name, such as 'float16' or 'e5m10', not by {type(format).__name__}.")
    if format in FORMATS:
        return FORMATS[format]
    split = re.fullmatch(r"e([0-9]{1,2})m([0-9]{1,2})(fn)?", format)
    if split is None:
        raise ValueError(f"Unknown format {format!r}: use one of {', '.join(FORMATS)}, or a split such as 'e5m10'.")
    exponent_bits, fraction_bits = int(split[1]), int(split[2])
    if exponent_bits not in EXPONENT_BITS or fraction_bits not in FRACTION_BITS:
        raise ValueError(f"Format {format!r} is out of range: a split may go from e2m1 to e8m23, which is float32.")
    return Format(format, exponent_bits, fraction_bits, infinities=split[3] is None)
