"""When a device runs something and how much of it works; what its memory holds; and arguments that are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ampcourse import plots


def test_both_shares_are_told_and_differ() -> None:
    alt = plots.device_timeline([(0, 4, 10), (6, 8, 100)], units=100, period=10).alt
    assert "some kernel runs 60.0 % of the time" in alt
    assert "24.0 % of all on average, 100 at most" in alt  # (4 · 10 + 2 · 100) / (10 · 100)


def test_kernels_side_by_side_add_up_but_count_once_as_time() -> None:
    alt = plots.device_timeline([(0, 6, 10), (4, 8, 20), (9, 99, 10)], units=50, period=10).alt
    assert "runs 90.0 %" in alt
    assert "30.0 % of all on average, 30 at most" in alt  # (60 + 80 + 10) / 500


def test_the_parts_are_told_in_the_unit_that_fits() -> None:
    alt = plots.memory_parts({"a": {"x": 3 * 2**30, "y": 2**30}, "b": {"y": 2**29}}, "Mine").alt
    assert alt == "Mine, in GiB, as bars. a: x 3 and y 1; b: x 0 and y 0.5."


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: plots.device_timeline([], 4, 10),
        lambda: plots.device_timeline([(0, 1)], 4, 10),
        lambda: plots.device_timeline([(2, 1, 1)], 4, 10),
        lambda: plots.device_timeline([(0, 1, -1)], 4, 10),
        lambda: plots.device_timeline([(0, float("nan"), 1)], 4, 10),
        lambda: plots.device_timeline([(0, 1, 1)], 0, 10),
        lambda: plots.device_timeline([(0, 1, 1)], 4, 0),
        lambda: plots.memory_parts({}),
        lambda: plots.memory_parts({"a": {}}),
        lambda: plots.memory_parts({"a": {"x": -1}}),
        lambda: plots.memory_parts({"a": {"x": "much"}}),
        lambda: plots.memory_parts({"a": dict.fromkeys("abcdefg", 1)}),
        lambda: plots.memory_parts({str(i): {"x": 1} for i in range(13)}),
    ],
)
def test_mistakes_are_told_in_one_sentence(wrong: Callable) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*\.$"):
        wrong()
