"""Every bit pattern of the 8- and 16-bit formats, and many of float32, against numpy and ml_dtypes."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ampcourse.numerics import (
    BFLOAT16,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    FORMATS,
    TF32,
    Format,
    get_format,
)

DTYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
SMALL = pytest.mark.parametrize("name", DTYPES)
pytestmark = pytest.mark.filterwarnings("error")  # a warning would reach the learner's stderr


def patterns(format: Format) -> np.ndarray:
    return np.arange(2**format.bits, dtype=np.uint8 if format.bits == 8 else np.uint16)


def library_values(name: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return patterns(get_format(name)).view(DTYPES[name]).astype(np.float64)


def cast(x: np.ndarray, dtype: type) -> np.ndarray:
    """The library's own rounding, as bit patterns."""
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype).view(f"u{np.dtype(dtype).itemsize}")


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal with the sign of zero, and NaN where the other is NaN."""
    a, b = np.asarray(a), np.asarray(b)
    nan = np.isnan(a)
    return bool(
        a.shape == b.shape
        and (nan == np.isnan(b)).all()
        and (a[~nan] == b[~nan]).all()
        and (np.signbit(a[~nan]) == np.signbit(b[~nan])).all()
    )


def finite_positive(format: Format) -> np.ndarray:
    """All values from zero to the largest, ascending."""
    return format.decode(np.arange(int(format.encode(format.largest)) + 1))


@SMALL
def test_decode_agrees_for_every_pattern(name):
    assert same(get_format(name).decode(patterns(get_format(name))), library_values(name))


@SMALL
def test_decode_agrees_with_the_definition(name, oracle):
    format = get_format(name)
    for pattern, value in enumerate(format.decode(patterns(format)).tolist()):
        wanted = oracle.value(format, pattern)
        assert (value != value and wanted != wanted) or value == wanted


@SMALL
def test_encode_undoes_decode_for_every_pattern_nan_included(name):
    format = get_format(name)
    again = format.encode(format.decode(patterns(format)))
    assert again.dtype == patterns(format).dtype
    assert (again == patterns(format)).all()


@SMALL
def test_a_value_of_the_format_rounds_to_itself(name):
    assert same(get_format(name).round(library_values(name)), library_values(name))


@SMALL
def test_ties_and_their_neighbours_round_as_the_library_rounds(name):
    format = get_format(name)
    values = finite_positive(format)
    past = np.append(values[1:], 2 * values[-1] - values[-2])  # what would follow the largest
    middle = ((values + past) / 2).astype(np.float32)
    assert (middle == (values + past) / 2).all()  # exact in float32, which ml_dtypes rounds from
    x = np.concatenate([middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))])
    x = np.concatenate([x, -x])
    wanted = cast(x, DTYPES[name])
    assert same(format.round(x), format.decode(wanted))
    not_nan = ~np.isnan(format.decode(wanted))
    assert (format.encode(x)[not_nan] == wanted[not_nan]).all()


@SMALL
def test_random_float32_patterns_round_as_the_library_rounds(name):
    x = np.random.default_rng(1).integers(0, 2**32, 400_000, dtype=np.uint32).view(np.float32)
    assert same(get_format(name).round(x), get_format(name).decode(cast(x, DTYPES[name])))


@pytest.mark.parametrize(("format", "dtype"), [(FLOAT16, np.float16), (FLOAT32, np.float32)])
def test_random_float64_values_round_as_numpy_rounds(format, dtype):
    rng = np.random.default_rng(2)
    anything = rng.integers(0, 2**64, 300_000, dtype=np.uint64).view(np.float64)
    in_range = np.ldexp(rng.uniform(-2, 2, 300_000), rng.integers(format.emin - 30, format.emax + 3, 300_000))
    x = np.concatenate([anything, in_range])
    with np.errstate(all="ignore"):
        assert same(format.round(x), x.astype(dtype).astype(np.float64))


def test_random_float32_patterns_decode_and_encode():
    bits = np.random.default_rng(3).integers(0, 2**32, 400_000, dtype=np.uint32)
    with np.errstate(invalid="ignore"):
        assert same(FLOAT32.decode(bits), bits.view(np.float32).astype(np.float64))
    assert (FLOAT32.encode(FLOAT32.decode(bits)) == bits).all()


def test_float32_edges():
    edges = np.array([0, 1, 2, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000], np.uint32)
    bits = np.concatenate([edges, edges | 0x80000000])
    with np.errstate(invalid="ignore"):
        assert same(FLOAT32.decode(bits), bits.view(np.float32).astype(np.float64))
    assert (FLOAT32.encode(FLOAT32.decode(bits)) == bits).all()


def test_tf32_is_float32_with_thirteen_bits_fewer():
    high = np.arange(2**TF32.bits, dtype=np.uint32)
    with np.errstate(invalid="ignore"):
        assert same(TF32.decode(high), (high << 13).view(np.float32).astype(np.float64))
    assert (TF32.encode(TF32.decode(high)) == high).all()


def test_float64_is_rounded_once():
    """Just above the tie between 1 and the next bfloat16, but a tie after rounding to float32 first."""
    x = 1 + 2.0**-8 + 2.0**-40
    assert BFLOAT16.round(x) == 1 + 2.0**-7
    assert float(np.float32(x).astype(ml_dtypes.bfloat16)) == 1.0


def test_e4m3fn_has_no_infinity():
    x = np.array([448, 464, np.nextafter(464, 500), 1e300, np.inf, -464.5, -np.inf])
    assert same(FLOAT8_E4M3FN.round(x), np.array([448, 448] + [np.nan] * 5))
    assert FLOAT8_E4M3FN.encode(x).tolist() == [0x7E, 0x7E, 0x7F, 0x7F, 0x7F, 0xFF, 0xFF]
    assert "infinity" not in FLOAT8_E4M3FN.classify(FLOAT8_E4M3FN.decode(np.arange(256)))


def test_overflow_starts_half_a_gap_above_the_largest():
    x = np.array([65519.999, 65520, -65519.999, -65520, 1e308])
    assert FLOAT16.round(x).tolist() == [65504, np.inf, -65504, -np.inf, np.inf]
    assert FLOAT8_E5M2.round([61439.9, 61440]).tolist() == [57344, np.inf]


def test_half_the_least_subnormal_is_a_tie_with_zero():
    half = FLOAT16.least_subnormal / 2
    assert same(FLOAT16.round([half, np.nextafter(half, 1), -half, 5e-324]), [0.0, 2.0**-24, -0.0, 0.0])


@SMALL
def test_limits_agree_with_the_library(name):
    format, info = get_format(name), ml_dtypes.finfo(DTYPES[name])
    assert format.bits == info.bits
    assert (format.fraction_bits, format.largest) == (info.nmant, float(info.max))
    assert (format.least_normal, format.least_subnormal) == (
        float(info.smallest_normal),
        float(info.smallest_subnormal),
    )
    assert format.epsilon == float(info.eps) == 2 * format.unit_roundoff
    assert format.emin == info.minexp
    assert format.largest < 2.0 ** (format.emax + 1) <= 2 * format.largest
    assert format.precision == format.fraction_bits + 1


def test_limits_of_float32_and_tf32():
    info = np.finfo(np.float32)
    assert FLOAT32.largest == float(info.max)
    assert FLOAT32.least_normal == TF32.least_normal == float(info.smallest_normal)
    assert FLOAT32.least_subnormal == float(info.smallest_subnormal)
    assert (TF32.bits, TF32.bias, TF32.epsilon) == (19, 127, FLOAT16.epsilon)


@SMALL
def test_next_up_and_next_down_agree_with_nextafter(name):
    dtype, format = DTYPES[name], get_format(name)
    values = patterns(format).view(dtype)
    limit = np.array(np.inf if format.infinities else format.largest, dtype)
    with np.errstate(all="ignore"):
        x = values.astype(np.float64)
        keep = ~np.isnan(x) & (x != float(limit))
        assert same(format.next_up(x[keep]), np.nextafter(values[keep], limit).astype(np.float64))
        keep = ~np.isnan(x) & (x != -float(limit))
        assert same(format.next_down(x[keep]), np.nextafter(values[keep], -limit).astype(np.float64))


def test_at_the_ends_of_the_range():
    assert same(FLOAT16.next_up([65504, np.inf, -np.inf, np.nan]), np.array([np.inf, np.inf, -65504, np.nan]))
    assert same(FLOAT16.next_down([np.inf, -np.inf, -65504]), np.array([65504, -np.inf, -np.inf]))
    assert same(FLOAT8_E4M3FN.next_up([448, -448]), np.array([np.nan, -416]))
    assert same(FLOAT16.next_up([2.0**-24, 0.0, -0.0, -(2.0**-24)]), np.array([2.0**-23, 2.0**-24, 2.0**-24, -0.0]))


@SMALL
def test_ulp_is_the_gap_to_the_next_value_away_from_zero(name):
    format = get_format(name)
    values = finite_positive(format)
    gaps = np.append(np.diff(values), values[-1] - values[-2])
    assert (format.ulp(values) == gaps).all()
    assert (format.ulp(-values) == gaps).all()
    assert np.isnan(format.ulp([np.inf, -np.inf, np.nan])).all()


def test_ulp_agrees_with_numpy_spacing():
    values = np.abs(library_values("float16"))
    values = values[values < FLOAT16.largest]  # numpy's spacing of the largest is infinite
    assert (FLOAT16.ulp(values) == np.spacing(values.astype(np.float16)).astype(float)).all()


@SMALL
def test_every_pattern_has_its_class_and_fields(name):
    format = get_format(name)
    bits = patterns(format).astype(int)
    values = format.decode(bits)
    sign, exponent, fraction = format.fields(values)
    assert (sign == bits >> (format.bits - 1)).all()
    assert ((sign << (format.bits - 1)) + (exponent << format.fraction_bits) + fraction == bits).all()
    kinds = format.classify(values)
    assert ((kinds == "subnormal") == ((exponent == 0) & (fraction != 0))).all()
    assert ((kinds == "zero") == ((exponent == 0) & (fraction == 0))).all()
    assert ((kinds == "nan") == np.isnan(values)).all()
    assert ((kinds == "infinity") == np.isinf(values)).all()
    written = format.bit_string(values)
    assert [int(text.replace(" ", ""), 2) for text in written] == bits.tolist()


def test_bit_string_shows_three_fields():
    assert FLOAT16.bit_string(1.0) == "0 01111 0000000000"
    assert FLOAT8_E4M3FN.bit_string(np.array([[-448.0]])).tolist() == [["1 1111 110"]]


def test_formats_are_ordered_by_name_and_found():
    assert list(FORMATS) == ["float32", "tf32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
    assert all(get_format(name) is format and get_format(format) is format for name, format in FORMATS.items())
    assert Fraction(FLOAT16.unit_roundoff) == Fraction(1, 2048)
