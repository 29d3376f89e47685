"""What is known of a run: plain numbers, from which the verdict, the table and the pictures are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Facts:
    """Everything known of a run so far: what the verdict, the table and the pictures are made from.

    Attributes:
        steps: steps recorded.
        nonfinite_steps: steps with a gradient that is not finite (NaN or infinite).
        nan_steps: steps with a NaN among the gradients, which is all that a check by `is_nan` sees.
        skipped: steps that the optimizer did not apply.
        streak: non-finite steps in a row up to the last one.
        clean: finite steps in a row up to the last one.
        longest: the most finite steps in a row that there have been.
        scale: the loss scale for the next step; 1.0 where nothing scales.
        scaled: whether there is a loss scale at all.
        dynamic: whether a loss scaler decides on the scale and skips steps.
        floored: whether the scale never falls below 1, as in tf_keras.
        learning_rate: as it is now; None where it cannot be read.
        own_loop: whether the steps are those of a loop of one's own, which has to scale the loss itself.
        growth_steps: good steps after which the scale doubles; 0 without a scaler.
        weights_finite: whether all watched weights were finite when last looked at.
        state_finite: the same of the model's other variables, such as the statistics of a normalization.
        halted: whether the device halted the run, as it may with `stop=True`.
        watched: the variables.
        history: one array a quantity, one entry a step; see `GradientMonitor.history`.
        variables: one array a quantity, one entry a variable.
    """

    steps: int = 0
    nonfinite_steps: int = 0
    nan_steps: int = 0
    skipped: int = 0
    streak: int = 0
    clean: int = 0
    longest: int = 0
    scale: float = 1.0
    dynamic: bool = False
    scaled: bool = False
    floored: bool = False
    learning_rate: float | None = None
    own_loop: bool = False
    growth_steps: int = 0
    weights_finite: bool = True
    state_finite: bool = True
    halted: bool = False
    watched: list[Any] = field(default_factory=list)
    history: dict[str, np.ndarray] = field(default_factory=dict)
    variables: dict[str, np.ndarray] = field(default_factory=dict)
