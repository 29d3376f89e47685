"""What a training program is to the ward: a model, an optimizer, batches, a loss, and the step that puts them together.

The programs themselves are written as anyone would write them: under a global dtype policy, with Keras layers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import keras

Batch = tuple[Any, Any]
Loss = Callable[[Any, Any, Any], Any]
Step = Callable[[Any, Any, Any, Any, Loss], Any]


def squared_error(model: Any, x: Any, y: Any) -> Any:
    """The mean squared error of the model's outputs, a float32 scalar."""
    import tensorflow as tf

    return tf.reduce_mean(tf.square(tf.cast(model(x, training=True), tf.float32) - y))


def cross_entropy(model: Any, x: Any, y: Any) -> Any:
    """The mean cross-entropy of the model's logits with the class numbers in `y`, a float32 scalar."""
    import tensorflow as tf

    logits = tf.cast(model(x, training=True), tf.float32)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def usual_step(model: Any, optimizer: Any, x: Any, y: Any, loss: Loss) -> Any:
    """One step as `fit` takes it: scale the loss, differentiate, hand the gradients over. Gives the loss."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        value = loss(model, x, y)
        scaled = optimizer.scale_loss(value)
    optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
    return value


@dataclass
class Program:
    """One training program, ready to run.

    Attributes:
        model: a functional Keras model, built.
        optimizer: as the program made it; a plain one is wrapped under mixed_float16, as `compile` does it.
        batches: one (x, y) a step, arrays or tuples of arrays.
        loss: `loss(model, x, y)`, a float32 scalar.
        step: `step(model, optimizer, x, y, loss)` takes one step and gives the loss.
        wrap: False leaves the optimizer as it is.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    batches: Sequence[Batch]
    loss: Loss = squared_error
    step: Step = usual_step
    wrap: bool = field(default=True)


def as_compiled(program: Program, policy: str) -> Any:
    """The optimizer that trains: wrapped once under mixed_float16, unless the program saw to it itself."""
    import keras

    plain = not isinstance(program.optimizer, keras.optimizers.LossScaleOptimizer)
    if program.wrap and plain and policy == "mixed_float16":
        return keras.optimizers.LossScaleOptimizer(program.optimizer)
    return program.optimizer


@contextlib.contextmanager
def under(policy: str, seed: int) -> Iterator[np.random.Generator]:
    """A global dtype policy and a seed for one program; afterwards everything is as it was before.

    Yields:
        The generator that draws the program's data and numbers: equal for equal seeds, whatever the policy.

    Raises:
        ValueError: for a policy that Keras does not know.
    """
    import keras

    before = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy(policy)
        keras.utils.set_random_seed(seed)
        yield np.random.default_rng(seed)
    finally:
        keras.config.set_dtype_policy(before)
