"""What only TensorFlow does: the devices, the step of the custom loop, and testing. `on_jax` has the same names."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ampcourse.training.config import Config
from ampcourse.training.errors import TrainingError
from ampcourse.training.optimizers import decay_at
from ampcourse.training.session import Devices, Parts, fill_up

BACKEND = "tensorflow"


def prepare(config: Config) -> Devices:
    """Sets up the devices: memory growth, TF32, determinism, and a strategy where several share each batch.

    Raises:
        TrainingError: for more devices than there are, and for what several devices cannot do.
    """
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        # Too late once a GPU is in use: then it stays as it is.
        with contextlib.suppress(RuntimeError):
            tf.config.experimental.set_memory_growth(gpu, True)
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    tf.config.experimental.enable_tensor_float_32_execution(config.policy == "tf32")
    names = [d.name for d in tf.config.list_logical_devices("GPU" if gpus else "CPU")]
    wanted = config.devices or (len(names) if gpus else 1)
    if wanted > len(names):
        kind = "GPU" if gpus else "CPU device"
        raise TrainingError(f"devices is {wanted}, and TensorFlow has {len(names)} {kind}{'s' * (len(names) != 1)}.")
    if wanted == 1:
        return Devices(1, str(names[0]), contextlib.nullcontext())
    _check_several(config, wanted)
    strategy = _mirrored(tuple(names[:wanted]))
    return Devices(wanted, f"{wanted} of {names[0].rpartition(':')[0]}", strategy.scope(), strategy)


@functools.cache
def _mirrored(names: tuple[str, ...]) -> Any:
    """One strategy a process: a second one would number its exchanges from the start again, and they would clash."""
    return tf.distribute.MirroredStrategy(list(names))


def _check_several(config: Config, devices: int) -> None:
    """What Keras 3.15 does not do, or does wrongly, with several replicas."""
    if config.batch % devices:
        raise TrainingError(f"A batch of {config.batch} cannot be shared by {devices} devices: make it a multiple.")
    if config.xla:
        raise TrainingError(f"XLA does not compile a step of {devices} devices: leave it out, or set devices to 1.")
    if config.loop == "fit" and (config.clip or config.accumulate > 1 or config.ema):
        raise TrainingError(
            f"With {devices} devices, fit clips, accumulates and averages on each device by itself, which is another "
            "training: choose the loop 'custom', or set devices to 1."
        )


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Puts TF32 back as it was."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)


class Step:
    """One update of the weights, written out; call it with the batches whose gradients it averages.

    The order matters: scale the loss, take the gradients, add them over the replicas, unscale, clip, and let the
    optimizer look for what is not finite. Only then may the average of the weights move.
    """

    def __init__(self, parts: Parts) -> None:
        self.model, self.optimizer, self.loss = parts.model, parts.optimizer, parts.loss
        self.config, self.monitor, self.strategy = parts.config, parts.monitor, parts.devices.strategy
        self.variables = self.model.trainable_variables
        self.replicas = parts.devices.count
        self.metrics = [keras.metrics.Mean(name="loss"), keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        self.averages = _like(self.variables, "average") if self.config.ema else []
        self.sums = _like(self.variables, "sum", zero=True) if self.config.accumulate > 1 else []
        compiled = {"jit_compile": self.config.xla, "reduce_retracing": True}
        self._whole = tf.function(lambda x, y: self._update(self._gradients(x, y)), **compiled)
        self._add = tf.function(self._accumulate, **compiled)
        self._finish = tf.function(self._update_from_sums, **compiled)

    def __call__(self, batches: list[tuple[Any, Any]]) -> None:
        """One update, from one batch or several."""
        if not self.sums:
            self._run(self._whole, *batches[0])
            return
        for x, y in batches:
            self._run(self._add, x, y)
        self._run(self._finish)

    def _run(self, function: Any, *arguments: Any) -> None:
        if self.strategy is None:
            function(*arguments)
        else:
            _on_replicas(self.strategy, function)(*arguments)

    def _gradients(self, x: Any, y: Any) -> list[Any]:
        """Of the scaled loss. Replicas and accumulated batches are added up, so each gives its share of the mean."""
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = tf.reduce_mean(self.loss.call(y, logits))
            scaled = self.optimizer.scale_loss(loss / (self.config.accumulate * self.replicas))
        self.metrics[0].update_state(loss, sample_weight=tf.shape(y)[0])
        self.metrics[1].update_state(y, logits)
        return tape.gradient(scaled, self.variables)

    def _update(self, gradients: list[Any]) -> None:
        if self.monitor is not None:
            self.monitor.record(gradients)
        if self.strategy is not None:
            gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        gradients = self._clip(gradients)
        before = tf.identity(self.optimizer.iterations)
        # Keras adds the gradients of the replicas itself; they are the same on each by now.
        self.optimizer.apply([g / self.replicas for g in gradients] if self.strategy else gradients, self.variables)
        self._average(self.optimizer.iterations > before)

    def _clip(self, gradients: list[Any]) -> list[Any]:
        """By the global norm of the unscaled gradients; back to the scale that `apply` will take out again."""
        if not self.config.clip:
            return gradients
        scale = self.optimizer.scale_loss(1.0)
        unscaled = [g / scale for g in gradients]
        clipped, _ = tf.clip_by_global_norm(unscaled, self.config.clip)  # NaN everywhere if one is not finite
        return [g * scale for g in clipped]

    def _average(self, moved: Any) -> None:
        """The weights' average follows the weights, unless the step was skipped."""
        share = tf.where(moved, 1 - decay_at(self.optimizer.iterations, self.config.ema), 0.0)
        for average, variable in zip(self.averages, self.variables, strict=False):
            average.assign(average + share * (variable - average))

    def _accumulate(self, x: Any, y: Any) -> None:
        for total, gradient in zip(self.sums, self._gradients(x, y), strict=True):
            total.assign(total + gradient)

    def _update_from_sums(self) -> None:
        self._update([tf.convert_to_tensor(total) for total in self.sums])
        for total in self.sums:
            total.assign(tf.zeros_like(total))

    def sync(self) -> None:
        """The variables always hold the present values here."""


def _like(variables: Any, name: str, zero: bool = False) -> list[Any]:
    """Variables as the given ones, each with its value or 0."""
    made = []
    for i, variable in enumerate(variables):
        # Sums belong to each replica alone; the averages are the same on all, since the weights are.
        kind = {"synchronization": "on_read", "aggregation": "sum"} if zero else {"aggregation": "only_first_replica"}
        new = keras.Variable(
            initializer="zeros", shape=variable.shape, dtype=variable.dtype, trainable=False, name=f"{name}_{i}", **kind
        )
        if not zero:
            new.assign(variable)
        made.append(new)
    return made


_DISTRIBUTED: dict[Any, Any] = {}


def _on_replicas(strategy: Any, function: Any) -> Any:
    """The function on every replica, traced once."""
    if function not in _DISTRIBUTED:
        _DISTRIBUTED.clear()
        _DISTRIBUTED[function] = tf.function(lambda *a: strategy.run(function.python_function, a))
    return _DISTRIBUTED[function]


class Tester:
    """Loss and accuracy over batches, with the weights as they are."""

    def __init__(self, model: Any, loss: Any, xla: bool) -> None:
        self._one = tf.function(self._batch, jit_compile=xla, reduce_retracing=True)
        self.model, self.loss = model, loss

    def _batch(self, x: Any, y: Any, real: Any) -> tuple[Any, Any]:
        logits = self.model(x, training=False)
        right = tf.cast(tf.equal(tf.argmax(logits, -1), tf.cast(y, tf.int64)), tf.float32)
        return tf.reduce_sum(self.loss.call(y, logits) * real), tf.reduce_sum(right * real)

    def __call__(self, batches: Iterable[tuple[Any, Any]], size: int) -> tuple[float, float]:
        """Mean loss and share of right answers; a batch that is not full is filled up, so that all have one shape."""
        totals = np.zeros(3)
        for x, y in batches:
            x, y, real = fill_up(np.asarray(x), np.asarray(y), size)
            loss, right = self._one(x, y, real)
            totals += float(loss), float(right), float(real.sum())
        return float(totals[0] / totals[2]), float(totals[1] / totals[2])


def distributed(dataset: Any, devices: Devices) -> Any:
    """The batches shared out to the devices."""
    if devices.strategy is None:
        return dataset
    return devices.strategy.experimental_distribute_dataset(dataset)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the device has no memory left."""
    return isinstance(error, tf.errors.ResourceExhaustedError) or "RESOURCE_EXHAUSTED" in str(error)


def repeated(x: Any, y: Any, count: int) -> Any:
    """The same batch several times, as a dataset."""
    return tf.data.Dataset.from_tensors((x, y)).repeat(count)
