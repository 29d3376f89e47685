"""An oracle in exact fractions that shares no code and no method with the package."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import pytest

from ampcourse.numerics import Format


def exact_value(format: Format, pattern: int) -> Fraction | float:
    """The value of a bit pattern from the definition of IEEE 754-2019, section 3.4, or of float8_e4m3fn."""
    exponent_bits, fraction_bits = format.exponent_bits, format.fraction_bits
    bias = 2 ** (exponent_bits - 1) - 1
    fraction = pattern % 2**fraction_bits
    exponent = pattern // 2**fraction_bits % 2**exponent_bits
    sign = -1 if pattern // 2 ** (fraction_bits + exponent_bits) else 1
    all_ones = exponent == 2**exponent_bits - 1
    if format.infinities and all_ones:
        return math.nan if fraction else sign * math.inf
    if not format.infinities and all_ones and fraction == 2**fraction_bits - 1:
        return math.nan
    if exponent == 0:
        return sign * Fraction(fraction, 2**fraction_bits) * Fraction(2) ** (1 - bias)
    return sign * (1 + Fraction(fraction, 2**fraction_bits)) * Fraction(2) ** (exponent - bias)


def largest_pattern(format: Format) -> int:
    """The pattern of the largest finite value."""
    top = 2 ** (format.exponent_bits + format.fraction_bits)
    return top - 2**format.fraction_bits - 1 if format.infinities else top - 2


def exact_round(format: Format, x: Fraction | float) -> float:
    """The nearest value, ties to even, by IEEE 754-2019, section 4.3.1: as if the exponent had no upper bound."""
    if isinstance(x, float) and not math.isfinite(x):
        return x if format.infinities else math.nan
    exact = Fraction(x)
    sign = -1 if exact < 0 or (exact == 0 and math.copysign(1, x) < 0) else 1
    size = abs(exact)
    exponent = 2 - 2 ** (format.exponent_bits - 1)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - format.fraction_bits)
    size = round(size / unit) * unit  # Python rounds a Fraction to the nearest whole number, ties to even
    if size > exact_value(format, largest_pattern(format)):
        return math.copysign(math.inf, sign) if format.infinities else math.nan
    return math.copysign(float(size), sign)


@pytest.fixture(scope="session")
def oracle() -> SimpleNamespace:
    return SimpleNamespace(value=exact_value, round=exact_round, largest_pattern=largest_pattern)
