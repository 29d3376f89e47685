"""A small model with honest but tiny gradients: it restores the ink density of a picture from a coarse view of it.

A density map says for each pixel which share of the picture's ink lies there. The shares add up to 1, so with 784
pixels a typical one is 1/784. Crowd counting and key-point heat maps ask for targets of this kind. The mean squared
error of such targets, and with it every gradient, is far smaller than that of a classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ampcourse import data
from ampcourse.numerics import ScaleTrace

if TYPE_CHECKING:
    import keras

HIDDEN = (64, 64, 8)
"""Units of the hidden layers; the last is the code that the whole picture has to pass through."""
LEARNING_RATE = 2e-3
BATCH = 256
FEW = 16
"""Up to so many steps run faster as they are than compiled into a graph."""
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")


def density_maps(pictures: int = 2048) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets from the first `pictures` training pictures of Fashion-MNIST, float32.

    Returns:
        `(x, y)`. x, shape (pictures, 196): each picture averaged over squares of 2 by 2 pixels, then standardised.
        y, shape (pictures, 784): its density map, the share of the ink in each pixel; each row adds up to 1.

    Raises:
        ValueError: for fewer than one picture, or more than there are.
    """
    (images, _), _ = data.load(normalise=False)
    if not 1 <= pictures <= len(images):
        raise ValueError(f"pictures must be from 1 to {len(images)}, not {pictures}.")
    ink = images[:pictures, ..., 0]
    coarse = ink.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    shares = ink / ink.sum(axis=(1, 2), keepdims=True)
    return (coarse - data.MEAN) / np.float32(data.STD), shares.reshape(-1, 784)


def class_labels(pictures: int = 2048) -> np.ndarray:
    """The classes of the same pictures, int64 of shape (pictures,), 0 to 9: for comparing with a classifier."""
    (_, labels), _ = data.load(normalise=False)
    return labels[:pictures]


def density_model(policy: str = "float32", seed: int = 0) -> keras.Model:
    """196 inputs, hidden ReLU layers of 64, 64 and 8 units under the policy, 784 outputs in float32.

    The last layer starts with weights of standard deviation 0.001, so that the first outputs are as small as the
    targets are. The same seed gives the same float32 variables under every policy.

    Raises:
        ValueError: for a policy that is not one of `POLICIES`.
    """
    import keras

    return _model(policy, seed, 784, keras.initializers.RandomNormal(stddev=1e-3, seed=seed))


def classifier_model(policy: str = "float32", seed: int = 0) -> keras.Model:
    """The same hidden layers with ten logits in float32; raises as `density_model` does."""
    return _model(policy, seed, 10, "glorot_uniform")


def _model(policy: str, seed: int, outputs: int, start: Any) -> keras.Model:
    if policy not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, not {policy!r}.")
    import keras

    keras.utils.set_random_seed(seed)
    hidden = [keras.layers.Dense(n, "relu", dtype=policy, name=f"hidden_{i}") for i, n in enumerate(HIDDEN)]
    last = keras.layers.Dense(outputs, dtype="float32", kernel_initializer=start, name="last")
    return keras.Sequential([keras.Input((196,)), *hidden, last])


def squared_error(outputs: Any, targets: Any) -> Any:
    """The mean squared error over all pictures and pixels, a float32 scalar."""
    import tensorflow as tf

    return tf.reduce_mean(tf.square(outputs - targets))


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean cross-entropy over all pictures, a float32 scalar."""
    import tensorflow as tf

    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients of the hidden layers, unscaled in float32: lists with one array a layer.

    `weights` are those of the kernels; `activations` those of the layers' outputs, which exist only on the way back.
    """

    weights: list[np.ndarray]
    activations: list[np.ndarray]


def gradients(
    model: keras.Model, x: np.ndarray, y: np.ndarray, loss_scale: float = 1.0, loss: Callable = squared_error
) -> Gradients:
    """Gradients of `loss(model(x), y)` times `loss_scale`, divided by it afterwards, of all layers but the last."""
    import tensorflow as tf

    *hidden, last = model.layers
    outputs: list[Any] = []
    with tf.GradientTape() as tape:
        latest = tf.constant(x)
        for layer in hidden:
            latest = layer(latest)
            outputs.append(latest)
        scaled = loss(last(latest), tf.constant(y)) * loss_scale
    found = tape.gradient(scaled, [layer.kernel.value for layer in hidden] + outputs)
    arrays = [tf.cast(gradient, tf.float32).numpy() / np.float32(loss_scale) for gradient in found]
    return Gradients(arrays[: len(hidden)], arrays[len(hidden) :])


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """All values of several arrays in one, shape (n,)."""
    return np.concatenate([np.ravel(array) for array in arrays])


@dataclass(frozen=True, eq=False)
class Run:
    """One training run: the trained model, the loss of each step, and the loss scale where there was one.

    `iterations` counts the updates that the optimizer really made. `last_update` is what the last step added to the
    kernels of the hidden layers, one array each. `trace` is None without a LossScaleOptimizer.
    """

    model: keras.Model
    losses: np.ndarray
    iterations: int
    last_update: list[np.ndarray]
    trace: ScaleTrace | None = field(default=None)


def train(policy: str, loss_scaling: keras.optimizers.Optimizer | bool = False, steps: int = 160, seed: int = 0) -> Run:
    """Train a `density_model` with Adam on `density_maps()`, in batches of 256 whose order the seed decides.

    Args:
        policy: one of `POLICIES`.
        loss_scaling: True wraps Adam in Keras's LossScaleOptimizer as it is; or give a LossScaleOptimizer of your own.
        steps: batches to train on; 8 of them are all of the pictures once.
        seed: of the variables and of the order.

    Raises:
        ValueError: for fewer than one step, or an unknown policy.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}.")
    import keras
    import tensorflow as tf

    x, y = density_maps()
    model = density_model(policy, seed)
    optimizer = keras.optimizers.Adam(LEARNING_RATE) if isinstance(loss_scaling, bool) else loss_scaling
    if loss_scaling is True:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)

    def step(inputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        scale = tf.identity(optimizer.dynamic_scale.value) if scaled else tf.constant(1.0)
        with tf.GradientTape() as tape:
            loss = squared_error(model(inputs, training=True), targets)
            scaled_loss = optimizer.scale_loss(loss)
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(scaled_loss, variables), variables)
        return loss, scale

    take = tf.function(step) if steps > FEW else step
    losses, scales, made = [], [], [0]
    kernels = [layer.kernel for layer in model.layers[:-1]]
    before: list[np.ndarray] = []
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(x)).reshape(-1, BATCH) for _ in range(-(-steps * BATCH // len(x)))]
    for batch in np.concatenate(orders)[:steps]:
        if len(losses) == steps - 1:
            before = [kernel.numpy() for kernel in kernels]
        loss, scale = take(x[batch], y[batch])
        losses.append(float(loss))
        scales.append(float(scale))
        made.append(int(optimizer.iterations))
    trace = ScaleTrace(np.array(scales), np.diff(made) > 0, float(optimizer.dynamic_scale)) if scaled else None
    last_update = [kernel.numpy() - old for kernel, old in zip(kernels, before, strict=True)]
    return Run(model, np.array(losses), made[-1], last_update, trace)


def explained(outputs: np.ndarray, targets: np.ndarray) -> float:
    """The share of the targets' variance that the outputs explain: 1 is perfect, 0 no better than the mean picture."""
    return float(1 - np.mean((outputs - targets) ** 2) / np.mean((targets - targets.mean(axis=0)) ** 2))
