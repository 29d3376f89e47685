"""Exponent histograms, the fate of values in a format, and the error that zero counts hide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcourse.numerics import FORMATS, exponent_histogram, fate, fate_by_scale, relative_error

pytestmark = pytest.mark.filterwarnings("error")


def gradients(centre: float = -20, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = np.exp2(rng.normal(centre, 4, 5000)) * rng.choice([-1, 1], 5000)
    values[:50] = 0
    return values


def test_histogram_counts_by_exponent():
    histogram = exponent_histogram([[1.0, -1.5, 4.0], [0.0, -0.0, 0.25], [np.inf, np.nan, -7.9]])
    assert histogram.exponents.tolist() == [-2, -1, 0, 1, 2]
    assert histogram.counts.tolist() == [1, 0, 2, 0, 2]
    assert (histogram.zeros, histogram.nonfinite, histogram.total) == (2, 2, 9)


def test_histogram_is_exact_just_below_a_power_of_two():
    below = np.nextafter(8.0, 0)
    assert math.floor(math.log2(below)) == 3  # the usual formula is wrong here
    assert exponent_histogram([below, 8.0]).exponents.tolist() == [2, 3]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(), min_size=1, max_size=30))
def test_histogram_loses_nothing(values):
    histogram = exponent_histogram(values)
    assert histogram.counts.sum() + histogram.zeros + histogram.nonfinite == histogram.total == len(values)
    for exponent, count in zip(histogram.exponents.tolist(), histogram.counts, strict=True):
        low = math.ldexp(1.0, exponent)
        assert count == sum(low <= abs(v) < math.inf and abs(v) / 2 < low for v in values)


def test_histogram_of_zeros_has_no_exponents():
    histogram = exponent_histogram([0.0, np.nan])
    assert histogram.exponents.size == histogram.counts.size == 0
    assert (histogram.zeros, histogram.nonfinite, histogram.total) == (1, 1, 2)


@pytest.mark.parametrize("scale", [1.0, 128.0, 2.0**15, 1000.0])
def test_fate_counts_what_numpy_stores(scale):
    values = gradients()
    with np.errstate(over="ignore"):
        stored = np.abs((values * scale).astype(np.float16)[values != 0].astype(float))
    result = fate(values, "float16", scale)
    assert result.flushed == np.mean(stored == 0)
    assert result.subnormal == np.mean((stored > 0) & (stored < 2.0**-14))
    assert result.normal == np.mean((stored >= 2.0**-14) & np.isfinite(stored))
    assert result.overflowed == np.mean(np.isinf(stored))
    assert (result.zeros, result.nonfinite, result.total) == (50, 0, 5000)
    assert (result.scale, result.format) == (scale, "float16")


def test_fate_measures_the_error_in_the_unscaled_values():
    values = gradients()
    stored = (values * 128).astype(np.float16).astype(float) / 128
    wanted = np.sqrt(np.sum((stored - values) ** 2) / np.sum(values**2))
    assert fate(values, "float16", 128).relative_error == pytest.approx(wanted, rel=1e-12)
    assert fate(values, "float16", 128).relative_error == pytest.approx(relative_error(values, stored), rel=1e-12)


def test_no_zeros_does_not_mean_no_error():
    values = np.random.default_rng(0).uniform(2.0**-24, 2.0**-21, 1000)
    result = fate(values)
    assert (result.flushed, result.subnormal) == (0, 1)
    assert result.relative_error > 0.02
    scaled = fate(values, scale=2.0**15)
    assert scaled.normal == 1
    assert 0 < scaled.relative_error < 2.0**-11


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(), min_size=1, max_size=30),
    st.sampled_from(list(FORMATS)),
    st.floats(min_value=1e-300, max_value=1e300),
)
def test_fractions_add_up_to_one_unless_nothing_can_be_lost(values, name, scale):
    result = fate(values, name, scale)
    some = any(math.isfinite(v) and v != 0 for v in values)
    parts = (result.flushed, result.subnormal, result.normal, result.overflowed)
    assert sum(parts) == pytest.approx(1.0 if some else 0.0)
    assert min(parts) >= 0
    assert result.zeros == sum(v == 0 for v in values)
    assert result.nonfinite == sum(not math.isfinite(v) for v in values)
    assert (result.relative_error == 0) or some


def test_all_flushed_is_an_error_of_one_and_overflow_an_infinite_one():
    assert fate([1e-9, -1e-10]).relative_error == 1
    assert (fate([1e5, 1.0]).overflowed, fate([1e5, 1.0]).relative_error) == (0.5, np.inf)
    # float8_e4m3fn overflows to NaN, which counts as overflow too
    assert (fate([1e5, 1.0], "float8_e4m3fn").overflowed, fate([1e5, 1.0], "e4m3fn").relative_error) == (0.5, np.inf)


def test_values_that_are_not_finite_are_counted_apart():
    result = fate([np.inf, np.nan, 1.0, 0.0])
    assert (result.normal, result.overflowed, result.nonfinite, result.zeros) == (1, 0, 2, 1)
    assert result.relative_error == 0


def test_fate_by_scale_keeps_the_order_and_larger_scales_flush_less():
    values, scales = gradients(-30), 2.0 ** np.arange(0, 31)
    fates = fate_by_scale(values, scales)
    assert [f.scale for f in fates] == scales.tolist()
    assert fates[7] == fate(values, "float16", 2.0**7)
    flushed, overflowed = [f.flushed for f in fates], [f.overflowed for f in fates]
    assert flushed == sorted(flushed, reverse=True)
    assert overflowed == sorted(overflowed)
    assert flushed[0] > 0.5
    assert flushed[-1] == 0
    assert fate_by_scale(values, []) == []


def test_bfloat16_needs_no_loss_scale():
    assert fate(gradients(-40), "bfloat16").flushed == 0
    assert fate(gradients(-40), "float16").flushed > 0.95


def test_relative_error_of_the_smallest_and_largest_numbers():
    assert relative_error([1e-300, 0], [1.1e-300, 0]) == pytest.approx(0.1)
    assert relative_error([1e300, 1e300], [1e300, 0]) == pytest.approx(math.sqrt(0.5))
    assert relative_error([0, 0], [0, 0]) == 0
    assert relative_error([0, 0], [0, 1e-9]) == np.inf
    assert relative_error([1, 2], [1, np.nan]) == np.inf
    assert relative_error([[1, 2]], [[0, 0]]) == 1


@pytest.mark.parametrize("function", [exponent_histogram, fate, lambda v: relative_error(v, v)])
def test_nothing_to_measure_is_refused(function):
    with pytest.raises(ValueError, match=r"^values is empty; .*\.$"):
        function([])
    with pytest.raises(TypeError, match=r"^values must be real numbers, not .*\.$"):
        function(["a"])


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf])
def test_a_scale_must_be_finite_and_above_zero(scale):
    with pytest.raises(ValueError, match=r"^scale must be finite and above zero, not .*\.$"):
        fate([1.0], scale=scale)
    with pytest.raises(ValueError, match=r"^each scale must be finite and above zero"):
        fate_by_scale([1.0], [1.0, scale])


@pytest.mark.parametrize("scale", ["8", None, [8.0], 1j])
def test_a_scale_must_be_one_number(scale):
    with pytest.raises(TypeError, match=r"^scale must be one number, not .*\.$"):
        fate([1.0], scale=scale)


def test_mistakes_get_a_sentence():
    with pytest.raises(TypeError, match=r"^scales must be a list or array of numbers, not float\.$"):
        fate_by_scale([1.0], 8.0)
    with pytest.raises(ValueError, match=r"^Unknown format 'float15'"):
        fate([1.0], "float15")
    with pytest.raises(ValueError, match=r"same shape, not \(2,\) and \(3,\)\.$"):
        relative_error([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"^values must be finite"):
        relative_error([np.inf], [1])
