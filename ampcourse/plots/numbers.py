"""Pictures of number formats: bits, ranges, gaps between neighbours, and rounding errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from ampcourse.numerics import Format, get_format
from ampcourse.plots.regions import REGIONS, shade, thresholds
from ampcourse.plots.style import (
    GREY,
    PALETTE,
    STROKES,
    End,
    Picture,
    drawn,
    label_ends,
    new_figure,
    powers_of_two,
)
from ampcourse.plots.words import as_formats, as_interval, exponent_of, listed, power, raised, spell

ALL_FORMATS = ("float32", "tf32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
MOST_TICKS = 300
_GOLDEN = (5**0.5 - 1) / 2

# The three fields of a number: a colour, and a letter by which they are told apart without colour.
_FIELDS = (
    ("sign", PALETTE["vermillion"], "S"),
    ("exponent", PALETTE["yellow"], "E"),
    ("significand", PALETTE["sky blue"], "M"),
)


@drawn
def bit_layout(formats: Any = ALL_FORMATS) -> Picture:
    """Where the bits of each format go: one row a format, one box a bit.

    Args:
        formats: names or `Format`s, drawn from top to bottom.

    Raises:
        ValueError: for an unknown format, none, or one given twice.
    """
    rows = as_formats(formats)
    figure = new_figure(8.0, 1.3 + 0.45 * len(rows))
    axes = figure.subplots()
    for row, fmt in enumerate(rows):
        at = 0
        for (_, colour, letter), count in zip(_FIELDS, _field_bits(fmt), strict=True):
            for bit in range(at, at + count):
                axes.add_patch(Rectangle((bit, row - 0.36), 1, 0.72, facecolor=colour, edgecolor="black", lw=0.8))
                axes.text(bit + 0.5, row, letter, ha="center", va="center", fontsize=9)
            at += count
        axes.text(at + 0.4, row, " + ".join(map(str, _field_bits(fmt))) + f" = {fmt.bits}", va="center", fontsize=10)
    widest = max(fmt.bits for fmt in rows)
    axes.set(xlim=(0, widest * 1.2), ylim=(len(rows) - 0.5, -0.5), xlabel="position of the bit, from the left")
    axes.set_yticks(range(len(rows)), [fmt.name for fmt in rows])
    axes.set_xticks(range(0, widest + 1, 4 if widest > 12 else 2))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_title("Where the bits go: sign + exponent + significand")
    handles = [Patch(facecolor=c, edgecolor="black", label=f"{letter}: {name}") for name, c, letter in _FIELDS]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    words = [
        "{}: {} sign bit, {} exponent bits, {} significand bits, {} in all".format(
            fmt.name, *_field_bits(fmt), fmt.bits
        )
        for fmt in rows
    ]
    return Picture(figure, f"Bit layout, one row a format. {'; '.join(words)}.")


def _field_bits(fmt: Format) -> tuple[int, int, int]:
    return 1, fmt.exponent_bits, fmt.fraction_bits


@drawn
def format_ranges(formats: Any = ALL_FORMATS) -> Picture:
    """How far each format reaches: least subnormal, least normal and largest number on an axis of powers of two.

    Args:
        formats: names or `Format`s, drawn from top to bottom.

    Raises:
        ValueError: for an unknown format, none, or one given twice.
    """
    rows = as_formats(formats)
    figure = new_figure(8.0, 1.4 + 0.56 * len(rows))
    axes = figure.subplots()
    lowest = min(np.log2(fmt.least_subnormal) for fmt in rows)
    for row, fmt in enumerate(rows):
        ends = np.log2([fmt.least_subnormal, fmt.least_normal, fmt.largest])
        subnormal, normal = PALETTE["orange"], PALETTE["blue"]
        axes.barh(
            row + 0.16, ends[1] - ends[0], 0.3, ends[0], color=subnormal, edgecolor="black", hatch="/////", lw=0.8
        )
        axes.barh(row + 0.16, ends[2] - ends[1], 0.3, ends[1], color=normal, edgecolor="black", lw=0.8)
        for at, marker, colour in zip(ends, "<o>", (subnormal, "white", normal), strict=True):
            axes.plot(at, row + 0.16, marker, ms=8, mfc=colour, mec="black", mew=0.9, ls="none")
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}  # so that no line runs through the words
        axes.text(lowest, row - 0.21, _range_in_words(fmt, raised), va="center", fontsize=9.5, bbox=paper)
    axes.set_ylim(len(rows) - 0.45, -0.5)
    axes.use_sticky_edges = False
    axes.margins(x=0.02)
    axes.set_yticks(range(len(rows)), [fmt.name for fmt in rows])
    axes.tick_params(axis="y", length=0)
    axes.axvline(0, color=GREY, lw=0.8, ls=":", zorder=0)
    powers_of_two(axes.xaxis)
    axes.set_xlabel("magnitude (each step is a factor of 2)")
    axes.set_title("How far each format reaches")
    handles = [
        Patch(facecolor=PALETTE["orange"], edgecolor="black", hatch="/////", label="subnormal numbers (less precise)"),
        Patch(facecolor=PALETTE["blue"], edgecolor="black", label="normal numbers (full precision)"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    words = [f"{fmt.name}: {_range_in_words(fmt, str)}" for fmt in rows]
    return Picture(figure, f"Ranges of positive numbers, one bar a format. {'; '.join(words)}.")


def _range_in_words(fmt: Format, write: Any) -> str:
    return (
        f"least subnormal {write(power(fmt.least_subnormal))}, least normal {write(power(fmt.least_normal))}, "
        f"largest {spell(fmt.largest)}"
    )


@drawn
def number_line(format: Any = "float8_e4m3fn", low: float = 0.0, high: float | None = None) -> Picture:
    """Every number of a format between two bounds, as ticks on a line; subnormal numbers are shorter and dotted.

    Args:
        format: name or `Format`.
        low: left end.
        high: right end; by default four times the least normal number, so that the subnormal numbers are seen.

    Raises:
        ValueError: for an unknown format, bounds in the wrong order, or more numbers than can be told apart.
    """
    fmt = get_format(format)
    low, high = float(low), 4 * fmt.least_normal if high is None else float(high)
    values = _values_between(fmt, low, high)
    kinds = np.asarray(fmt.classify(values))
    figure = new_figure(8.0, 3.0)
    axes = figure.subplots()
    looks = {
        "normal": (PALETTE["blue"], 1.0, "normal", "none"),
        "subnormal": (PALETTE["vermillion"], 0.6, "subnormal", "D"),
        "zero": ("black", 0.8, "zero", "o"),
    }
    for kind, (colour, height, label, marker) in looks.items():
        some = values[kinds == kind]
        if some.size:
            axes.vlines(
                some, 0, height, color=colour, lw=1.6, label=f"{label} ({some.size})" if marker == "none" else ""
            )
            if marker != "none":
                axes.plot(some, np.full(some.size, height), marker, color=colour, ms=5, label=f"{label} ({some.size})")
    _gap_brackets(axes, fmt, values, low, high)
    axes.axhline(0, color="black", lw=1)
    pad = 0.01 * (high - low)
    axes.set(xlim=(low - pad, high + pad), ylim=(0, 1.75), yticks=[], xlabel="value")
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.spines["left"].set_visible(False)
    axes.set_title(f"Every {fmt.name} number from {raised(_end(low))} to {raised(_end(high))}")
    figure.legend(loc="outside lower center", ncols=3)
    counts = [f"{int((kinds == kind).sum())} {kind}" for kind in looks if (kinds == kind).any()]
    gaps = np.diff(values)
    gap_words = f" Gaps between neighbours run from {power(gaps.min())} to {power(gaps.max())}." if gaps.size else ""
    alt = f"Number line of {fmt.name} from {_end(low)} to {_end(high)}: {values.size} numbers, {listed(counts)}."
    return Picture(figure, alt + gap_words)


def _end(value: float) -> str:
    """An end of the line, with digits enough for a short one."""
    return f"{value:.6g}" if exponent_of(abs(value)) is None else power(value)


def _values_between(fmt: Format, low: float, high: float) -> np.ndarray:
    """All finite numbers of the format in [low, high], found by counting bit patterns upwards."""
    if not (np.isfinite([low, high]).all() and low < high):
        raise ValueError(f"The number line runs from {low:g} to {high:g}: give two finite numbers, the smaller first.")
    low, high = max(low, -fmt.largest), min(high, fmt.largest)
    first, last = (_rank(fmt, end) for end in (low, high))
    if last - first >= MOST_TICKS + 2:
        raise ValueError(
            f"{fmt.name} has about {last - first + 1:,} numbers from {low:g} to {high:g}, and {MOST_TICKS} can be told "
            f"apart: choose low and high closer together."
        )
    ranks = np.arange(first - 1, last + 2)
    magnitudes = fmt.decode(np.abs(ranks).clip(max=_rank(fmt, fmt.largest)))
    values = np.unique(np.where(ranks < 0, -magnitudes, magnitudes))
    values = values[(values >= low) & (values <= high)]
    if not values.size:
        raise ValueError(f"{fmt.name} has no number from {low:g} to {high:g}: choose low and high further apart.")
    return values


def _rank(fmt: Format, value: float) -> int:
    """Position on the line, counted from zero: the bit pattern of the magnitude, with the value's sign."""
    pattern = int(fmt.encode(abs(value)))
    return -pattern if value < 0 else pattern


def _gap_brackets(axes: Axes, fmt: Format, values: np.ndarray, low: float, high: float) -> None:
    """A bracket over each stretch of equal gaps that is wide enough to name its gap."""
    gaps = np.diff(values)
    starts = np.flatnonzero(np.r_[gaps.size > 0, gaps[1:] != gaps[:-1]])
    ends = np.r_[starts[1:], gaps.size][: starts.size]
    for start, end in zip(starts, ends, strict=True):
        left, right = values[start], values[end]
        if (right - left) / (high - low) < 0.11:
            continue
        axes.annotate(
            "",
            (left, 1.25),
            (right, 1.25),
            arrowprops={"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "shrinkA": 1, "shrinkB": 1, "color": GREY},
        )
        axes.text((left + right) / 2, 1.38, f"gap {raised(power(gaps[start]))}", ha="center", color="black")


@drawn
def ulp_staircase(formats: Any = ("float16", "bfloat16"), x: tuple[float, float] = (2**-4, 2**4)) -> Picture:
    """The gap to the next number (ulp) against magnitude, one staircase a format, both axes in powers of two.

    Args:
        formats: names or `Format`s, at most six.
        x: range of magnitudes, two positive numbers.

    Raises:
        ValueError: for an unknown format, too many of them, or a range that is not positive and rising.
    """
    rows, (low, high) = as_formats(formats), as_interval(x)
    if len(rows) > len(STROKES):
        raise ValueError(f"{len(rows)} staircases cannot be told apart: choose at most {len(STROKES)} formats.")
    if not [fmt for fmt in rows if fmt.largest > low]:
        raise ValueError(f"No number of these formats is as large as {low:g}: begin further down.")
    figure = new_figure(8.0, 4.2)
    axes = figure.subplots()
    ends, words = [], []
    for fmt, stroke in zip(rows, STROKES, strict=False):
        if fmt.largest <= low:
            words.append(f"{fmt.name} not at all, its largest number being {spell(fmt.largest)}")
            continue
        edges, gaps = _staircase(fmt, low, high)
        axes.step(np.log2(edges), np.log2(gaps), where="post", color=stroke.colour, ls=stroke.dashes)
        axes.plot(np.log2(edges[:-1]), np.log2(gaps[:-1]), stroke.marker, color=stroke.colour, ms=5)
        stops = f", ends at {spell(fmt.largest)}" if fmt.largest < high else ""
        ends.append(End(np.log2(edges[-1]), np.log2(gaps[-1]), fmt.name + stops, stroke.colour))
        words.append(f"{fmt.name} from {power(gaps[0])} to {power(gaps[-1])}")
    powers_of_two(axes.xaxis)
    powers_of_two(axes.yaxis)
    axes.grid(True)
    axes.set(xlim=np.log2([low, high]), xlabel="magnitude of x", ylabel="gap to the next number (ulp)")
    axes.set_title("The gap from x to the next number (ulp)")
    label_ends(axes, ends)
    alt = f"Gap to the next number against magnitude, from x = {power(low)} to {power(high)}, as rising staircases: "
    return Picture(figure, alt + f"{listed(words)}.")


def _staircase(fmt: Format, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Where the steps begin (and the last one ends), and the gap on each; the last gap is there twice."""
    high = min(high, fmt.largest)
    edges = np.r_[low, 2.0 ** np.arange(np.floor(np.log2(low)) + 1, np.ceil(np.log2(high))), high]
    # The gap at a step's beginning: `ulp` rounds first, and just below a power of two that could lead one step up.
    begin = 2.0 ** np.floor(np.log2(edges[:-1]))
    gaps = fmt.ulp(begin)
    return edges, np.r_[gaps, gaps[-1]]


@drawn
def rounding_error(format: Any = "float16", x: tuple[float, float] | None = None) -> Picture:
    """Relative error of rounding to a format against magnitude, beside the unit roundoff.

    In the normal range the error stays below the unit roundoff (Higham, Accuracy and Stability of Numerical
    Algorithms, 2002, theorem 2.2); below it, it rises until everything rounds to zero.

    Args:
        format: name or `Format`.
        x: range of magnitudes; by default from where everything is flushed to zero up to the largest number.

    Raises:
        ValueError: for an unknown format, or a range that is not positive and rising.
    """
    fmt = get_format(format)
    if x is None:
        flushed, _, overflow = thresholds(fmt)
        x = (2.0 ** (flushed - round(0.24 * (overflow - flushed))), fmt.largest)
    low, high = as_interval(x)
    left, right = np.log2(low), np.log2(high)
    # Evenly over the logarithmic axis, without a pattern that could fall in step with the format's own numbers.
    exponents = np.sort(left + (right - left) * (np.arange(1, 4001) * _GOLDEN % 1.0))
    values = 2.0**exponents
    error = np.abs(fmt.round(values) - values) / values
    figure = new_figure(8.0, 4.2)
    axes = figure.subplots()
    shown = np.isfinite(error) & (error > 0)
    blue, red, roundoff = PALETTE["blue"], PALETTE["vermillion"], fmt.unit_roundoff
    axes.plot(exponents[shown], np.log2(error[shown]), ".", color=blue, ms=2.5, label="rounding error of one value")
    axes.axhline(np.log2(roundoff), color=red, ls=(0, (6, 2)), label=f"unit roundoff {raised(power(roundoff))}")
    top = max(np.log2(error[shown].max(initial=roundoff)), np.log2(roundoff))
    axes.set(xlim=(left, right), ylim=(np.log2(roundoff) - 8, top + 0.2 * (top - np.log2(roundoff) + 8)))
    shade(axes, fmt, [region.label for region in REGIONS], 0.97)
    powers_of_two(axes.xaxis)
    powers_of_two(axes.yaxis)
    axes.set(xlabel="magnitude of x", ylabel="relative rounding error")
    axes.set_title(f"Relative error of rounding to {fmt.name}")
    figure.legend(loc="outside lower center", ncols=2, markerscale=3)
    return Picture(figure, _error_words(fmt, low, high, values, error))


def _error_words(fmt: Format, low: float, high: float, values: np.ndarray, error: np.ndarray) -> str:
    """The largest error found in each region that the picture holds."""
    fates = np.searchsorted(thresholds(fmt), np.log2(values), side="left")
    parts = []
    for number, region in enumerate(REGIONS):
        some = error[(fates == number) & np.isfinite(error)]
        if some.size and region.name != "overflowed":
            parts.append(f"at most {spell(some.max())} where values are {region.label}")
    return (
        f"Relative error of rounding to {fmt.name} for x from {power(low)} to {power(high)}, beside the "
        f"unit roundoff {power(fmt.unit_roundoff)} = {fmt.unit_roundoff:.3g}. The error is {listed(parts)}; numbers "
        f"are subnormal below {power(fmt.least_normal)}."
    )
