"""Two additions to Keras's optimizers: a loss scale on which all replicas agree, and an average of the weights."""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras import ops


@functools.cache
def agreeing() -> type:
    """`AgreeingLossScaleOptimizer`, made on first use."""

    @keras.saving.register_keras_serializable(package="ampcourse")
    class AgreeingLossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
        """A LossScaleOptimizer that skips the step on every replica if the gradients of any replica are not finite.

        In Keras 3.15 the first replica of a MirroredStrategy decides alone (`_tf_apply` of its source assumes that the
        gradients were added over the replicas before, which only happens afterwards), so an overflow on any other one
        reaches the weights of all.
        """

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            """As in Keras; with several replicas, after they have told each other whether anything overflowed."""
            if keras.backend.backend() == "tensorflow":
                grads = _spoil_everywhere(self, grads)
            super().apply(grads, trainable_variables)

    return AgreeingLossScaleOptimizer


def _spoil_everywhere(optimizer: Any, grads: Any) -> list[Any]:
    """Makes the gradients of all replicas non-finite where those of one are; changes nothing with one replica."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return list(grads)
    bad = tf.cast(tf.logical_not(optimizer.check_finite(grads)), tf.float32)
    bad = context.all_reduce(tf.distribute.ReduceOp.SUM, bad)
    spoil = tf.where(bad > 0, float("nan"), 0.0)
    return [None if g is None else g + tf.cast(spoil, g.dtype) for g in grads]


@functools.cache
def averaging(kind: type) -> type:
    """An optimizer class that also keeps a moving average of the weights, updated with each update of the weights.

    Keras's own `use_ema` moves the average at each accumulated batch, and overwrites the weights at the end of every
    call of `fit`, so a run cannot be continued.
    """

    class Averaging(kind):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, decay: float, **settings: Any) -> None:
            super().__init__(*args, **settings)
            self.decay = decay

        def build(self, variables: Any) -> None:
            """The averages begin as the weights are."""
            if not self.built:
                super().build(variables)
                self.averages = [
                    self.add_variable(v.shape, dtype=v.dtype, aggregation="only_first_replica", name=f"average_{i}")
                    for i, v in enumerate(variables)
                ]
                for average, variable in zip(self.averages, variables, strict=True):
                    average.assign(ops.copy(variable))  # JAX hands buffers on, so they must not be shared

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            """As in Keras, then move the averages, unless the gradients were only accumulated."""
            before = ops.convert_to_tensor(self.iterations) + 0
            super().apply(grads, trainable_variables)
            share = 1 - decay_at(self.iterations, self.decay)
            share = ops.where(self.iterations > before, share, 0.0)
            for average, variable in zip(self.averages, self._trainable_variables, strict=True):
                average.assign(average + share * (variable - average))

    Averaging.__name__ = f"Averaging{kind.__name__}"
    return Averaging


def decay_at(updates: Any, decay: float) -> Any:
    """The decay after so many updates: small at first, so that the random start does not stay in the average.

    min(decay, (1 + n) / (10 + n)), as in `tf.train.ExponentialMovingAverage` with `num_updates`.
    """
    n = ops.cast(updates, "float32")
    return ops.minimum(decay, (1 + n) / (10 + n))
