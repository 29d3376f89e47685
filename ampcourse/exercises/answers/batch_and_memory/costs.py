"""Exercise 6: energy and money of a run, from readings of its power."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

Readings = list[tuple[float, float]]


def _inputs(rng: np.random.Generator) -> Inputs:
    """(readings of (seconds, watts), devices, price of a kilowatt-hour, price of a device's hour)."""

    def prices() -> tuple[int, float, float]:
        return int(rng.integers(2, 9)), float(rng.uniform(0.1, 0.5)), float(rng.uniform(0.5, 6))

    def readings(times: np.ndarray, watts: np.ndarray) -> Readings:
        return [(float(t), float(w)) for t, w in zip(times, watts, strict=True)]

    count, start = int(rng.integers(8, 15)), float(rng.uniform(100, 5000))
    even = start + np.arange(count) * float(rng.uniform(300, 900))
    gaps = rng.uniform(20, 120, count) * np.where(np.arange(count) % 3 == 0, 30, 1)
    pause = rng.uniform(250, 400, count)
    pause[count // 3 : count // 3 + 3] = rng.uniform(50, 70, 3)
    return {
        "a steady run": (readings(even, rng.uniform(300, 400) + rng.normal(0, 5, count)), *prices()),
        "readings at uneven times": (readings(start + np.cumsum(gaps), rng.uniform(60, 400, count)), *prices()),
        "a run with a pause": (readings(np.cumsum(gaps[::-1]) - 60, pause), *prices()),
    }


def _cost(
    joules: Callable[[np.ndarray, np.ndarray], float] | None = None,
    hours: Callable[[np.ndarray], float] = lambda t: (t[-1] - t[0]) / 3600,
    in_a_kwh: float = 3.6e6,
    devices: tuple[bool, bool] = (True, True),
    whole_hours: bool = False,
) -> Callable[..., tuple[float, float, float]]:
    """The right answer, with each of its parts open to a mistake."""
    joules = joules or (lambda t, w: float(np.trapezoid(w, t)))

    def run_cost(
        readings: Readings, devices_used: int, price_per_kwh: float, price_per_hour: float
    ) -> tuple[float, float, float]:
        t, w = (np.array(column, float) for column in zip(*readings, strict=True))
        kwh = joules(t, w) / in_a_kwh * (devices_used if devices[0] else 1)
        time = np.ceil(hours(t)) if whole_hours else hours(t)
        return kwh, kwh * price_per_kwh, time * price_per_hour * (devices_used if devices[1] else 1)

    return run_cost


def _step_by_step(
    readings: Readings, devices_used: int, price_per_kwh: float, price_per_hour: float
) -> tuple[float, float, float]:
    watt_seconds = 0.0
    for (t0, w0), (t1, w1) in pairwise(readings):
        watt_seconds += (t1 - t0) * (w0 + w1) / 2
    kwh = devices_used * watt_seconds / 3600 / 1000
    hours = (readings[-1][0] - readings[0][0]) / 3600
    return kwh, kwh * price_per_kwh, hours * devices_used * price_per_hour


def _in_numpy(readings: Readings, devices_used: int, price_per_kwh: float, price_per_hour: float) -> np.ndarray:
    t, w = np.array(readings).T
    hours = np.diff(t) / 3600
    kwh = devices_used * np.dot(hours, (w[1:] + w[:-1]) / 2000)
    return np.array([kwh, kwh * price_per_kwh, hours.sum() * devices_used * price_per_hour])


run_cost = Exercise(
    id="batch_and_memory.run_cost",
    inputs=_inputs,
    right=_cost(),
    points={"a steady run": 1, "readings at uneven times": 2, "a run with a pause": 1},
    also_right=(_step_by_step, _in_numpy),
    mistakes=(
        Mistake(
            _cost(joules=lambda t, w: float(np.mean(w) * (t[-1] - t[0]))),
            "You multiply the mean of the readings by the time. Where readings are not evenly spaced, a reading that "
            "stands for a long time has to weigh more: go from one to the next.",
        ),
        Mistake(
            _cost(joules=lambda t, w: float(np.sum(np.diff(t) * w[:-1]))),
            "You let every reading hold until the next one. Take the mean of the two: the power is as likely to have "
            "changed early as late.",
        ),
        Mistake(
            _cost(joules=lambda t, w: float(np.max(w) * (t[-1] - t[0]))),
            "You take the highest power for the whole time. That is what the power supply must bear, not what is paid.",
        ),
        Mistake(
            _cost(in_a_kwh=3.6e3),
            "Your energy is in watt-hours. A kilowatt-hour is 1,000 W for 3,600 s.",
        ),
        Mistake(
            _cost(in_a_kwh=1e3),
            "Watts times seconds are joules. A kilowatt-hour is 1,000 W for 3,600 s, so 3.6 million joules.",
        ),
        Mistake(
            _cost(hours=lambda t: t[-1] / 3600),
            "You count from second 0. The run lasts from the first reading to the last.",
        ),
        Mistake(
            _cost(hours=lambda t: t[-1] - t[0]),
            "The price of a device is for an hour, and your times are in seconds.",
        ),
        Mistake(
            _cost(devices=(False, False)),
            "You reckon for one device; the readings are those of one, and there are several.",
        ),
        Mistake(
            _cost(devices=(False, True)),
            "The energy is that of one device. The readings are those of one, and there are several.",
        ),
        Mistake(
            _cost(devices=(True, False)),
            "The rent is that of one device, and there are several.",
        ),
        Mistake(
            _cost(whole_hours=True),
            "You round the hours up. Some providers bill so; here every second counts as it is.",
        ),
    ),
    hints=(
        "Between two readings, take the mean of their powers for the time between them.",
        "Add up (t1 - t0) * (w0 + w1) / 2: those are joules of one device. 3.6 million joules are a kilowatt-hour.",
        "Rent: (last time - first time) / 3600 hours, times devices, times price_per_hour.",
    ),
    rtol=1e-6,
    insight="On rented machines the hour usually costs far more than its electricity. Both go down with the time a run "
    "takes, so a speed-up that was measured is worth money, and one that was hoped for is not.",
)
