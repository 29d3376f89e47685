"""The parts of a step, Amdahl's law, and the largest batch: with numbers whose answers are known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcourse.bench import parts
from ampcourse.bench.largest import MOST, TimeIsUp, search
from ampcourse.bench.plan import Variant
from ampcourse.bench.shape import Ceilings, Rate
from ampcourse.bench.turns import Timed

ONE = Variant("mixed_float16", True)
CEILINGS = Ceilings(8, {"float16": Rate(90.0, 100.0)}, 8, Rate(1.0, 1.0))
SECONDS = {parts.STEP: 9.0, parts.HOST: 10.0, parts.BARE: 7.0, parts.OPTIMIZER: 1.5, parts.FIT: 10.5}


def summary(seconds: dict[str, float], flops: float = 300.0) -> parts.Parts:
    timed = Timed({name: [value] * 3 for name, value in seconds.items()}, {})
    return parts.summary(ONE, timed, [], flops, CEILINGS)


def test_shares_are_what_leaving_out_saves_and_add_up_to_one() -> None:
    found = summary(SECONDS)
    shares = {one.name: one.share for one in found.shares}
    assert shares == pytest.approx(
        {parts.HANDING: 0.1, parts.NORMALISATION: 0.2, parts.UPDATE: 0.15, parts.MATRICES: 0.3, parts.REST: 0.25}
    )
    assert sum(shares.values()) == pytest.approx(1)
    assert found.step_seconds == 10.0
    assert (found.fit_over_custom, found.fit_low, found.fit_high) == pytest.approx((1.05, 1.05, 1.05))
    timed = {one.name for one in found.shares if one.low is not None}
    assert timed == {parts.HANDING, parts.NORMALISATION, parts.UPDATE}
    assert all(one.how for one in found.shares)


def test_what_could_not_be_timed_is_left_to_the_rest_and_never_made_up() -> None:
    found = summary({parts.STEP: 9.0, parts.HOST: 10.0})
    assert [one.name for one in found.shares] == [parts.HANDING, parts.MATRICES, parts.REST]
    assert found.fit_over_custom is None
    assert summary({parts.STEP: 9.0}).shares == ()


def test_parts_that_overlap_say_so() -> None:
    rest = summary(SECONDS, flops=900.0).shares[-1]
    assert rest.share < 0
    assert "overlap" in rest.how


def test_amdahl() -> None:
    assert parts.amdahl(0.5, 2) == pytest.approx(4 / 3)
    assert parts.amdahl(1, 8) == 8
    assert parts.amdahl(0, 8) == 1


@given(st.integers(1, MOST), st.integers(1, 5000))
@settings(max_examples=300, deadline=None)
def test_the_largest_batch_is_found_to_an_eighth(room: int, start: int) -> None:
    tried = []

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= room

    found = search(fits, start)
    assert found is not None
    assert found <= room
    assert room - found <= max(1, found / 8)
    assert found in tried
    assert len(tried) == len(set(tried)) <= 45
    assert max(tried) <= MOST


def test_a_model_of_which_no_sample_fits_has_no_largest_batch() -> None:
    tried = []
    assert search(lambda batch: tried.append(batch), 64) is None
    assert tried[-1] == 1


def test_a_search_without_time_says_what_fitted() -> None:
    left = iter([True, True, False])
    with pytest.raises(TimeIsUp) as stopped:
        search(lambda batch: True, 8, lambda: next(left))
    assert stopped.value.fits == 16
