"""Values in words are short, however much there is of them, and say what is needed to know them again."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ampcourse.exercises.words import show

RNG = np.random.default_rng(0)


def batch(size: int, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    return (RNG.normal(size=(size, 3)) * factor).astype("float32"), RNG.normal(size=(size, 2)).astype("float32")


LARGE = {
    "a batch": batch(16),
    "batches": [batch(16) for _ in range(5)],
    "shards of batches": [[batch(6) for _ in range(3)] for _ in range(4)],
    "many weights": [RNG.normal(size=(64, 64)) for _ in range(30)],
    "arrays by name": {f"layer_{i}/kernel": RNG.normal(size=(64, 64)) for i in range(9)},
    "rows": [[*RNG.normal(size=6).tolist()] for _ in range(40)],
    "a deep nest": [[[[[batch(4)]] * 9] * 9] * 9] * 9,
}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_what_is_large_is_told_in_short(value: Any) -> None:
    assert len(show(value)) < 300


@pytest.mark.parametrize("name", ["batches", "shards of batches", "many weights"])
def test_shapes_and_the_number_of_parts_are_told(name: str) -> None:
    text, value = show(LARGE[name]), LARGE[name]
    assert f"... {len(value)} in all]" in text
    while not isinstance(value, np.ndarray):
        value = value[0]
    assert f"array of shape {value.shape}" in text


def test_ranges_are_told_where_there_is_room() -> None:
    text = show([np.linspace(-2, 5, 50), np.full(50, np.inf), np.r_[np.arange(50.0) / 3, np.nan]])
    assert "from -2 to 5" in text
    assert "50 not finite" in text
    assert "from 0 to 16.3, 1 not finite" in text


@pytest.mark.parametrize("value", [[1.0, 2.5], (3,), [np.float32([1, 2]), np.float32([6])], {"a": 0.5}, "text"])
def test_what_is_small_is_told_in_full(value: Any) -> None:
    assert "..." not in show(value)
    assert not re.search("array of shape", show(value))
