"""Observers of lesson 12: a stopwatch on a machine that is made up, and a whole training program in mixed precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Machine:
    """A clock that only moves when a program runs; how fast it goes depends on what the machine is like by then."""

    def __init__(self, slows: float, disturbed: dict[int, float]) -> None:
        self.now, self.runs, self.read, self._slows, self._disturbed = 100.0, 0, False, slows, disturbed

    def clock(self) -> float:
        self.read = True
        return self.now

    def program(self, seconds: float, compiling: float, calls: list[int]) -> Callable[[], None]:
        """A program that takes `seconds`, and more the first time it is called."""

        def run() -> None:
            slower = self._slows ** (self.runs // 2)
            self.now += seconds * slower + (0.0 if calls[0] else compiling) + self._disturbed.get(self.runs, 0.0)
            self.runs += 1
            calls[0] += 1

        return run


def time_two(
    answer: Callable, first: tuple[float, float], second: tuple[float, float], slows: float, disturbed: list, turns: int
) -> dict[str, Any]:
    """Call `answer(run_baseline, run_new, clock, turns)` on a made-up machine.

    Args:
        answer: the learner's function.
        first: seconds that the baseline takes, and how many more at its first call.
        second: the same of the new program.
        slows: by how much the machine becomes slower from one pair of runs to the next.
        disturbed: pairs of the number of a run, counted over both programs, and the seconds it takes longer.
        turns: how many turns are asked for.
    """
    machine = _Machine(slows, {int(run): float(seconds) for run, seconds in disturbed})
    calls = [0], [0]
    programs = [machine.program(*given, count) for given, count in zip((first, second), calls, strict=True)]
    ratio = answer(*programs, machine.clock, turns)
    return {
        "clock() was read": machine.read,
        "ratio": ratio,
        "calls of the baseline": calls[0][0],
        "calls of the new program": calls[1][0],
    }


def train_program(
    make: Callable, policy: str, sizes: tuple[int, int, int], weights: list, batches: list[tuple], surrounding: str
) -> dict[str, Any]:
    """Train with `make(policy, inputs, width, classes)`, which returns a model and a step.

    Every function is run eagerly, since tracing would take longer than the few steps do. Reports dtypes, how far each
    variable has moved in the end and which way, which steps moved nothing, and the losses.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    before, eager = keras.config.dtype_policy(), tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    keras.config.set_dtype_policy(surrounding)
    try:
        model, step = make(policy, *sizes)
        model.set_weights([np.reshape(w, v.shape) for w, v in zip(weights, model.weights, strict=True)])
        output = model(tf.constant(batches[0][0]))
        start, moved, losses = model.get_weights(), [], []
        for x, y in batches:
            losses.append(float(step(tf.constant(x), tf.constant(y))))
            moved.append([new - old for new, old in zip(model.get_weights(), start, strict=True)])
    finally:
        tf.config.run_functions_eagerly(eager)
        keras.config.set_dtype_policy(before)
    first = next(layer for layer in model.layers if isinstance(layer, keras.layers.Dense))
    largest = [float(np.abs(way).max()) for way in moved[-1]]
    return {
        "the first layer computes in": first.compute_dtype,
        "dtype of the variables": keras.backend.standardize_dtype(model.weights[0].dtype),
        "dtype of the output": keras.backend.standardize_dtype(output.dtype),
        "its rows add up to 1": bool(np.all(np.abs(np.sum(np.asarray(output, np.float64), axis=-1) - 1) < 0.02)),
        "size of the movement of each variable, log2": np.log2(np.maximum(largest, 2.0**-149)),
        "its direction": np.concatenate([np.ravel(w / (m or 1.0)) for w, m in zip(moved[-1], largest, strict=True)]),
        "steps that moved nothing": [not any(map(np.any, way)) for way in _by_step(moved)],
        "loss": [loss if np.isfinite(loss) else float("nan") for loss in losses],
    }


def _by_step(moved: list[list]) -> list[list]:
    """What each step added to where the weights were before it."""
    before = [[0.0 * way for way in moved[0]], *moved[:-1]]
    return [[new - old for new, old in zip(a, b, strict=True)] for a, b in zip(moved, before, strict=True)]
