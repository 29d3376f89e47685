"""The words under the pictures: the numbers in them are those of the data, and bad arguments get one sentence."""

import re

import numpy as np
import pytest

from ampcourse import numerics, plots
from ampcourse.plots.words import percent, power, spell


@pytest.mark.parametrize("name", numerics.FORMATS)
def test_bit_layout_counts_bits(name):
    fmt = numerics.get_format(name)
    words = plots.bit_layout(name).alt
    assert f"{fmt.exponent_bits} exponent bits, {fmt.fraction_bits} significand bits, {fmt.bits} in all" in words


def test_ranges_name_the_three_limits():
    words = plots.format_ranges(["float16"]).alt
    assert "least subnormal 2^-24, least normal 2^-14, largest 65,504" in words


def test_number_line_counts_every_number():
    words = plots.number_line("float8_e4m3fn", 0, 2**-4).alt
    assert "25 numbers, 17 normal, 7 subnormal and 1 zero" in words
    assert "from 2^-9 to 2^-8" in words


def test_number_line_holds_just_the_numbers_of_the_format():
    picture = plots.number_line("float8_e5m2", -4, 4)
    patterns = numerics.FLOAT8_E5M2.decode(np.arange(256))
    expected = np.unique(patterns[np.abs(patterns) <= 4])  # -0.0 and 0.0 are one tick
    assert f"{expected.size} numbers" in picture.alt
    drawn = sorted(float(s[0][0]) for lines in picture.figure.axes[0].collections for s in lines.get_segments())
    assert drawn == expected.tolist()


def test_staircase_ends_where_the_format_ends():
    assert "float16 from 2^-14 to 2^-7 and bfloat16 from 2^-11 to 2^-4" in plots.ulp_staircase().alt
    words = plots.ulp_staircase(["float16", "float8_e4m3fn"], x=(512, 2**17)).alt
    assert "float16 from 2^-1" in words.replace("0.5", "2^-1")
    assert "float8_e4m3fn not at all, its largest number being 448" in words


def test_rounding_error_is_measured_and_stays_below_the_unit_roundoff():
    words = plots.rounding_error("float16", x=(1, 2**10)).alt
    largest = float(re.search(r"at most ([\d.e-]+) where values are normal", words)[1])
    assert 0.9 * 2**-11 < largest < 2**-11
    assert "unit roundoff 2^-11 = 0.000488" in words
    assert "at most 1 where values are flushed" in plots.rounding_error("float16").alt


def test_step_names_every_dtype_and_counts_the_casts():
    picture = plots.step_dtypes({"weights": "float32", "output": "float16", "gradient": "float32"})
    assert "weights in float32, output in float16 and gradient in float32" in picture.alt
    assert "changes 2 times" in picture.alt
    texts = [text.get_text() for text in picture.figure.axes[0].texts]
    assert texts.count("cast") == 2


def test_swamping_says_where_a_sum_stops():
    terms = np.ones(3000)
    words = plots.swamping({"float16": numerics.accumulate(terms)}, exact=3000).alt
    assert "float16 ends at 2,048 and no longer changes after term 2,048" in words
    assert "the exact sum is 3,000" in words
    assert "no longer" not in plots.swamping({"float32": numerics.accumulate(terms, "float32")}).alt


@pytest.mark.parametrize("scale", [1.0, 2.0**15])
def test_histogram_tells_the_same_as_numerics(data, scale):
    fate = numerics.fate(data.gradients, "float16", scale)
    words = plots.gradient_histogram(data.gradients, "float16", scale).alt
    for fraction, label in ((fate.flushed, "flushed to 0"), (fate.subnormal, "subnormal"), (fate.normal, "normal")):
        assert f"{percent(fraction)} {label}" in words
    assert percent(fate.relative_error) in words
    assert "4,000 non-zero gradients (40 exact zeros left out)" in words


def test_histogram_takes_a_list_of_arrays_of_any_shapes(data):
    parts = [data.gradients[:1000].reshape(10, 100), data.gradients[1000:]]
    assert plots.gradient_histogram(parts).alt == plots.gradient_histogram(data.gradients).alt


def test_own_title_is_part_of_the_words(data):
    picture = plots.gradient_histogram(data.gradients, title="First layer")
    assert picture.alt.startswith("First layer. ")
    assert picture.figure.axes[0].get_title("left") == "First layer"


def test_fate_by_scale_finds_the_least_error(data):
    fates = numerics.fate_by_scale(data.gradients, data.scales)
    best = min(fates, key=lambda fate: fate.relative_error)
    words = plots.fate_by_scale(data.gradients, data.scales).alt
    assert f"the error is least at {power(best.scale)}" in words
    assert "no scale is without overflow" in plots.fate_by_scale([1e30], [1, 2]).alt


def test_trace_counts_the_skipped_steps():
    steps = [True, False, True, True, False]
    words = plots.loss_scale_trace(numerics.trace(numerics.DynamicLossScale(), steps)).alt
    assert "starts at 2^15" in words
    assert "after the last step is 2^13" in words
    assert "Skipped steps: 2, the first at step 2 and the last at step 5" in words


def test_curves_name_what_a_loss_belongs_to():
    drawn = plots.training_curves({"a": [3.0, np.nan, np.nan], "b": [3.0, 2.0, 1.0]}, unit="epoch")
    assert drawn.alt.startswith("Loss over 3 epochs: a goes from 3 to 3 and is not finite from epoch 2 on")
    assert drawn.figure.axes[0].get_xlabel() == "epoch"
    assert drawn.figure.axes[0].get_title("left").startswith("Loss, epoch by epoch")
    assert "step" not in drawn.alt
    assert plots.training_curves({"a": [3.0]}).alt.startswith("Loss over 1 step: ")


def test_curves_say_where_a_loss_stops_being_finite():
    words = plots.training_curves({"float32": [3.0, 2.0, 1.5], "float16": [3.0, np.inf, np.nan]}).alt
    assert "float32 goes from 3 to 1.5, lowest 1.5" in words
    assert "float16 goes from 3 to 3 and is not finite from step 2 on" in words
    never = plots.training_curves({"float16": [np.nan, np.inf], "float32": [1.0, 0.5]})
    assert "float16 is not finite from step 1 on" in never.alt
    assert "never finite: float16" in never.figure.axes[0].get_title("left")
    assert "is not finite at 1 step, first at step 2" in plots.training_curves({"a": [3.0, np.nan, 1.0]}).alt


@pytest.mark.parametrize(
    ("fraction", "words"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.5, "50.0 %"),
        (0.00012, "0.012 %"),
        (1e-9, "<0.0001 %"),
        (0.99999, ">99.99 %"),
        (0.999, "99.90 %"),
        (2.5, "250.0 %"),
    ],
)
def test_percentages_never_round_to_all_or_nothing(fraction, words):
    assert percent(fraction) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (65504, "65,504"),
        (2**-24, "2^-24"),
        (0.1, "0.1"),
        (3.4e38, "3.4e+38"),
        (-0.5, "-0.5"),
        (np.inf, "infinity"),
    ],
)
def test_numbers_are_spelled_for_reading(value, words):
    assert spell(value) == words


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: plots.bit_layout("float17"),
        lambda: plots.bit_layout([]),
        lambda: plots.format_ranges(["float16", "float16"]),
        lambda: plots.number_line("float16"),
        lambda: plots.number_line("float16", 1, 0),
        lambda: plots.number_line("float8_e4m3fn", 1.01, 1.02),
        lambda: plots.number_line("float8_e4m3fn", np.nan, 1),
        lambda: plots.ulp_staircase(x=(0, 1)),
        lambda: plots.ulp_staircase(x=5),
        lambda: plots.ulp_staircase("float16", x=(2**17, 2**18)),
        lambda: plots.ulp_staircase([f"e5m{i}" for i in range(1, 9)]),
        lambda: plots.rounding_error("float16", x=(2, 1)),
        lambda: plots.step_dtypes({"weights": "float32"}),
        lambda: plots.step_dtypes({"weights": "float32", "ids": "int32"}),
        lambda: plots.step_dtypes({str(i): "float16" for i in range(7)}),
        lambda: plots.swamping({}),
        lambda: plots.swamping([1, 2]),
        lambda: plots.swamping({"a": [1.0, 2.0]}, exact=[1.0, 2.0, 3.0]),
        lambda: plots.gradient_histogram([]),
        lambda: plots.gradient_histogram([0.0, np.nan]),
        lambda: plots.gradient_histogram(["a"]),
        lambda: plots.gradient_histogram([None]),
        lambda: plots.gradient_histogram([1j]),
        lambda: plots.gradient_histogram([1.0], scale=0),
        lambda: plots.gradient_histogram([1.0], scale="big"),
        lambda: plots.fate_by_scale([1.0], [2.0]),
        lambda: plots.fate_by_scale([1.0], [2.0, 1.0]),
        lambda: plots.gradient_explorer([1.0], scales=[-1.0, 1.0]),
        lambda: plots.training_curves({"a": [1.0, 0.0]}),
        lambda: plots.training_curves({str(i): [1.0] for i in range(7)}),
        lambda: plots.training_curves({"a": []}),
        lambda: plots.loss_scale_trace(numerics.trace(numerics.DynamicLossScale(), [])),
    ],
)
def test_bad_arguments_get_one_sentence(wrong):
    with pytest.raises(ValueError) as caught:
        wrong()
    words = str(caught.value)
    assert words[0].isalnum()
    assert words.endswith(".")
    assert words.count(". ") == 0
    assert "\n" not in words
