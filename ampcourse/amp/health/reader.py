"""The host's side of the recorder: rows read before the ring overwrites them, kept as arrays, one a step."""

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
        scale: the loss scale for the next step; 1.0 where nothing scales.
        dynamic: whether a loss scaler decides on the scale and skips steps.
        growth_steps: good steps after which the scale doubles; 0 without a scaler.
        weights_finite: whether all watched weights were finite when last looked at.
        state_finite: the same of the model's other variables, such as the statistics of a normalization.
        history: one array a quantity, one entry a step; see `GradientMonitor.history`.
        variables: one array a quantity, one entry a variable.
    """

    steps: int = 0
    nonfinite_steps: int = 0
    nan_steps: int = 0
    skipped: int = 0
    streak: int = 0
    clean: int = 0
    scale: float = 1.0
    dynamic: bool = False
    scaled: bool = False
    growth_steps: int = 0
    weights_finite: bool = True
    state_finite: bool = True
    halted: bool = False
    watched: list[Any] = field(default_factory=list)
    history: dict[str, np.ndarray] = field(default_factory=dict)
    variables: dict[str, np.ndarray] = field(default_factory=dict)


class Reader:
    """Reads a `Recorder` from time to time."""

    def __init__(self, recorder: Any, others: list[Any]) -> None:
        self.recorder, self.others = recorder, others
        self.start = int(recorder.counters.applied())
        self._rows: list[np.ndarray] = []
        self._steps: list[np.ndarray] = []
        self._iterations: list[np.ndarray] = []
        self._seen = 0
        self.lost = 0

    def read(self) -> Facts:
        """Takes in what is new and returns all that is known."""
        from ampcourse.amp.health import device

        recorder = self.recorder
        totals = dict(zip(device.TOTALS, recorder.totals.numpy().tolist(), strict=True))
        self._take(totals["steps"], device.KEEP)
        means = recorder.means.numpy()
        applied = int(recorder.counters.applied())
        history = self._history(device.ROW, applied)
        return Facts(
            steps=totals["steps"],
            nonfinite_steps=totals["nonfinite_steps"],
            nan_steps=totals["nan_steps"],
            skipped=max(totals["steps"] - (applied - self.start), 0),
            streak=totals["streak"],
            clean=totals["clean"],
            halted=bool(totals["halted"]),
            scale=float(recorder.counters.scale()),
            dynamic=recorder.counters.dynamic,
            scaled=recorder.counters.scaled,
            growth_steps=recorder.counters.growth_steps,
            weights_finite=all_finite(recorder.variables),
            state_finite=all_finite(self.others),
            watched=recorder.watched,
            history=history,
            variables={name: means[:, i] for i, name in enumerate(device.PER_VARIABLE)},
        )

    def _take(self, steps: int, keep: int) -> None:
        """The rows since the last time, as far as the ring still has them."""
        new = steps - self._seen
        if new <= 0:
            return
        self.lost += max(new - keep, 0)
        numbers = np.arange(max(self._seen, steps - keep), steps)
        self._rows.append(self.recorder.ring.numpy()[numbers % keep])
        self._iterations.append(self.recorder.iterations.numpy()[numbers % keep])
        self._steps.append(numbers + 1)
        self._seen = steps

    def _history(self, names: tuple[str, ...], applied: int) -> dict[str, np.ndarray]:
        if not self._rows:
            return {name: np.empty(0) for name in ("step", *names, "skipped")}
        self._rows, self._steps = [np.concatenate(self._rows)], [np.concatenate(self._steps)]
        self._iterations = [np.concatenate(self._iterations)]
        rows, steps, iterations = self._rows[0], self._steps[0], self._iterations[0]
        history = {"step": steps} | {name: rows[:, i].astype(np.float64) for i, name in enumerate(names)}
        following = np.append(iterations[1:], applied)
        history["skipped"] = following == iterations
        for name in ("update_ratio", "unmoved"):  # each row tells what the step before it did
            history[name] = np.append(history[name][1:], np.nan)
        return history


def all_finite(variables: list[Any]) -> bool:
    """Whether every number in floating-point variables is finite; one value comes back from the device."""
    import tensorflow as tf

    from ampcourse.amp.health.watched import dtype_of, is_float

    checks = []
    for variable in variables:
        if is_float(dtype_of(variable)):
            value = tf.convert_to_tensor(getattr(variable, "value", variable))
            checks.append(tf.reduce_all(tf.math.is_finite(value)))
    return bool(tf.reduce_all(tf.stack(checks))) if checks else True
