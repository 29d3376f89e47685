"""The two loops: Keras's `fit` with a callback, and one that is written out. Both train a part of one epoch when asked.

The step itself of the second stands in `on_tensorflow.Step` and `on_jax.Step`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras

from ampcourse.training.session import Parts


class CustomLoop:
    """A loop of our own around the backend's step."""

    def __init__(self, parts: Parts, backend: Any) -> None:
        self.parts, self.step = parts, backend.Step(parts)
        self._distributed = backend.distributed
        if parts.monitor is not None:
            parts.monitor.attach(parts.optimizer, parts.model)

    @property
    def averages(self) -> list[Any]:
        """The moving averages of the trainable variables; none if there is no average."""
        return self.step.averages

    def epoch(
        self, batches: Iterable[Any], count: int, begun: bool, on_update: Callable[[], None]
    ) -> tuple[float, float]:
        """Trains on the batches: what is left of an epoch.

        Args:
            batches: pairs of pictures and labels.
            count: how many there are, as many as make whole updates.
            begun: whether a part of the epoch was done before.
            on_update: called after each update.

        Returns:
            The mean loss and the accuracy of the epoch, as the weights moved.
        """
        if not begun:
            for metric in self.step.metrics:
                metric.reset_state()
        shared = self._distributed(batches, self.parts.devices)
        for group in groups_of(self.parts.config.accumulate, shared):
            self.step(group)
            on_update()
        self.sync()
        loss, accuracy = (float(metric.result()) for metric in self.step.metrics)
        return loss, accuracy

    def sync(self) -> None:
        """Brings the variables up to date."""
        self.step.sync()

    def variables(self) -> dict[str, list[Any]]:
        """All that a checkpoint must hold."""
        metrics = [v for metric in self.step.metrics for v in metric.variables]
        return _variables(self.parts) | {"average": self.averages, "metric": metrics}


class FitLoop:
    """Keras's own loop, called once for each epoch, so that a run can be taken up in the middle of one."""

    def __init__(self, parts: Parts, backend: Any) -> None:
        self.parts = parts
        # JAX computes without compiling only for debugging.
        compiled = parts.config.xla or backend.BACKEND == "jax"
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        parts.model.compile(parts.optimizer, parts.loss, metrics=[accuracy], jit_compile=compiled)

    @property
    def averages(self) -> list[Any]:
        """As of `CustomLoop`; here the optimizer has them."""
        optimizer = self.parts.optimizer
        return getattr(getattr(optimizer, "inner_optimizer", optimizer), "averages", [])

    def epoch(
        self, batches: Iterable[Any], count: int, begun: bool, on_update: Callable[[], None]
    ) -> tuple[float, float]:
        """As of `CustomLoop`, but loss and accuracy are of these batches only: Keras begins to count anew."""
        callbacks: list[Any] = [_EachUpdate(self.parts.config.accumulate, on_update)]
        if self.parts.monitor is not None:
            callbacks.append(self.parts.monitor)
        settings = {"steps_per_epoch": count, "epochs": 1, "verbose": 0, "shuffle": False}
        found = self.parts.model.fit(batches, callbacks=callbacks, **settings)
        on_update()
        return float(found.history["loss"][-1]), float(found.history["accuracy"][-1])

    def sync(self) -> None:
        """Brings the variables up to date; on JAX, Keras keeps the values to itself during an epoch."""
        if keras.backend.backend() == "jax":
            self.parts.model.jax_state_sync()

    def variables(self) -> dict[str, list[Any]]:
        """All that a checkpoint must hold."""
        return _variables(self.parts)


class _EachUpdate(keras.callbacks.Callback):
    """Calls when an update is done, which is when the batch after it begins.

    At the end of a batch Keras hands callbacks the losses as numbers, and so waits for the device each time.
    """

    def __init__(self, accumulate: int, on_update: Callable[[], None]) -> None:
        super().__init__()
        self.accumulate, self.on_update = accumulate, on_update

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """`batch` counts from 0 in each call of fit."""
        if batch and batch % self.accumulate == 0:
            self.on_update()


def groups_of(count: int, batches: Iterable[Any]) -> Iterator[list[Any]]:
    """The batches in lists of `count`; what is left over at the end is left out."""
    iterator = iter(batches)
    while len(group := list(itertools.islice(iterator, count))) == count:
        yield group


def _variables(parts: Parts) -> dict[str, list[Any]]:
    return {"model": parts.model.variables, "optimizer": parts.optimizer.variables}
