"""Turns and their statistics, with a clock that only work moves."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from ampcourse.bench.turns import median_interval, order, speed_up, take_turns


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_everyone_stands_in_every_place_equally_often(count: int) -> None:
    names = list("abcdefgh"[:count])
    turns = [order(names, turn) for turn in range(2 * count)]
    assert all(sorted(turn) == names for turn in turns)
    places = Counter((name, place) for turn in turns for place, name in enumerate(turn))
    assert set(places.values()) == {2}
    assert len(places) == count**2
    if count > 2:  # and is not always run after the same one
        before = {(a, b) for turn in turns for a, b in pairwise(turn)}
        assert {(b, a) for a, b in before} == before


def test_the_seconds_of_a_step_come_out_and_turns_are_about_as_long_as_asked(clock) -> None:
    runs = Counter()

    def takes(name: str, seconds: float):
        def work(steps: int) -> None:
            runs[name, steps] += 1
            clock.now += steps * seconds

        return work

    timed = take_turns({"slow": takes("slow", 2.0), "fast": takes("fast", 0.25)}, 4, 1.0, clock=clock)
    assert timed.seconds["slow"] == pytest.approx([2.0] * 4)
    assert timed.seconds["fast"] == pytest.approx([0.25] * 4)
    assert timed.steps == {"slow": 1, "fast": 4}
    assert runs == {("slow", 1): 5, ("fast", 1): 1, ("fast", 4): 4}


def test_a_machine_that_gets_slower_changes_seconds_but_no_ratio(clock) -> None:
    load = {"now": 1.0}

    def takes(seconds: float):
        def work(steps: int) -> None:
            clock.now += steps * seconds * load["now"]

        return work

    def slower(steps: int) -> None:
        load["now"] *= 1.5
        clock.now += 1

    timed = take_turns({"a": takes(2.0), "b": takes(1.0), "c": slower}, 9, 0.1, clock=clock)
    assert max(timed.seconds["a"]) > 10 * min(timed.seconds["a"])
    middle, low, high = speed_up(timed.seconds["a"], timed.seconds["b"])
    assert middle == pytest.approx(2.0)  # where the load rises between the two, the ratio of that turn differs
    assert low <= middle <= high
    together = take_turns({"a": takes(2.0), "b": takes(1.0)}, 9, 0.1, clock=clock)
    assert speed_up(together.seconds["a"], together.seconds["b"]) == pytest.approx((2, 2, 2))


@pytest.mark.parametrize("fails_in", [0, 1, 3])
def test_who_fails_leaves_and_the_others_go_on(clock, fails_in: int) -> None:
    calls = Counter()

    def broken(steps: int) -> None:
        calls["broken"] += 1
        if calls["broken"] > fails_in:
            raise MemoryError("no room")

    def fine(steps: int) -> None:
        clock.now += steps

    timed = take_turns({"broken": broken, "fine": fine}, 5, 0.1, clock=clock)
    assert isinstance(timed.failed["broken"], MemoryError)
    assert timed.seconds["broken"] == []  # turns that others have and it has not would not be a pair
    assert timed.seconds["fine"] == [1.0] * 5


def test_an_interruption_is_no_failure(clock) -> None:
    def interrupted(steps: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_turns({"a": interrupted}, 3, 0.1, clock=clock)


def test_when_the_time_is_up_there_are_enough_turns_for_an_interval_and_no_more(clock) -> None:
    def work(steps: int) -> None:
        clock.now += steps

    timed = take_turns({"a": work, "b": work}, 50, 0.1, clock=clock, until=0.5)
    assert len(timed.seconds["a"]) == len(timed.seconds["b"]) == 3


def test_a_runner_may_stop_the_time_itself(clock) -> None:
    def work(steps: int) -> float:
        clock.now += 100
        return 0.5 * steps

    assert take_turns({"a": work}, 3, 2.0, clock=clock).seconds["a"] == [0.5] * 3


def test_intervals_of_few_values_are_their_range() -> None:
    for count in (1, 2, 3, 4, 5):
        values = [float(v) for v in range(1, count + 1)]
        assert median_interval(values) == (np.median(values), 1.0, float(count))
    assert median_interval([3.0] * 9) == (3.0, 3.0, 3.0)


@pytest.mark.parametrize("count", [7, 9, 21])
def test_the_interval_holds_the_true_median_about_as_often_as_it_says(count: int) -> None:
    rng, held, widths = np.random.default_rng(1), 0, []
    for _ in range(200):
        values = np.exp(rng.normal(size=count))
        middle, low, high = median_interval(list(values))
        assert low <= middle <= high
        held += low <= 1.0 <= high
        widths.append(high - low)
    assert 0.88 <= held / 200 <= 1.0
    assert np.median(widths) < 6 / math.sqrt(count)


def test_a_ratio_is_of_the_same_turn() -> None:
    assert speed_up([2.0, 20.0, 200.0], [1.0, 10.0, 100.0]) == (2.0, 2.0, 2.0)
