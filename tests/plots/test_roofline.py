"""The roofline: its ridge and what it says, and numbers that are none."""

import pytest

from ampcourse import plots


def test_the_words_hold_the_ridge_and_the_share_of_the_roof():
    picture = plots.roofline(1e12, 1e11, {"chain": (1.0, 5e10), "product": (100.0, 1e12)})
    assert "the ridge at 10 operations a byte" in picture.alt
    assert "chain at 1 operations a byte reaches 50% of the roof" in picture.alt
    assert "product at 100 operations a byte reaches 100% of the roof" in picture.alt


@pytest.mark.parametrize(
    ("peak", "bandwidth", "points"),
    [(1, 1, {}), (0, 1, {"a": (1, 1)}), (1, float("inf"), {"a": (1, 1)}), ("x", 1, {"a": (1, 1)})]
    + [
        (1, 1, {"a": (1,)}),
        (1, 1, {"a": (-1, 1)}),
        (1, 1, {"a": None}),
        (1, 1, 3),
        (1, 1, dict.fromkeys("abcdefg", (1, 1))),
    ],
)
def test_mistakes_are_told_in_one_sentence(peak, bandwidth, points):
    with pytest.raises(ValueError, match=r"^[^\n]*\.$"):
        plots.roofline(peak, bandwidth, points)
