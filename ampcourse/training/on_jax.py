"""What only JAX does: the step of the custom loop in Keras's stateless calls, and testing. As `on_tensorflow`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import keras
import numpy as np

from ampcourse.training.config import Config
from ampcourse.training.errors import TrainingError
from ampcourse.training.optimizers import decay_at
from ampcourse.training.session import Devices, Parts, fill_up

BACKEND = "jax"


def prepare(config: Config) -> Devices:
    """The one device that is used.

    Raises:
        TrainingError: if several are asked for.
    """
    if config.devices > 1:
        raise TrainingError("Several devices share a batch only on the TensorFlow backend: set devices to 1.")
    if config.deterministic and jax.default_backend() == "gpu":
        raise TrainingError(
            "On a GPU, JAX is made deterministic before it starts: set XLA_FLAGS=--xla_gpu_deterministic_ops=true and "
            "leave deterministic out."
        )
    precision = {"float32": "highest", "tf32": "tensorfloat32"}.get(config.policy)
    if precision:
        jax.config.update("jax_default_matmul_precision", precision)
    device = jax.devices()[0]
    return Devices(1, f"{device.platform} {device.device_kind}".strip(), contextlib.nullcontext())


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Puts the precision of matrix products back as it was."""
    before = jax.config.jax_default_matmul_precision
    try:
        yield
    finally:
        jax.config.update("jax_default_matmul_precision", before)


class Step:
    """One update of the weights, written out; call it with the batches whose gradients it averages.

    JAX compiles pure functions, so all that changes is handed in and comes back: the weights, the state of the
    normalizations, the optimizer with its loss scale, the averages and the metrics. `sync` writes it to the variables.
    """

    def __init__(self, parts: Parts) -> None:
        self.model, self.optimizer, self.loss, self.config = parts.model, parts.optimizer, parts.loss, parts.config
        self.metrics = [keras.metrics.Mean(name="loss"), keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        for metric in self.metrics:
            metric.build() if hasattr(metric, "build") and not metric.variables else None
        self.averages = (
            [keras.Variable(keras.ops.copy(v.value), trainable=False) for v in self.model.trainable_variables]
            if self.config.ema
            else []
        )
        self._whole = jax.jit(self._update_from_batch, donate_argnums=0)
        self._gradients_of = jax.jit(self._gradients)
        self._update_with = jax.jit(self._update, donate_argnums=0)
        self._state: dict[str, list[Any]] | None = None

    def __call__(self, batches: list[tuple[Any, Any]]) -> None:
        """One update, from one batch or several."""
        state = self._state if self._state is not None else self._taken()
        if len(batches) == 1:
            self._state = self._whole(state, *batches[0])
            return
        total = None
        for x, y in batches:
            gradients, changed = self._gradients_of(state, x, y)
            state = state | changed
            total = gradients if total is None else jax.tree.map(jax.numpy.add, total, gradients)
        self._state = self._update_with(state, total)

    def _update_from_batch(self, state: dict[str, Any], x: Any, y: Any) -> dict[str, Any]:
        gradients, changed = self._gradients(state, x, y)
        return self._update(state | changed, gradients)

    def _gradients(self, state: dict[str, Any], x: Any, y: Any) -> tuple[Any, dict[str, Any]]:
        """Of the scaled loss; and what the forward pass changed."""

        def forward(weights: Any) -> tuple[Any, Any]:
            logits, others = self.model.stateless_call(weights, state["others"], x, training=True)
            loss = jax.numpy.mean(self.loss.call(y, logits))
            with self._scope(state):
                scaled = self.optimizer.scale_loss(loss / self.config.accumulate)
            return scaled, (loss, logits, others)

        (_, (loss, logits, others)), gradients = jax.value_and_grad(forward, has_aux=True)(state["weights"])
        mean, right = self.metrics
        split = len(mean.variables)
        metrics = [
            *mean.stateless_update_state(state["metrics"][:split], loss, sample_weight=y.shape[0]),
            *right.stateless_update_state(state["metrics"][split:], y, logits),
        ]
        return gradients, {"others": others, "metrics": metrics}

    def _update(self, state: dict[str, Any], gradients: Any) -> dict[str, Any]:
        with self._scope(state):
            before = keras.ops.convert_to_tensor(self.optimizer.iterations)
            scale = self.optimizer.scale_loss(1.0)
        gradients = self._clip(gradients, scale)
        weights, slots = self.optimizer.stateless_apply(state["optimizer"], gradients, state["weights"])
        state = state | {"weights": weights, "optimizer": slots}
        with self._scope(state):
            after = keras.ops.convert_to_tensor(self.optimizer.iterations)
        share = jax.numpy.where(after > before, 1 - decay_at(after, self.config.ema), 0.0)
        pairs = zip(state["averages"], weights, strict=False)
        return state | {"averages": [average + share * (weight - average) for average, weight in pairs]}

    def _clip(self, gradients: Any, scale: Any) -> Any:
        """By the global norm of the unscaled gradients; back to the scale that the optimizer will take out again."""
        if not self.config.clip:
            return gradients
        unscaled = [g / scale for g in gradients]
        norm = jax.numpy.sqrt(sum(jax.numpy.sum(g * g) for g in unscaled))
        factor = self.config.clip / jax.numpy.maximum(norm, self.config.clip)  # NaN if one is not finite
        return [g * factor * scale for g in unscaled]

    def _scope(self, state: dict[str, Any]) -> Any:
        """Within, the optimizer's variables have the values of the state."""
        pairs = zip(self.optimizer.variables, state["optimizer"], strict=True)
        return keras.StatelessScope(state_mapping=list(pairs))

    def _variables(self) -> dict[str, list[Any]]:
        return {
            "weights": self.model.trainable_variables,
            "others": self.model.non_trainable_variables,
            "optimizer": self.optimizer.variables,
            "averages": self.averages,
            "metrics": [v for metric in self.metrics for v in metric.variables],
        }

    def _taken(self) -> dict[str, list[Any]]:
        """Copies, because the step gives the memory of what it gets to what it returns."""
        return {name: [keras.ops.copy(v.value) for v in found] for name, found in self._variables().items()}

    def sync(self) -> None:
        """Writes the present values to the variables; the next step starts from them."""
        if self._state is None:
            return
        for name, found in self._variables().items():
            for variable, value in zip(found, self._state[name], strict=True):
                variable.assign(value)
        self._state = None


class Tester:
    """Loss and accuracy over batches, with the weights as they are."""

    def __init__(self, model: Any, loss: Any, xla: bool) -> None:
        self.model, self.loss = model, loss
        self._one = jax.jit(self._batch)

    def _batch(self, weights: Any, others: Any, x: Any, y: Any, real: Any) -> tuple[Any, Any]:
        logits, _ = self.model.stateless_call(weights, others, x, training=False)
        right = jax.numpy.sum((logits.argmax(-1) == y) * real)
        return jax.numpy.sum(self.loss.call(y, logits) * real), right

    def __call__(self, batches: Iterable[tuple[Any, Any]], size: int) -> tuple[float, float]:
        """Mean loss and share of right answers; a batch that is not full is filled up, so that all have one shape."""
        weights = [v.value for v in self.model.trainable_variables]
        others = [v.value for v in self.model.non_trainable_variables]
        totals = np.zeros(3)
        for x, y in batches:
            x, y, real = fill_up(np.asarray(x), np.asarray(y), size)
            loss, right = self._one(weights, others, x, y, real)
            totals += float(loss), float(right), float(real.sum())
        return float(totals[0] / totals[2]), float(totals[1] / totals[2])


def distributed(dataset: Any, devices: Devices) -> Any:
    """As they are."""
    return dataset


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the device has no memory left."""
    return "RESOURCE_EXHAUSTED" in str(error) or "ResourceExhausted" in type(error).__name__
