"""Sums in a format: against numpy's and ml_dtypes' own arithmetic, and against exact fractions for any split."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcourse.numerics import FORMATS, Format, accumulate, dot, get_format, sum_in, swamped
from ampcourse.numerics.accumulation import _scalar_round

pytestmark = pytest.mark.filterwarnings("error")
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
FORMAT = st.builds(lambda e, m, i: Format(f"e{e}m{m}", e, m, i), st.integers(2, 8), st.integers(1, 23), st.booleans())


def equal(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


@st.composite
def terms(draw, format: Format) -> list[float]:
    """Values of the format, of any size in it, so that sums cancel, swamp, underflow and overflow."""
    patterns = draw(st.lists(st.integers(0, 2**format.bits - 1), min_size=1, max_size=12))
    return format.decode(patterns).tolist()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("magnitude", [1e-3, 1.0, 3e3])
def test_partial_sums_are_those_of_the_dtype(name, magnitude):
    values = np.random.default_rng(5).normal(size=400) * magnitude + magnitude
    total, wanted = DTYPES[name](0), []
    with np.errstate(over="ignore"):
        for value in values.astype(DTYPES[name]):
            total = DTYPES[name](total + value)
            wanted.append(float(total))
    assert accumulate(values, name).tolist() == wanted
    assert sum_in(values, name) == wanted[-1]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_every_addition_is_correctly_rounded_in_any_format(oracle, data):
    format = data.draw(FORMAT)
    values = [v for v in data.draw(terms(format)) if math.isfinite(v)] or [0.0]
    total = 0.0
    for value, got in zip(values, accumulate(values, format).tolist(), strict=True):
        total = oracle.round(format, Fraction(total) + Fraction(value)) if math.isfinite(total) else total
        assert equal(got, total)
        if not math.isfinite(total):
            break


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_quick_rounding_of_sums_is_the_formats_own(data):
    format = data.draw(FORMAT)
    limit = 2 * format.largest
    x = data.draw(st.floats(-limit, limit) | st.sampled_from([np.inf, -np.inf, np.nan]))
    if data.draw(st.booleans()):
        x = sum(data.draw(terms(format))[:2])
    quick, own = _scalar_round(format)(x), float(format.round(x))
    assert equal(quick, own)
    assert quick != quick or math.copysign(1, quick) == math.copysign(1, own)


def test_swamping_in_float16_starts_at_half_a_gap():
    """Away from a power of two, at 1.25: the gap there is 2**-10, and half of it a tie that goes to the even 1.25."""
    assert accumulate(np.full(500, 2.0**-10), "float16", start=1.25)[-1] == 1.25 + 500 * 2.0**-10
    assert accumulate(np.full(500, 2.0**-11), "float16", start=1.25)[-1] == 1.25
    assert accumulate(np.full(500, 2.0**-11), "float32", start=1.25)[-1] == 1.25 + 500 * 2.0**-11
    assert accumulate(np.full(500, 2.0**-8), "bfloat16", start=1.25)[-1] == 1.25


def test_below_one_the_gap_is_half_as_wide():
    assert accumulate([-(2.0**-11)], "float16", start=1.0)[0] == 1 - 2.0**-11
    assert accumulate([-(2.0**-12)], "float16", start=1.0)[0] == 1.0


def test_ones_stop_at_the_first_whole_number_that_is_missing():
    sums = accumulate(np.ones(3000), "float16")
    assert sums[2047] == sums[-1] == 2048
    assert swamped(np.ones(3000), "float16").nonzero()[0].tolist() == list(range(2048, 3000))
    assert sum_in(np.ones(3000), "float16", "pairwise") == 3000


def test_swamped_is_neither_flushed_nor_overflowed():
    assert swamped([1.0, 1e-9, 2.0**-20, 0.0, 1.0]).tolist() == [False, False, True, False, False]
    assert swamped([65504, 65504, 1.0]).tolist() == [False, False, False]
    assert swamped([2.0**-11], start=1.25).tolist() == [True]


def pairwise(values: list[float], format: Format) -> float:
    """Neighbours first: the left part of a split is the largest power of two that leaves something on the right."""
    if len(values) == 1:
        return float(format.round(values[0]))
    half = 2 ** ((len(values) - 1).bit_length() - 1)
    return float(format.round(pairwise(values[:half], format) + pairwise(values[half:], format)))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 63, 64, 65, 1000])
@pytest.mark.parametrize("name", FORMATS)
def test_pairwise_adds_neighbours_first(count, name):
    values = np.random.default_rng(count).uniform(0, 0.3, count)
    assert sum_in(values, name, "pairwise") == pairwise(values.tolist(), get_format(name))


def test_pairwise_keeps_its_error_bound_where_the_sequential_sum_is_swamped():
    """Higham 2002, section 4.2: at most about log2(n) unit roundoffs, for terms of one sign."""
    values = FORMATS["float16"].round(np.random.default_rng(1).uniform(0, 1, 8192))
    exact = math.fsum(values)
    bound = 13 * 2.0**-11 / (1 - 13 * 2.0**-11) * exact
    assert abs(sum_in(values, "float16", "pairwise") - exact) <= bound
    assert abs(sum_in(values, "float16") - exact) > 10 * bound
    assert abs(sum_in(values, "float32") - exact) < 2.0**-11 * exact


def test_overflow_is_infinite_or_nan_and_stays():
    assert accumulate([65504, 16, 16, -65504]).tolist() == [65504, np.inf, np.inf, np.inf]
    assert np.isnan(accumulate([448, 100, -448], "float8_e4m3fn")).tolist() == [False, True, True]
    assert np.isnan(sum_in([np.inf, -np.inf])) & np.isnan(sum_in([np.inf, -np.inf], order="pairwise"))
    assert accumulate([1.0], start=np.inf)[0] == np.inf


def test_values_are_rounded_before_they_are_added():
    assert sum_in([2049.0, -2048.0]) == 0.0
    assert accumulate([0.0], start=2049.0)[0] == 2048.0


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_dot_adds_exact_products_in_float32(name):
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 300))
    total = np.float32(0)
    for x, y in zip(a.astype(DTYPES[name]), b.astype(DTYPES[name]), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y))
        assert Fraction(float(np.float32(x) * np.float32(y))) == exact
        total += np.float32(x) * np.float32(y)
    assert dot(a, b, name, "float32") == float(total)


def test_dot_in_float16_alone_rounds_every_product():
    a, b = np.random.default_rng(3).normal(size=(2, 300)).astype(np.float16)
    total = np.float16(0)
    for x, y in zip(a, b, strict=True):
        total = np.float16(total + np.float16(x * y))
    assert dot(a, b, "float16", "float16") == float(total)


def test_dot_where_only_the_accumulator_saves_the_result():
    values = np.full(4, 256.0)
    assert dot(values, values, "float16", "float16") == np.inf
    assert dot(values, values, "float16", "float32") == 4 * 65536.0
    assert np.isnan(dot([np.inf], [0.0]))
    assert dot(np.ones((2, 3)), np.ones((2, 3))) == 6.0


@pytest.mark.parametrize("function", [accumulate, sum_in, swamped])
def test_mistakes_get_a_sentence(function):
    with pytest.raises(ValueError, match=r"^values is empty; .*\.$"):
        function([])
    with pytest.raises(TypeError, match=r"^values must be real numbers, not .*\.$"):
        function(["1"])
    with pytest.raises(ValueError, match=r"^Unknown format 'fp16'"):
        function([1.0], "fp16")


def test_mistakes_of_one_function_get_a_sentence():
    with pytest.raises(ValueError, match=r"^order must be 'sequential' or 'pairwise', not 'random'\.$"):
        sum_in([1.0], order="random")
    with pytest.raises(TypeError, match=r"^start must be one number, not an array of shape \(2,\)\.$"):
        accumulate([1.0], start=[1, 2])
    with pytest.raises(ValueError, match=r"^a and b must have the same shape, not \(2,\) and \(1, 2\)\.$"):
        dot([1, 2], [[1, 2]])
    with pytest.raises(ValueError, match=r"^a is empty"):
        dot([], [])
    with pytest.raises(TypeError, match=r"^b must be real numbers"):
        dot([1.0], ["x"])
    with pytest.raises(ValueError, match=r"^Unknown format 'fp32'"):
        dot([1.0], [1.0], accumulate="fp32")
