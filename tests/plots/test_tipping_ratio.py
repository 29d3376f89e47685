"""The saw of tipping ratios against what rounding really does, and its one-sentence errors."""

import numpy as np
import pytest

from ampcourse import numerics, plots


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e5m2"])
def test_the_line_parts_updates_that_move_a_weight_from_those_that_do_not(name):
    fmt = numerics.get_format(name)
    axes = plots.tipping_ratio(name, w=(0.5, 4.0)).figure.axes[0]
    teeth = [line for line in axes.lines if len(line.get_xdata()) > 2]
    assert len(teeth) == 3
    for start, tooth in zip((0.5, 1.0, 2.0), teeth, strict=True):
        weights = np.arange(start, 2 * start, fmt.ulp(start))
        ratio = np.interp(np.log2(weights), tooth.get_xdata(), tooth.get_ydata())
        assert (fmt.round(weights + 1.01 * weights / ratio) != weights).all()
        assert (fmt.round(weights + 0.99 * weights / ratio) == weights).all()


@pytest.mark.parametrize(
    ("w", "says"),
    [
        ((0, 1), "positive"),
        ((2, 1), "smaller one first"),
        ((2**-20, 1), "normal numbers"),
        ((1, 1e9), "normal numbers"),
    ],
)
def test_a_range_that_cannot_be_drawn_is_refused_in_one_sentence(w, says):
    with pytest.raises(ValueError, match=says):
        plots.tipping_ratio("float16", w=w)
