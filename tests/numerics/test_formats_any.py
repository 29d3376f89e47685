"""Any split of the bits, against exact fractions; shapes, dtypes and what is refused."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ampcourse.numerics import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT16, FLOAT32, FORMATS, Format, get_format
from ampcourse.numerics.codes import CHUNK

pytestmark = pytest.mark.filterwarnings("error")
FORMAT = st.builds(lambda e, m, i: Format(f"e{e}m{m}", e, m, i), st.integers(2, 8), st.integers(1, 23), st.booleans())
thorough = settings(max_examples=300, deadline=None)


def bits64(x: float) -> bytes:
    return struct.pack("d", x) if x == x else b"NaN"


@st.composite
def near(draw, format: Format) -> float:
    """A value of the format or the middle of two, moved by a few of float64's last places, or any float64."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.floats())
    top = 2 ** (format.exponent_bits + format.fraction_bits) - 1
    edges = [0, 1, 2**format.fraction_bits - 1, 2**format.fraction_bits, top - 2**format.fraction_bits, top - 1]
    pattern = draw(st.one_of(st.integers(0, top), st.sampled_from(edges)))
    fraction, exponent = pattern % 2**format.fraction_bits, pattern >> format.fraction_bits
    significand = fraction + (2**format.fraction_bits if exponent else 0) + draw(st.sampled_from([0, 0.5]))
    value = math.ldexp(significand, max(exponent, 1) + 1 - 2 ** (format.exponent_bits - 1) - format.fraction_bits)
    for _ in range(draw(st.integers(0, 2))):
        value = math.nextafter(value, draw(st.sampled_from([0.0, math.inf])))
    return value * draw(st.sampled_from([1, -1]))


@thorough
@given(st.data())
def test_rounding_is_exact(oracle, data):
    format = data.draw(FORMAT)
    x = data.draw(near(format))
    assert bits64(format.round(x)) == bits64(oracle.round(format, x))


@thorough
@given(st.data())
def test_decode_is_exact_and_encode_undoes_it(oracle, data):
    format = data.draw(FORMAT)
    pattern = data.draw(st.integers(0, 2**format.bits - 1))
    value, wanted = float(format.decode(pattern)), oracle.value(format, pattern)
    assert value == wanted or (value != value and wanted != wanted)
    assert format.encode(value) == pattern
    assert format.bits <= 8 * format.encode(value).nbytes < 2 * max(format.bits, 8)


@thorough
@given(st.data())
def test_encode_is_the_pattern_of_the_rounded_value(data):
    format = data.draw(FORMAT)
    x = data.draw(near(format))
    assert bits64(format.decode(format.encode(x))) == bits64(format.round(x))


@thorough
@given(st.data())
def test_neighbours_enclose_and_nothing_lies_between(oracle, data):
    format = data.draw(FORMAT)
    x = data.draw(near(format))
    assume(abs(x) <= format.largest)
    below, above = (float(v) for v in format.neighbours(x))
    assert below < x or below != below or below == -math.inf
    assert above > x or above != above
    if math.isfinite(below):
        assert oracle.round(format, below) == below
    if math.isfinite(below) and math.isfinite(above):
        between = {float(format.round(x)), below, above}
        assert len(between) == (3 if format.round(x) == x else 2)
        middle = oracle.round(format, (Fraction(below) + Fraction(above)) / 2)
        assert middle in between


@thorough
@given(st.data())
def test_next_up_and_next_down_are_inverse(data):
    format = data.draw(FORMAT)
    x = float(format.round(data.draw(near(format))))
    assume(abs(x) < format.largest)
    assert format.next_down(format.next_up(x)) == x == format.next_up(format.next_down(x))
    assert format.next_up(x) > x > format.next_down(x)
    assert format.next_up(x) == -format.next_down(-x)
    away = format.next_up(x) - x if x >= 0 else x - format.next_down(x)
    assert format.ulp(x) == away


@thorough
@given(st.data())
def test_rounding_stays_within_half_an_ulp_and_the_unit_roundoff(data):
    format = data.draw(FORMAT)
    x = data.draw(near(format))
    assume(abs(x) <= format.largest)
    error = abs(Fraction(x) - Fraction(float(format.round(x))))
    assert 2 * error <= Fraction(float(format.ulp(x)))
    if abs(x) >= format.least_normal:
        assert error <= abs(Fraction(x)) * Fraction(format.unit_roundoff)


@thorough
@given(FORMAT)
def test_limits_are_those_of_the_patterns(oracle, format):
    largest = oracle.largest_pattern(format)
    assert format.largest == oracle.value(format, largest)
    assert not math.isfinite(oracle.value(format, largest + 1))
    assert format.least_subnormal == oracle.value(format, 1)
    assert format.least_normal == oracle.value(format, 2**format.fraction_bits) == 2.0**format.emin
    assert format.epsilon == format.next_up(1.0) - 1 == 2 * format.unit_roundoff
    assert 2.0**format.emax <= format.largest < 2.0 ** (format.emax + 1)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_an_array_is_rounded_like_its_elements(data):
    format = data.draw(FORMAT)
    xs = data.draw(st.lists(near(format), max_size=20))
    assert [bits64(v) for v in format.round(xs)] == [bits64(format.round(x)) for x in xs]


def test_chunks_do_not_show():
    x = np.random.default_rng(0).standard_cauchy(2 * CHUNK + 3) * 1e-4
    x[CHUNK - 1 : CHUNK + 1] = [np.nan, np.inf]
    for format in FORMATS.values():
        pieces = [format.round(piece) for piece in np.array_split(x, 37)]
        np.testing.assert_array_equal(format.round(x), np.concatenate(pieces))
        np.testing.assert_array_equal(format.decode(format.encode(x)), format.round(x))


def test_shapes_are_kept_and_scalars_stay_scalars():
    x = np.arange(24.0).reshape(2, 3, 4)
    for method in (FLOAT16.round, FLOAT16.encode, FLOAT16.ulp, FLOAT16.next_up, FLOAT16.classify, FLOAT16.bit_string):
        assert method(x).shape == x.shape
        assert method(x.T[::2]).shape == (2, 3, 2)
        assert method(np.empty((0, 3))).shape == (0, 3)
        assert np.isscalar(method(1.5))
    np.testing.assert_array_equal(FLOAT16.round(x.T[::2]), x.T[::2])
    assert [part.shape for part in FLOAT16.fields(x)] == [x.shape] * 3
    assert isinstance(FLOAT16.round(1), np.float64)
    assert FLOAT16.decode(np.array([[0x3C00]], np.uint16)).tolist() == [[1.0]]


def test_the_input_is_left_alone():
    x = np.array([1e9, -1e-9, np.nan, 0.1])
    kept = x.copy()
    assert not np.shares_memory(FLOAT16.round(x), x)
    FLOAT16.next_up(x), FLOAT16.encode(x), FLOAT16.ulp(x)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, bool])
def test_any_real_dtype_is_taken(dtype):
    x = np.array([0, 1]).astype(dtype)
    assert FLOAT16.round(x).tolist() == [0, 1]
    assert FLOAT16.round(x).dtype == np.float64


def test_nans_whose_payload_does_not_fit_stay_nans():
    signalling = np.array([0x7FF0000000000001, 0xFFF0000000000001], np.uint64).view(np.float64)
    for format in FORMATS.values():
        assert np.isnan(format.round(signalling)).all()
        assert np.isnan(format.decode(format.encode(signalling))).all()
        assert format.bit_string(signalling)[1].startswith("1 ")
        assert set(format.classify(signalling)) == {"nan"}


def test_splits_have_the_formats_values():
    for split, format in [("e5m10", FLOAT16), ("e8m7", BFLOAT16), ("e5m2", FLOAT8_E5M2), ("e4m3fn", FLOAT8_E4M3FN)]:
        patterns = np.arange(2**format.bits)
        np.testing.assert_array_equal(get_format(split).decode(patterns), format.decode(patterns))
        assert get_format(split).name == split
    assert get_format("e8m23").largest == FLOAT32.largest
    assert get_format("e2m1").decode(np.arange(8)).tolist()[:7] == [0, 0.5, 1, 1.5, 2, 3, np.inf]
    assert get_format("e4m3").largest == 240


@pytest.mark.parametrize("name", ["half", "FLOAT16", "", "e5", "e5m", "m10e5", "e-5m10", "e5m10x", " float16", "e٥m10"])
def test_an_unknown_name_is_answered_with_the_known_ones(name):
    with pytest.raises(ValueError, match=r"^Unknown format .*float16.*'e5m10'\.$"):
        get_format(name)


@pytest.mark.parametrize("name", ["e1m3", "e9m3", "e0m0", "e5m0", "e5m24", "e11m52"])
def test_a_split_out_of_range_is_refused(name):
    with pytest.raises(ValueError, match=r"^Format 'e.*' is out of range: .*\.$"):
        get_format(name)


@pytest.mark.parametrize("thing", [16, None, np.float16, ["float16"]])
def test_a_format_must_be_named(thing):
    with pytest.raises(TypeError, match=r"^A format is given by name.*\.$"):
        get_format(thing)


def test_sizes_out_of_range_are_refused():
    with pytest.raises(ValueError, match="exponent_bits must lie between 2 and 8, not 9"):
        Format("wide", 9, 10)
    with pytest.raises(ValueError, match="fraction_bits must lie between 1 and 23, not 0"):
        Format("none", 5, 0)
    with pytest.raises(TypeError, match="whole number"):
        Format("half", 5.0, 10)


@pytest.mark.parametrize("x", ["1.0", ["a"], 1j, None, [[1, 2], [3]], object(), {"a": 1}, np.datetime64("2020")])
def test_what_is_not_a_real_number_is_refused(x):
    for method in (FLOAT16.round, FLOAT16.encode, FLOAT16.ulp, FLOAT16.classify, FLOAT16.neighbours):
        with pytest.raises(TypeError, match=r"^x must be .*\.$"):
            method(x)


def test_an_array_that_cannot_be_read_is_refused():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            raise ValueError("no array here")

    with pytest.raises(TypeError, match=r"^x cannot be read as an array of numbers: Tensor gave 'no array here'\.$"):
        FLOAT16.round(Tensor())
    with pytest.raises(TypeError, match=r"^x must be numbers in a regular array; its rows have different lengths\.$"):
        FLOAT16.round([[1, 2], [3]])


@pytest.mark.parametrize("bits", [-1, 65536, [0, 2**40], np.array([2**63], np.uint64)])
def test_a_pattern_that_is_too_wide_is_refused(bits):
    with pytest.raises(ValueError, match=r"^bits must lie between 0 and 65535: float16 has 16 bits\.$"):
        FLOAT16.decode(bits)


@pytest.mark.parametrize("bits", [1.0, "1", [True]])
def test_a_pattern_must_be_a_whole_number(bits):
    with pytest.raises(TypeError, match=r"^bits must be whole numbers"):
        FLOAT16.decode(bits)
