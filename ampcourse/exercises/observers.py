"""Observers: functions that look at an answer and report plain facts. They know the question, never the answer.

An observer is called as `observer(answer, *arguments)` and returns numbers, text, arrays, or lists and dicts of them.
It runs beside the learner's code, where right answers are not: this module imports nothing else of ours, and heavy
libraries only inside the functions that need them. Report facts in which mistakes look different: the movement of the
weights rather than the weights, the scale at every step rather than the last. What the learner may have set for the
whole process (a dtype policy, a seed) must not change the facts: say every dtype and initial value here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def call(answer: Callable, *args: Any) -> Any:
    """The usual observer: call the function that the learner wrote."""
    return answer(*args)


def each(answer: Callable, rows: list[tuple]) -> dict[str, Any]:
    """Call the function once for each row of arguments: for answers that are texts or single numbers."""
    return {f"case {i}{_in_short(row)}": answer(*row) for i, row in enumerate(rows, 1)}


def _in_short(row: tuple) -> str:
    """The call as a learner would write it; nothing where arrays would make it long, and slow to write."""
    if not all(isinstance(value, bool | int | float | str) for value in row):
        return ""
    return f", f({', '.join(f'{value:.6g}' if isinstance(value, float) else repr(value)[:40] for value in row)})"


def drive_loss_scale(
    update: Callable, scale: float, good_steps: int, growth_steps: int, finite_steps: Any
) -> dict[str, Any]:
    """Take `update(scale, good_steps, finite, growth_steps)` through a run, feeding it what it returned.

    Reports, step by step, the scale and the count that it returned and whether it applied the step.
    """
    scales, counts, applied = [], [], []
    for finite in finite_steps:
        scale, good_steps, took = update(scale, good_steps, bool(finite), growth_steps)
        scale, good_steps = float(scale), int(good_steps)
        scales.append(scale)
        counts.append(good_steps)
        applied.append(bool(took))
    return {"scale": scales, "good steps": counts, "applied": applied}


def train_scaled(step: Callable, weights: list, batches: list[tuple], loss_scale: float) -> dict[str, Any]:
    """Train a linear model under mixed_float16 with `step(model, optimizer, x, y, loss_scale)`, batch after batch.

    The optimizer is plain SGD with momentum, so whatever is applied leaves its mark on later steps. Reports after
    each batch how far kernel and bias have moved, whether the step says it was applied, and how often it was.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    kernel, bias = weights
    layer = keras.layers.Dense(kernel.shape[1], dtype="mixed_float16")
    model = keras.Sequential([keras.Input((kernel.shape[0],)), layer])
    model.set_weights([kernel, bias])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
    optimizer.build(model.trainable_variables)
    says, moved = [], []
    for x, y in batches:
        says.append(bool(step(model, optimizer, tf.constant(x), tf.constant(y), float(loss_scale))))
        moved.append(np.concatenate([np.ravel(w - old) for w, old in zip(model.get_weights(), weights, strict=True)]))
    return {"movement": np.array(moved), "applied": says, "updates made": int(optimizer.iterations)}
