"""Logarithmic axes: whatever their span, two labels at least can be read and none covers another."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcourse.plots.scales import DecadeLocator, logarithmic
from ampcourse.plots.style import new_figure

SPANS = [(1.0, 1.001), (1.0, 1.3), (0.125, 8.008), (0.3, 0.9), (3.0, 29.0), (1e-6, 2e-6), (1e-30, 1e30), (7e4, 8e5)]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("which", ["x", "y"])
def test_labels_are_there_and_apart(span, which):
    figure = new_figure(4.0, 2.5)
    axes = figure.subplots()
    logarithmic(axes, which)
    axes.set(**{f"{which}lim": span})
    figure.canvas.draw()
    axis = getattr(axes, f"{which}axis")
    boxes = [label.get_window_extent() for label in axis.get_ticklabels(which="both") if label.get_text()]
    assert 2 <= len(boxes) <= 7
    ends = sorted((box.x0, box.x1) if which == "x" else (box.y0, box.y1) for box in boxes)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(ends))
    assert len({label.get_text() for label in axis.get_ticklabels()}) == len(boxes)


@settings(deadline=None)
@given(st.floats(-300, 300), st.floats(1e-3, 300))
def test_ticks_lie_inside_and_are_few(exponent, decades):
    low, high = 10.0**exponent, 10.0 ** min(exponent + decades, 307)
    ticks = DecadeLocator(6).tick_values(low, high)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] >= low * 0.999999
    assert ticks[-1] <= high * 1.000001


def test_no_ticks_where_nothing_can_be_labelled():
    for span in [(0.0, 1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, float("inf"))]:
        assert len(DecadeLocator().tick_values(*span)) == 0
