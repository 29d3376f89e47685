"""`train()`: one run from its configuration to its result."""

from __future__ import annotations

import contextlib
import importlib
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ampcourse.training import checkpoint, logs
from ampcourse.training.config import FILE_NAME, Config
from ampcourse.training.errors import TrainingError
from ampcourse.training.feed import Feed
from ampcourse.training.health import EVERY, Health, build_monitor
from ampcourse.training.interrupts import Interrupts
from ampcourse.training.loops import CustomLoop, FitLoop
from ampcourse.training.parts import build_loss, build_model, build_optimizer, build_schedule
from ampcourse.training.result import Result
from ampcourse.training.session import Devices, Parts, Plan, values
from ampcourse.training.show import Show

BACKENDS = {"tensorflow": "on_tensorflow", "jax": "on_jax"}


def train(config: Config, *, resume: bool = False, fresh: bool = False, progress: bool = True) -> Result:
    """Trains a model on pictures and tests it after every epoch.

    Args:
        config: what to do.
        resume: go on with the run in `config.out`, from its newest checkpoint that is whole.
        fresh: throw away the run that is in `config.out`.
        progress: print one line an epoch, with a progress bar on a terminal.

    Returns:
        The result, with the model. Without `config.out` nothing is written.

    Raises:
        TrainingError: if the run cannot be done, or a resumed one was another run; with a batch that is too large for
            the memory, the sentence names one that fits.
        DataError: if the data is not here.
        KeyboardInterrupt: after Ctrl-C or SIGTERM, once a checkpoint is written.
    """
    folder = None if config.out is None else Path(config.out)
    show = Show(progress)
    _settle(config, folder, resume, fresh)
    backend = _backend()
    with backend.restored(), _policy_restored():
        try:
            return _attempt(config, folder, backend, show, resume)
        except Exception as error:
            if not backend.out_of_memory(error):
                raise
        from ampcourse.training.memory import proposal

        show.say("The memory is full: looking for a batch that fits.")
        raise TrainingError(proposal(config, backend, folder)) from None  # by now the run's memory is free again


def _attempt(config: Config, folder: Path | None, backend: Any, show: Show, resume: bool) -> Result:
    run = _Run(config, folder, backend, show)
    with Interrupts() as interrupts, contextlib.closing(run):
        return run.go(interrupts, resume)


def _backend() -> Any:
    """The module for the backend that Keras has.

    Raises:
        TrainingError: if there is none for it.
    """
    name = keras.backend.backend()
    if name not in BACKENDS:
        raise TrainingError(f"Training works on TensorFlow and on JAX; Keras runs on {name} here: set KERAS_BACKEND.")
    return importlib.import_module(f"ampcourse.training.{BACKENDS[name]}")


@contextlib.contextmanager
def _policy_restored() -> Iterator[None]:
    before = keras.config.dtype_policy()
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _settle(config: Config, folder: Path | None, resume: bool, fresh: bool) -> None:
    """Makes sure that the folder holds this run or none; a run that never came to a checkpoint counts for none.

    Raises:
        TrainingError: if it holds another.
    """
    if folder is None:
        if resume:
            raise TrainingError("There is nothing to go on with: name the folder of the run with out.")
        return
    if resume:
        if different := config.differences(Config.load(folder)):
            raise TrainingError(
                f"The run in '{folder}' is another one ({'; '.join(different)}): give it the same settings, or another "
                "folder."
            )
        return
    if checkpoint.files(folder):
        if not fresh:
            raise TrainingError(
                f"'{folder}' holds a run already: go on with it (--resume), throw it away (--fresh) or name another "
                "folder (--out)."
            )
        checkpoint.clear(folder)


class _Halt(Exception):
    """The run ends early: the monitor says so."""


class _Run:
    """One run; made of the parts, then `go`."""

    def __init__(self, config: Config, folder: Path | None, backend: Any, show: Show) -> None:
        self.config, self.folder, self.show, self.backend = config, folder, show, backend
        self.devices: Devices = backend.prepare(config)
        self.feed = Feed(config, backend.BACKEND)
        self.plan = Plan.of(config, self.feed.count)
        with self.devices.scope:
            self.parts = build_parts(config, self.feed.shape, self.feed.classes, self.plan, self.devices, backend)
            self.loop = (FitLoop if config.loop == "fit" else CustomLoop)(self.parts, backend)
        self.tester = backend.Tester(self.parts.model, self.parts.loss, config.xla)
        self.health = Health(config, self.parts.monitor, self.parts.optimizer)
        self.board = logs.Board(folder)
        self.where = checkpoint.Where()
        self.says: list[str] = [self.board.says] if self.board.says else []

    def close(self) -> None:
        """Puts away the progress bar and the log."""
        self.show.end()
        self.board.close()

    def go(self, interrupts: Interrupts, resume: bool) -> Result:
        """From the start, or from the checkpoint, to the end."""
        start = time.perf_counter()
        self.interrupts = interrupts
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            checkpoint.replace(self.folder / FILE_NAME, (self.config.to_json() + "\n").encode())
        if resume and self.folder:
            self._take_up(self.folder)
        self.show.begin(self.plan, self.where.update)
        try:
            while self.where.update < self.plan.total:
                self._epoch(self.where.epoch)
        except _Halt:
            self.says.append(f"The run was stopped after {self.where.update:,} updates: it is {self.health.verdict}.")
        return self._result(start)

    def _take_up(self, folder: Path) -> None:
        """Puts everything back as it was at the newest checkpoint."""
        found = checkpoint.read(folder)
        if found is None:
            self._note("There is no checkpoint yet, so the run begins at the start.")
            return
        checkpoint.put_back(self.loop.variables(), found.arrays)
        self.where = found.where
        if found.says:
            self._note(found.says)
        self.show.say(f"The run goes on after {self.where.update:,} of {self.plan.total:,} updates.")

    def _note(self, sentence: str) -> None:
        self.says.append(sentence)
        self.show.say(sentence)

    def _epoch(self, epoch: int) -> None:
        """What is left of one epoch, then the test, the logs and a checkpoint."""
        start = time.perf_counter()
        each = self.config.accumulate
        begun, stop = self.where.batch, self.plan.updates(epoch) * each
        batches = self.feed.train(epoch, begun, stop)
        loss, accuracy = self.loop.epoch(batches, stop - begun, begun > 0, self._on_update)
        if self.health.look(loss):
            raise _Halt
        self.where.epoch, self.where.batch = epoch + 1, 0
        self._report(loss, accuracy, start)
        self._save()
        self._end_if_asked()

    def _on_update(self) -> None:
        """After each update, with the epoch still going on."""
        where = self.where
        where.update += 1
        where.batch += self.config.accumulate
        self.show.update(where.update)
        if where.update % EVERY == 0:
            self.loop.sync()
            if self.health.look():
                raise _Halt
        over = where.batch == self.plan.updates(where.epoch) * self.config.accumulate
        if not over and (self.interrupts.asked or where.update % self.config.checkpoint_every == 0):
            self.loop.sync()
            self._save()
            self._end_if_asked()

    def _end_if_asked(self) -> None:
        if self.interrupts.asked:
            kept = f"; --resume goes on with it, from '{self.folder}'" if self.folder else ""
            self.show.end()
            self.show.say(f"Stopped after {self.where.update:,} of {self.plan.total:,} updates{kept}.")
            raise KeyboardInterrupt

    def _report(self, loss: float, accuracy: float, start: float) -> None:
        """Tests with the weights' average, where there is one, and writes the row of the epoch."""
        test_loss, test_accuracy = self.test()
        optimizer = self.parts.optimizer
        row = {
            "epoch": self.where.epoch,
            "update": self.where.update,
            "loss": loss,
            "accuracy": accuracy,
            "test_loss": test_loss,
            "test_accuracy": test_accuracy,
            "learning_rate": float(values(optimizer.learning_rate)),
            "loss_scale": self.health.scale,
            "skipped": self.skipped,
            "seconds": round(time.perf_counter() - start, 3),
        }
        self.where.history.append(row)
        if test_accuracy > self.where.best:
            self.where.best, self.where.best_epoch = test_accuracy, self.where.epoch
        self.show.epoch(row, self.plan)
        if self.folder:
            logs.write_csv(self.folder, self.where.history)
            self.board.write(row)

    @property
    def skipped(self) -> int:
        """Updates that the optimizer left out."""
        return self.where.update - int(values(self.parts.optimizer.iterations))

    def test(self) -> tuple[float, float]:
        """Loss and accuracy on the test pictures."""
        with averaged(self.parts.model, self.loop.averages):
            return self.tester(self.feed.test(), self.config.batch)

    def _save(self) -> None:
        """A checkpoint; weights that are not finite would be of no use to anybody."""
        if self.folder is None:
            return
        arrays = checkpoint.gather(self.loop.variables())
        if all(np.isfinite(a).all() for name, a in arrays.items() if name.startswith("model/")):
            checkpoint.write(self.folder, self.where, arrays)

    def _store(self, path: Path) -> None:
        """The model alone, without what trained it: whoever loads it needs none of that."""
        model = self.parts.model
        part = path.with_name(".part.keras")
        keras.Model(model.inputs, model.outputs, name=model.name).save(part)
        part.replace(path)

    def _result(self, start: float) -> Result:
        self.loop.sync()
        accuracy = self.where.history[-1]["test_accuracy"] if self.where.history else math.nan
        if self.health.verdict in ("collapsing", "diverged"):
            accuracy = self.test()[1]
        self.says += self.health.says
        move_to_average(self.parts.model, self.loop.averages)
        if self.folder:
            self._store(self.folder / "model.keras")
        return Result(
            config=self.config,
            history=tuple(self.where.history),
            accuracy=accuracy,
            seconds=time.perf_counter() - start,
            steps=self.where.update,
            skipped=self.skipped,
            verdict=self.health.verdict,
            says=tuple(self.says),
            backend=self.backend.BACKEND,
            devices=self.devices.count,
            model=self.parts.model,
            out=self.folder,
        )


def build_parts(
    config: Config, shape: tuple[int, int, int], classes: int, plan: Plan, devices: Devices, backend: Any
) -> Parts:
    """Model, loss, optimizer and monitor of a run."""
    keras_does_all = config.loop == "fit"
    model = build_model(config, shape, classes)
    every = config.accumulate if keras_does_all else 1
    schedule = build_schedule(config, plan.per_epoch, plan.total, every=every)
    optimizer = build_optimizer(config, schedule, model, keras_does_all=keras_does_all)
    return Parts(config, model, build_loss(config), optimizer, build_monitor(config, backend.BACKEND), devices)


@contextlib.contextmanager
def averaged(model: Any, averages: list[Any]) -> Iterator[None]:
    """Within, the model has the averages of its weights, if there are any."""
    if not averages:
        yield
        return
    kept = [keras.ops.copy(v) for v in model.trainable_variables]
    move_to_average(model, averages)
    try:
        yield
    finally:
        for variable, value in zip(model.trainable_variables, kept, strict=True):
            variable.assign(value)


def move_to_average(model: Any, averages: list[Any]) -> None:
    """Gives the model the averages of its weights for good; without averages, nothing."""
    for variable, average in zip(model.trainable_variables, averages, strict=False):
        variable.assign(keras.ops.copy(average))
