"""The host's side of the recorder: rows read before the ring overwrites them, kept as arrays, one a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ampcourse.amp.health.device import KEEP, PER_VARIABLE, ROW, TOTALS
from ampcourse.amp.health.facts import Facts
from ampcourse.amp.health.watched import dtype_of, is_float, tensorflow_variable

MOVEMENT = ("update_ratio", "unmoved")


class Reader:
    """Reads a `Recorder` from time to time; a reading costs what is new, not what there is."""

    def __init__(self, recorder: Any, others: list[Any]) -> None:
        self.recorder = recorder
        self.start = int(recorder.counters.applied())
        self.lost = 0
        self._seen = 0
        self._closed = False  # whether it is known already what became of the last step
        self._rows = Growing((*ROW, "step", "skipped", "iterations"))
        # Concrete at once: TensorFlow warns on stderr when many functions from one place are traced by calling them.
        self._finite = tf.function(
            lambda: tf.stack([_finite(recorder.variables), _finite(others)])
        ).get_concrete_function()

    def read(self) -> Facts:
        """Takes in what is new and returns all that is known."""
        recorder = self.recorder
        totals = dict(zip(TOTALS, local(recorder.totals).tolist(), strict=True))
        applied = int(recorder.counters.applied())
        self._take(totals["steps"], applied)
        means = local(recorder.means)
        weights, state = self._finite().numpy()
        history = self._rows.columns()
        counters = recorder.counters
        history["skipped"] = history["nonfinite" if counters.counts_skips else "skipped"] > 0
        history["step"] = history["step"].astype(np.int64)
        del history["iterations"]
        skipped = totals["steps"] - (applied - self.start)
        return Facts(
            **{name: totals[name] for name in ("steps", "nonfinite_steps", "nan_steps", "streak", "clean", "longest")},
            skipped=totals["nonfinite_steps"] if counters.counts_skips else max(skipped, 0),
            halted=bool(totals["halted"]),
            scale=float(counters.scale()),
            dynamic=counters.dynamic,
            scaled=counters.scaled,
            floored=counters.counts_skips,
            learning_rate=counters.learning_rate,
            growth_steps=counters.growth_steps,
            weights_finite=bool(weights),
            state_finite=bool(state),
            watched=recorder.watched,
            history=history,
            variables={name: means[:, i] for i, name in enumerate(PER_VARIABLE)},
        )

    def resume(self) -> None:
        """Steps that the optimizer took since the last one recorded were not watched, and must not be taken for ours.

        Without this they would hide skipped steps, and count as one long update.
        """
        recorder = self.recorder
        if recorder.replicas > 1:  # whose variables cannot be written to from here
            return
        totals = dict(zip(TOTALS, local(recorder.totals).tolist(), strict=True))
        if not totals["steps"]:
            self.start = int(recorder.counters.applied())
            return
        lost = recorder.counters.dynamic and not recorder.counters.counts_skips and totals["streak"] > 0
        expected = int(local(recorder.before)) + (0 if lost else 1)
        gap = int(recorder.counters.applied()) - expected
        if gap > 0:
            self._take(totals["steps"], expected)
            self._closed = True
            self.start += gap
            recorder.before.assign(recorder.counters.applied())

    def _take(self, steps: int, applied: int) -> None:
        """The rows since the last time, as far as the ring still has them."""
        if steps <= self._seen:
            self._finish(applied)
            return
        self.lost += max(steps - self._seen - KEEP, 0)
        numbers = np.arange(max(self._seen, steps - KEEP), steps)
        rows = local(self.recorder.ring)[numbers % KEEP].astype(np.float64)
        iterations = local(self.recorder.iterations)[numbers % KEEP]
        # A row tells what the step before it did to the weights, and whether that step was applied.
        self._finish(int(iterations[0]), rows[0] if numbers[0] == self._seen else None)
        self._closed = False
        skipped = np.append(iterations[1:] == iterations[:-1], False)
        for name in MOVEMENT:
            rows[:, ROW.index(name)] = np.append(rows[1:, ROW.index(name)], np.nan)
        self._rows.add(np.column_stack([rows, numbers + 1, skipped, iterations]))
        self._finish(applied)
        self._seen = steps

    def _finish(self, applied: int, following: np.ndarray | None = None) -> None:
        """What became of the last step known."""
        if self._rows.size and not self._closed:
            self._rows.last["skipped"] = self._rows.last["iterations"] == applied
            for name in MOVEMENT if following is not None else ():
                self._rows.last[name] = following[ROW.index(name)]


class Growing:
    """Rows of named numbers, added to at the end."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names, self.size = names, 0
        self._data = np.empty((256, len(names)))

    def add(self, rows: np.ndarray) -> None:
        """Appends rows; the room doubles when it is used up."""
        while self.size + len(rows) > len(self._data):
            self._data = np.concatenate([self._data, np.empty_like(self._data)])
        self._data[self.size : self.size + len(rows)] = rows
        self.size += len(rows)

    @property
    def last(self) -> _Row:
        """The last row, to be written to by name."""
        return _Row(self.names, self._data[self.size - 1])

    def columns(self) -> dict[str, np.ndarray]:
        """One array a name, a view: what is added later does not change it, unless it is about the last row."""
        return {name: self._data[: self.size, i] for i, name in enumerate(self.names)}


class _Row:
    def __init__(self, names: tuple[str, ...], data: np.ndarray) -> None:
        self._names, self._data = names, data

    def __getitem__(self, name: str) -> float:
        return self._data[self._names.index(name)]

    def __setitem__(self, name: str, value: float) -> None:
        self._data[self._names.index(name)] = value


def local(variable: Any) -> np.ndarray:
    """The value of a variable; of the first replica's where each has its own."""
    values = getattr(variable, "values", None)
    return (values[0] if isinstance(values, tuple | list) else variable).numpy()


def _finite(variables: list[Any]) -> tf.Tensor:
    """Whether every number in floating-point variables is finite."""
    checks = [tf.constant(True)]
    for variable in variables:
        if is_float(dtype_of(variable)):
            value = tf.convert_to_tensor(tensorflow_variable(variable))
            checks.append(tf.reduce_all(tf.math.is_finite(value)))
    return tf.reduce_all(tf.stack(checks))
