"""Static and dynamic loss scaling as state machines in plain Python, by the rule of Keras 3."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ampcourse.numerics.formats import FLOAT32, Format, get_format
from ampcourse.numerics.inputs import positive, some_float64


@dataclass
class StaticLossScale:
    """A loss scale that never changes; a step with non-finite gradients is skipped.

    Micikevicius et al. 2018 (arXiv:1710.03740), section 3.2, choose a constant scale and may skip such steps. (The
    constant `loss_scale_factor` of a Keras 3 optimizer checks nothing: there a non-finite step is applied.)

    `scale` is kept as float32, as TensorFlow would. `good_steps` counts the steps applied since the last skipped one.
    Raises ValueError for a scale that is not finite and above zero, TypeError for what is not a number.
    """

    scale: float = 2.0**15
    good_steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.scale = _float32_scale(self.scale, "scale")

    def update(self, finite: bool) -> bool:
        """Goes one step further: were its gradients finite? Returns True if the step is applied, False if skipped."""
        applied = _one_bool(finite)
        self.good_steps = self.good_steps + 1 if applied else 0
        return applied


@dataclass
class DynamicLossScale:
    """A loss scale that follows the gradients: `keras.optimizers.LossScaleOptimizer` (Keras 3) step by step.

    A step with non-finite gradients is skipped, halves the scale and starts the count of good steps again. After
    `growth_steps` good steps in a row the scale doubles and the count starts again; so it does on the step that
    completes the row, for the next step. The rule is that of Micikevicius et al. 2018 (arXiv:1710.03740), section 3.2,
    with Keras 3's numbers: start at 2**15, double after 2,000 steps.

    The scale is float32 and, as in TensorFlow, subnormals count as zero: without a floor 142 non-finite steps in a row
    end at 0.0, where the next division by it makes NaN of everything; doubled often enough it ends at infinity. With
    a `floor` it never falls below it (tf_keras, for Keras 2, has a floor of 1).

    Raises ValueError for a scale or floor that is not finite and above zero, a floor above the scale, or fewer than
    one growth step; TypeError for what is not a number.
    """

    initial_scale: float = 2.0**15
    growth_steps: int = 2000
    floor: float | None = None
    scale: float = field(init=False)
    good_steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.scale = self.initial_scale = _float32_scale(self.initial_scale, "initial_scale")
        if isinstance(self.growth_steps, bool) or not isinstance(self.growth_steps, int | np.integer):
            raise TypeError(f"growth_steps must be a whole number, not {self.growth_steps!r}.")
        if self.growth_steps < 1:
            raise ValueError(f"growth_steps must be at least 1, not {self.growth_steps}.")
        if self.floor is not None:
            self.floor = _float32_scale(self.floor, "floor")
            if self.floor > self.scale:
                raise ValueError(f"floor ({self.floor:g}) must not be above initial_scale ({self.scale:g}).")

    def update(self, finite: bool) -> bool:
        """Goes one step further: were its gradients finite? Returns True if the step is applied, False if skipped."""
        applied = _one_bool(finite)
        if not applied:
            self.good_steps = 0
            self.scale = max(_float32(self.scale * 0.5), self.floor or 0.0)
        elif self.good_steps == self.growth_steps - 1:
            self.good_steps = 0
            self.scale = _float32(self.scale * 2.0)
        else:
            self.good_steps += 1
        return applied


class LossScale(Protocol):
    """What `trace` needs of a loss scale: so a learner's own class can be traced too."""

    scale: float

    def update(self, finite: bool) -> bool:
        """Goes one step further and says whether the step is applied."""


@dataclass(frozen=True, eq=False)
class ScaleTrace:
    """A loss scale over a run: `scales` (float64) used at each step, `applied` (bool), and the scale after the last."""

    scales: np.ndarray
    applied: np.ndarray
    final_scale: float

    @property
    def skipped(self) -> int:
        """How many steps were skipped."""
        return int(np.count_nonzero(~self.applied))


def trace(loss_scale: LossScale, finite_steps: Iterable[bool]) -> ScaleTrace:
    """Takes a copy of the loss scale through steps whose gradients were finite (True) or not (False).

    `loss_scale` is a StaticLossScale, a DynamicLossScale or any object with `scale` and `update(finite)`. Raises
    TypeError where it is not, or where a step is not a bool.
    """
    return _trace(loss_scale, finite_steps, lambda step, scale: step)


def trace_gradients(loss_scale: LossScale, largest_gradients: Any, format: str | Format = "float16") -> ScaleTrace:
    """Takes a copy of the loss scale through steps with these largest unscaled gradients (absolute values count).

    A step is finite if its largest gradient, times the scale in use, is finite in the format: so the scale hunts for
    the highest one that fits. Raises ValueError for no gradients or an unknown format, TypeError as `trace`.
    """
    chosen = get_format(format)
    gradients = some_float64(largest_gradients, "largest_gradients")
    with np.errstate(over="ignore", invalid="ignore"):
        return _trace(loss_scale, gradients, lambda step, scale: bool(np.isfinite(chosen.round(step * scale))))


def _trace(loss_scale: LossScale, steps: Iterable[Any], finite: Callable[[Any, float], Any]) -> ScaleTrace:
    if isinstance(loss_scale, type) or not (hasattr(loss_scale, "scale") and hasattr(loss_scale, "update")):
        raise TypeError(
            f"loss_scale must have a scale and update(finite), as DynamicLossScale() does; got {loss_scale!r}."
        )
    if not isinstance(steps, Iterable):
        raise TypeError(f"The steps must be a list or array, not {type(steps).__name__}.")
    machine = copy.deepcopy(loss_scale)
    scales: list[float] = []
    applied: list[bool] = []
    for step in steps:
        scales.append(machine.scale)
        applied.append(machine.update(finite(step, machine.scale)))
    return ScaleTrace(np.array(scales, float), np.array(applied, bool), machine.scale)


def _float32(scale: float) -> float:
    """Rounded to float32, where TensorFlow's kernels take subnormals for zero."""
    rounded = float(FLOAT32.round(scale))
    return rounded if rounded >= FLOAT32.least_normal else 0.0


def _float32_scale(scale: Any, name: str) -> float:
    rounded = _float32(positive(scale, name))
    if not FLOAT32.least_normal <= rounded <= FLOAT32.largest:
        raise ValueError(f"{name} must be a normal float32, from 2**-126 to almost 2**128, not {float(scale):g}.")
    return rounded


def _one_bool(finite: Any) -> bool:
    """A bool, also from numpy or TensorFlow. A float is refused: bool(nan) is True, which would be taken for finite."""
    if isinstance(finite, bool):
        return finite
    array = np.asarray(finite)
    if array.dtype != bool or array.ndim:
        raise TypeError(f"finite must be True or False, not {finite!r}.")
    return bool(array)
