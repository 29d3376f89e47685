"""Rows of maps: what is said about them is measured, and rows that do not fit together get one sentence."""

import numpy as np
import pytest

from ampcourse import plots

TARGETS = np.random.default_rng(0).random((4, 9))


def test_words_say_how_alike_the_rows_are():
    words = plots.map_rows({"target": TARGETS, "copy": TARGETS * 3, "opposite": -TARGETS}, shape=(3, 3)).alt
    assert "3 rows of 4, the first is target" in words
    assert "copy 100.0 %" in words
    assert "opposite 0" in words


def test_flat_rows_have_no_correlation():
    assert "all of one shade" in plots.map_rows({"target": TARGETS, "flat": np.ones((4, 9))}, shape=(3, 3)).alt


@pytest.mark.parametrize(
    "rows",
    [
        {},
        {"a": TARGETS, "b": TARGETS[:2]},
        {"a": np.zeros((4, 8))},
        {"a": np.full((4, 9), np.nan)},
        {"a": np.zeros((9, 9))},
        {"a": np.zeros((0, 9))},
    ],
    ids=["none", "lengths differ", "another shape", "not finite", "too many", "empty"],
)
def test_rows_that_cannot_be_drawn_get_one_sentence(rows):
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        plots.map_rows(rows, shape=(3, 3))
