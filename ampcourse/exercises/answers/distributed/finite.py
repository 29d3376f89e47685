"""Exercise 2: one loss scale for several replicas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.distributed import drive_replicas
from ampcourse.numerics import DynamicLossScale

State = tuple[float, int, bool]


def _inputs(rng: np.random.Generator) -> Inputs:
    def run(replicas: int, steps: int, bad: list[tuple[int, list[int]]]) -> np.ndarray:
        finite = np.ones((steps, replicas), bool)
        for step, where in bad:
            finite[step, where] = False
        return finite

    growth, scale = int(rng.integers(3, 6)), float(2.0 ** rng.integers(10, 17))
    start = int(rng.integers(0, 3))
    one, other, third = sorted(rng.permutation(18)[:3].tolist())
    alone = int(rng.integers(1, 4))
    first = [(one, [0]), (other, [0]), (third, [0, 1])]
    low = float(2.0 ** rng.integers(-9, -6))  # here a floor of 1 would show
    several = [(one, [1, 3]), (other, [1, 2, 3]), (third, [0, 1, 2, 3])]
    return {
        "the first replica overflows": (scale, start, growth, run(2, 20, first)),
        "another replica overflows": (scale, start, growth, run(4, 28, [(one, [alone]), (other, [4 - alone])])),
        "several overflow in one step": (low, start, growth, run(4, 20, several)),
    }


def _machine(
    agree: Callable[[list[bool]], bool] = all,
    down: Callable[[list[bool]], float] = lambda finite: 0.5,
    applied: Callable[[list[bool]], bool] | None = None,
    up: float = 2.0,
) -> Callable[[float, int, list[bool], int], State]:
    def update(scale: float, good_steps: int, finite: list[bool], growth_steps: int) -> State:
        said = agree(finite) if applied is None else applied(finite)
        if not agree(finite):
            return scale * down(finite), 0, said
        if good_steps + 1 >= growth_steps:
            return scale * up, 0, said
        return scale, good_steps + 1, said

    return update


def _late(scale: float, good_steps: int, finite: list[bool], growth_steps: int) -> State:
    if not all(finite):
        return scale / 2, 0, False
    if good_steps >= growth_steps:
        return scale * 2, 0, True
    return scale, good_steps + 1, True


def _counts_on(again: Callable[[int, int], bool]) -> Callable[[float, int, list[bool], int], State]:
    """The count is not set back where the scale grows."""

    def update(scale: float, good_steps: int, finite: list[bool], growth_steps: int) -> State:
        if not all(finite):
            return scale / 2, 0, False
        return scale * (2 if again(good_steps + 1, growth_steps) else 1), good_steps + 1, True

    return update


def _keeps_the_count(scale: float, good_steps: int, finite: list[bool], growth_steps: int) -> State:
    said = _machine()(scale, good_steps, finite, growth_steps)
    return said if all(finite) else (said[0], good_steps, False)


def _counts_bad_steps(scale: float, good_steps: int, finite: list[bool], growth_steps: int) -> State:
    good_steps += 1
    scale = scale if all(finite) else scale / 2
    return (scale * 2, 0, all(finite)) if good_steps >= growth_steps else (scale, good_steps, all(finite))


def _floored(scale: float, good_steps: int, finite: list[bool], growth_steps: int) -> State:
    scale, good_steps, applied = _machine()(scale, good_steps, finite, growth_steps)
    return (scale if applied else max(scale, 1.0)), good_steps, applied


def _by_numerics(scale: float, good_steps: int, finite: list[bool], growth_steps: int) -> State:
    machine = DynamicLossScale(scale, growth_steps, floor=2.0**-126)
    machine.good_steps = good_steps
    applied = machine.update(all(finite))
    return machine.scale, machine.good_steps, applied


def _by_counting(scale: float, good_steps: int, finite: list[bool], growth_steps: int) -> list:
    if sum(finite) < len(finite):
        return [scale / 2, 0, False]
    good_steps += 1
    grows = good_steps == growth_steps
    return [scale * (1 + grows), good_steps * (not grows), True]


def _in_numpy(scale: float, good_steps: int, finite: list[bool], growth_steps: int) -> tuple:
    good = np.min(finite)
    count = (good_steps + 1) % growth_steps
    return np.where(good, np.where(count == 0, 2 * scale, scale), scale / 2), np.where(good, count, 0), good


update_on_all = Exercise(
    id="distributed.update_on_all",
    inputs=_inputs,
    observer=drive_replicas,
    right=_machine(),
    points={"the first replica overflows": 1, "another replica overflows": 2, "several overflow in one step": 1},
    also_right=(_by_numerics, _by_counting, _in_numpy),
    mistakes=(
        Mistake(
            _machine(agree=lambda finite: finite[0]),
            "You ask the first replica only. The gradients are added up, so an infinity on any replica is in the sum: "
            "with your rule it is applied, and every weight on every replica is lost.",
        ),
        Mistake(
            _machine(agree=any),
            "You skip only if *no* replica is finite. One that is not finite spoils the sum: `all`, not `any`.",
        ),
        Mistake(
            _machine(agree=lambda finite: finite[-1]),
            "You ask the last replica only; does a loop overwrite what it has found? Every one of them counts.",
        ),
        Mistake(
            _machine(down=lambda finite: 0.5 ** finite.count(False)),
            "You halve once for each replica that overflows. They share one scale, and one step halves it once.",
        ),
        Mistake(
            _machine(applied=lambda finite: True),
            "The scale is right, but the step is applied all the same. The sum is not finite: skip it everywhere.",
        ),
        Mistake(
            _machine(applied=any),
            "You apply the step if some replica is finite. There is one update for all of them: skip it on all.",
        ),
        Mistake(
            _machine(agree=lambda finite: 2 * sum(finite) >= len(finite)),
            "You let the majority decide. A single infinity is enough to spoil the sum.",
        ),
        Mistake(
            _machine(agree=lambda finite: True),
            "You never skip. Look at `finite`: one False is enough.",
        ),
        Mistake(
            _machine(up=1.0),
            "Your scale never grows: a row of `growth_steps` good steps doubles it, as in lesson 02.",
        ),
        Mistake(
            _late,
            "Your scale grows one step late. `good_steps` is the count *before* this step: the step that makes it "
            "`growth_steps` doubles the scale.",
        ),
        Mistake(
            _counts_on(lambda count, growth: count >= growth),
            "Once the count has reached `growth_steps` you double at every step: set it back to 0 when the scale "
            "grows.",
        ),
        Mistake(
            _counts_on(lambda count, growth: count == growth),
            "Your scale grows once and never again: the count runs past `growth_steps`. Set it back to 0 when the "
            "scale grows.",
        ),
        Mistake(
            _counts_on(lambda count, growth: count % growth == 0),
            "The scale is right, but the count returned runs on: it is the number of good steps since the last "
            "change, so set it back to 0 when the scale grows.",
        ),
        Mistake(
            _keeps_the_count,
            "You keep the count after an overflow. Good steps count only in a row: a skipped step sets it back to 0.",
        ),
        Mistake(
            _counts_bad_steps,
            "You count the skipped steps as good ones, so that the scale grows again too soon. A skipped step sets "
            "the count to 0.",
        ),
        Mistake(
            _floored,
            "Your scale stops falling at 1, as in lesson 02. Here it has no floor: it may fall below.",
        ),
    ),
    hints=(
        "What is the sum of a finite number and an infinity?",
        "Reduce the list to one bool first. The rest is the rule of lesson 02, here without a floor.",
        "if not all(finite): return scale / 2, 0, False",
    ),
    asks_for=(
        "ampcourse.numerics.DynamicLossScale",
        "ampcourse.numerics.trace",
        "ampcourse.training.optimizers.agreeing",
    ),
    insight="Replicas hold copies of the same weights and the same scale. They stay copies only as long as all take "
    "the same decision, so the decision has to be reduced across the replicas, just as the gradients are.",
)
