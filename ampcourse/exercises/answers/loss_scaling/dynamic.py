"""Exercise 4: the state machine of dynamic loss scaling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.loss_scaling import drive_loss_scale
from ampcourse.numerics import DynamicLossScale

State = tuple[float, int, bool]
Update = Callable[[float, int, bool, int], State]


def _inputs(rng: np.random.Generator) -> Inputs:
    growth = int(rng.integers(3, 6))
    runs = [[True] * int(n) + [False] for n in rng.integers(1, 3 * growth, 8)]
    bad = [False] * int(rng.integers(9, 13)) + [True] * int(rng.integers(1, 4))
    start = int(rng.integers(0, 3))
    nearly = 2_000 - int(rng.integers(3, 20))  # begun near the end of a row: the same question in fewer steps
    long = [True] * 30 + [False] * int(rng.integers(1, 3)) + [True] * 5
    return {
        "ups and downs": (float(2.0 ** rng.integers(12, 17)), start, growth, np.concatenate(runs)),
        "thousands of good steps": (2.0**15, nearly, 2_000, np.array(long)),
        "down to the floor": (float(2.0 ** rng.integers(3, 8)), start, 2_000, np.array(bad + [False])),
    }


def _machine(
    last: int = 1,
    reset_when_bad: bool = True,
    reset_when_grown: bool = True,
    up: float = 2.0,
    down: float = 0.5,
    floor: float = 1.0,
    ceiling: float = np.inf,
    says: Callable[[bool], bool] = lambda finite: finite,
) -> Update:
    """The rule, with each of its parts open to a mistake."""

    def update(scale: float, good_steps: int, finite: bool, growth_steps: int) -> State:
        if not finite:
            return max(scale * down, floor), 0 if reset_when_bad else good_steps, says(False)
        if good_steps >= growth_steps - last:
            return min(scale * up, ceiling), 0 if reset_when_grown else good_steps + 1, says(True)
        return scale, good_steps + 1, says(True)

    return update


def _as_sentences(scale: float, good_steps: int, finite: bool, growth_steps: int) -> State:
    if finite:
        good_steps += 1
        if good_steps == growth_steps:
            scale *= 2
            good_steps = 0
    else:
        scale = max(1.0, scale / 2)
        good_steps = 0
    return scale, good_steps, finite


def _in_one_expression(scale: float, good_steps: int, finite: bool, growth_steps: int) -> list:
    wraps = finite and (good_steps + 1) % growth_steps == 0
    factor = 2 if wraps else 1 if finite else 0.5
    return [max(scale * factor, 1), (good_steps + 1) * finite % growth_steps, finite]


def _in_numpy(scale: float, good_steps: int, finite: bool, growth_steps: int) -> np.ndarray:
    grown = np.float32(scale) * np.where(good_steps + 1 >= growth_steps, 2, 1)
    count = np.where(good_steps + 1 >= growth_steps, 0, good_steps + 1)
    return np.where(finite, [grown, count, 1], [np.maximum(np.float32(scale) / 2, 1), 0, 0])


def _by_numerics(scale: float, good_steps: int, finite: bool, growth_steps: int) -> State:
    machine = DynamicLossScale(scale, growth_steps, floor=1.0)
    machine.good_steps = good_steps
    applied = machine.update(finite)
    return machine.scale, machine.good_steps, applied


dynamic_update = Exercise(
    id="loss_scaling.dynamic_update",
    inputs=_inputs,
    observer=drive_loss_scale,
    right=_machine(),
    points={"ups and downs": 2, "thousands of good steps": 2, "down to the floor": 1},
    also_right=(_as_sentences, _in_one_expression, _in_numpy, _by_numerics),
    mistakes=(
        Mistake(
            _machine(last=0),
            "You double one step too late. The step that completes the row of `growth_steps` good steps doubles the "
            "scale: count it before you compare.",
        ),
        Mistake(
            _machine(last=2),
            "You double one step too early: `growth_steps` good steps in a row are needed, this one included.",
        ),
        Mistake(
            _machine(reset_when_bad=False),
            "A bad step must set the count back to 0: the good steps have to come in a row.",
        ),
        Mistake(
            _machine(reset_when_grown=False),
            "After doubling, the count must start again at 0. Yours doubles at every further step.",
        ),
        Mistake(
            _machine(floor=0.0),
            "Your scale falls below 1. Without a floor a long row of bad steps ends at 0, "
            "and the next division by it gives NaN.",
        ),
        Mistake(
            _machine(down=1.0, floor=0.0),
            "Your scale never falls. A bad step says that it was too high: halve it.",
        ),
        Mistake(
            _machine(up=1.0),
            "Your scale never grows, so after one unlucky batch small gradients stay lost for the rest of the run.",
        ),
        Mistake(
            _machine(up=0.5, down=2.0),
            "The wrong way round: infinity means that the scale was too high. Halve it then, and double it after a "
            "row of good steps.",
        ),
        Mistake(
            _machine(says=lambda finite: True),
            "You apply the step although its gradients are not finite. One infinity in a weight and the run is over: "
            "skip it.",
        ),
        Mistake(
            _machine(says=lambda finite: not finite),
            "The third value is the wrong way round: True if the step is applied, False if it is skipped.",
        ),
        Mistake(
            _machine(ceiling=2.0**15),
            "You never go above 2**15. Keras only starts there; the gradients decide how high the scale may go.",
        ),
    ),
    hints=(
        "There are three cases: bad step; good step that completes the row; any other good step.",
        "The row is complete if good_steps + 1 == growth_steps. Then the new count is 0.",
        "On a bad step: max(scale / 2, 1.0), 0, False.",
    ),
    asks_for=("ampcourse.numerics.DynamicLossScale", "ampcourse.numerics.trace", "ampcourse.numerics.trace_gradients"),
    insight="Two numbers are the whole state, and both belong into a checkpoint. The scale hunts for the highest value "
    "that fits: falling takes one step for a factor of 2, climbing takes 2,000.",
)
