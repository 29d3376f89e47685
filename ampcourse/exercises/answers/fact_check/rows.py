"""Exercise 1: what a row of a table of speeds says when you divide it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def _inputs(rng: np.random.Generator) -> Inputs:
    def row(unit: str, off: float = 1.0) -> tuple:
        """An epoch of a data set, its time before and after, and the rate that is stated beside it."""
        items, before = int(rng.integers(50_000, 2_000_000)), float(np.round(rng.uniform(90, 900), 1))
        after = float(np.round(before / rng.uniform(1.2, 4.0), 1))
        stated = items / before / SECONDS[unit] / off
        return items, before, after, unit, float(f"{stated:.4g}")

    def several(units: list[str], off: Callable[[], float] = lambda: 1.0) -> tuple:
        return ([row(str(rng.choice(units)), off()) for _ in range(5)],)

    return {
        "times in seconds": several(["s"]),
        "times in minutes or hours": ([row("min"), row("h"), row("min"), row("h")],),
        "rates that do not fit": several(["s", "min"], lambda: float(rng.choice([100.0, 0.1, 28.0, 3.5, 8.0]))),
    }


def _rule(
    speed_up: Callable[[float, float], float] = lambda before, after: before / after,
    factor: Callable[[float, float], float] = lambda implied, stated: implied / stated,
    implied: Callable[[float, float, float, str], float] = lambda items, before, after, unit: (
        items / (before * SECONDS[unit])
    ),
) -> Callable[..., Any]:
    """The right answer, with each of its parts open to a mistake."""

    def check_row(items: int, before: float, after: float, unit: str, stated_rate: float) -> Any:
        return speed_up(before, after), factor(implied(items, before, after, unit), stated_rate)

    return check_row


def _by_rates(items: int, before: float, after: float, unit: str, stated_rate: float) -> Any:
    rates = items / (np.array([before, after]) * SECONDS[unit])
    return np.array([rates[1] / rates[0], rates[0] / stated_rate])


def _by_expected_time(items: int, before: float, after: float, unit: str, stated_rate: float) -> Any:
    seconds = {"s": 1, "min": 60, "h": 60 * 60}[unit] * before
    return [before / after, (items / stated_rate) / seconds]


check_row = Exercise(
    id="fact_check.check_row",
    inputs=_inputs,
    observer=each,
    right=_rule(),
    points={"times in seconds": 1, "times in minutes or hours": 1, "rates that do not fit": 1},
    also_right=(_by_rates, _by_expected_time),
    mistakes=(
        Mistake(
            _rule(speed_up=lambda before, after: after / before),
            "Your speed-up is the other way up: below 1 although the run became faster. It is how many times as fast, "
            "so the longer time goes on top.",
        ),
        Mistake(
            _rule(speed_up=lambda before, after: 1 - after / before),
            "You give the share of time that is saved. Half the time saved is a speed-up of 2, not of 0.5.",
        ),
        Mistake(
            _rule(speed_up=lambda before, after: before / after - 1),
            "You give by how much it is faster; asked for is how many times as fast, which is 1 more.",
        ),
        Mistake(
            _rule(factor=lambda implied, stated: stated / implied),
            "Your factor is the other way up. Divide the rate that the time implies by the rate that is stated.",
        ),
        Mistake(
            _rule(implied=lambda items, before, after, unit: items / before),
            "You overlook the unit of the times: the rate is stated for a second.",
        ),
        Mistake(
            _rule(implied=lambda items, before, after, unit: items / (after * SECONDS[unit])),
            "You compare with the rate after the change. The stated rate is the one before it.",
        ),
        Mistake(
            _rule(implied=lambda items, before, after, unit: before * SECONDS[unit] / items),
            "You compute seconds for each item. A rate is items for each second.",
        ),
        Mistake(
            _rule(implied=lambda items, before, after, unit: items / (before / SECONDS[unit])),
            "You divide the time by 60 or 3,600 where you should multiply: five minutes are 300 seconds.",
        ),
        Mistake(
            _rule(implied=lambda items, before, after, unit: items / (before * (1 if unit == "s" else 60))),
            "You take hours for minutes. An hour has 3,600 seconds.",
        ),
        Mistake(
            _rule(factor=lambda implied, stated: implied),
            "Your second value is the rate itself. Asked for is how many times the stated rate it is: divide.",
        ),
        Mistake(
            _rule(factor=lambda implied, stated: implied - stated),
            "You subtract the stated rate. Whether 100 more a second is much depends on the rate: divide.",
        ),
        Mistake(
            _rule(speed_up=lambda before, after: 100 * (before / after - 1)),
            "You give the speed-up as a percentage. Asked for is how many times as fast: 2 and not 100 %.",
        ),
        Mistake(
            _rule(speed_up=lambda before, after: before - after),
            "You subtract the times. A speed-up is a quotient.",
        ),
        Mistake(
            _rule(lambda before, after: after / before, lambda implied, stated: stated / implied),
            "Both of your quotients are the other way up. How many times as fast: the longer time goes on top; the "
            "factor: the rate that the time implies goes on top.",
        ),
        Mistake(
            lambda *row: _rule()(*row)[::-1],
            "You return the two values in the other order: the speed-up comes first, then the factor.",
        ),
        Mistake(
            lambda *row: tuple(round(value, 2) for value in _rule()(*row)),
            "You round. Leave that to whoever prints the numbers.",
        ),
    ),
    hints=(
        "Think of 1,000 pictures in 10 seconds: how many a second?",
        "The implied rate is items / (before in seconds); the factor is that over the stated rate.",
    ),
    rtol=1e-6,
    asks_for=("ampcourse.claims.SPEEDS", "ampcourse.claims.SpeedClaim", "ampcourse.bench.PUBLISHED"),
    insight="A speed-up has a denominator and a rate has a unit. Most wrong tables are found by dividing one column by "
    "another.",
)
