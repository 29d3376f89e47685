"""`input_wait`: how much of a training loop's time the step waits for its input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ampcourse.data.embedded import DataError
from ampcourse.data.views import check_whole


@dataclass(frozen=True)
class Wait:
    """What `input_wait` measured.

    Attributes:
        share: of the time that the step waited for its input, 0 to 1.
        waiting_seconds: how long it waited.
        total_seconds: waiting and steps together.
        steps: how many steps were measured.
    """

    share: float
    waiting_seconds: float
    total_seconds: float
    steps: int = 0

    def __str__(self) -> str:
        each = 1000 * self.total_seconds / max(1, self.steps)
        return f"The step waits {self.share:.0%} of the time for its input ({self.steps} steps of {each:.3g} ms)."


def input_wait(
    batches: Iterable[Any],
    step: Callable[..., Any],
    steps: int = 20,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Wait:
    """Measure how long a step waits for its input, after one step to warm up.

    Each step is waited for until the device has finished before the next batch is asked for. What prepares batches
    beside the step (`batches` with large pictures, `pipeline`) therefore hides its work as in training; what makes a
    batch only when asked (a plain generator) counts in full, also where a GPU could go on meanwhile.

    Args:
        batches: pairs of inputs and targets, at least 2 of them.
        step: called as `step(x, y)`; its result is waited for. `model.train_on_batch` will do.
        steps: how many steps to measure; fewer if the batches end.
        clock: gives seconds.

    Raises:
        DataError: if there are fewer than 2 batches, or `steps` is not a whole number of at least 1.
    """
    check_whole("steps", steps, 1)
    iterator, end = iter(batches), object()
    waiting, measured = 0.0, 0
    batch = next(iterator, end)
    if batch is not end:
        _finish(step(*batch))
    begin = now = clock()
    while batch is not end and measured < steps:
        batch = next(iterator, end)
        ready = clock()
        if batch is end:
            break
        waiting += ready - now
        _finish(step(*batch))
        now, measured = clock(), measured + 1
    if not measured:
        raise DataError("There are too few batches to measure a wait: give at least 2.")
    total = now - begin
    return Wait(waiting / total if total else 0.0, waiting, total, measured)


def _finish(result: Any) -> None:
    """Wait until the device has computed it."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list | tuple):
        for one in result:
            _finish(one)
    elif hasattr(result, "block_until_ready"):  # JAX
        result.block_until_ready()
    elif hasattr(result, "numpy"):  # TensorFlow
        result.numpy()
