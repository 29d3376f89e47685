"""Exercise 6: a whole training loop that ends where `fit` ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.custom_loops import train_by_loop

Loop = Callable[[Any, Any, Any, np.ndarray, np.ndarray, int, int], list]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Few samples in small batches; how many are left for the last batch, and which overflow, differ by seed."""
    units = 5

    def data(samples: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(size=(samples, 3)).astype("float32"), rng.normal(size=(samples, 1)).astype("float32")

    def weights(normalised: bool) -> list[np.ndarray]:
        ones, zeros = np.ones(units, "float32"), np.zeros(units, "float32")
        norm = [ones, zeros, zeros, ones] if normalised else []  # gamma, beta, moving mean, moving variance
        shapes = [(3, units), (units, 1)]
        first, last = (rng.normal(size=shape).astype("float32") for shape in shapes)
        return [first, zeros + np.float32(0.1), *norm, last, np.zeros(1, "float32")]

    def asked(samples: int, normalised: bool = False, bad: bool = False) -> tuple:
        x, y = data(samples)
        # low where a regulariser is, so that its gradient shows also if it is too small by the scale
        scale = 2.0 ** (rng.integers(3, 6) if normalised else rng.integers(5, 10))
        if bad:
            at = int(rng.integers(0, 10))
            y[at : at + 2] = 2e4 * rng.choice([-1, 1])
            scale = 2.0**12
        settings = {"batch_size": 6, "epochs": 2, "rate": 0.05 if bad or not normalised else 0.02, "penalty": 0.05}
        return weights(normalised), (x, y), settings, float(scale), normalised

    return {
        "batches of one size": asked(12),
        "a last batch that is smaller": asked(6 + int(rng.integers(1, 5))),
        "batches that overflow": asked(12, bad=True),
        "a regulariser and BatchNormalization": asked(12, normalised=True),
    }


def _loop(
    training: bool = True,
    scaled: Callable = lambda optimizer, loss, extra: optimizer.scale_loss(loss + extra),
    count: Callable[[int, int], int] = lambda samples, size: -(-samples // size),
    mean: Callable[[list, list], float] = lambda losses, sizes: float(np.average(losses, weights=sizes)),
    apply: Callable = lambda optimizer, gradients, variables: optimizer.apply(gradients, variables),
    order: Callable[[int], Any] = lambda samples: slice(None),
    logs: Callable[[Any, Any], Any] = lambda loss, extra: loss + extra,
) -> Loop:
    """The right loop, with each of its parts open to a mistake."""

    def training_loop(model: Any, optimizer: Any, loss_fn: Any, x: Any, y: Any, batch_size: int, epochs: int) -> list:
        import tensorflow as tf

        history = []
        for _ in range(epochs):
            losses, sizes = [], []
            x, y = x[order(len(x))], y[order(len(x))]
            for i in range(count(len(x), batch_size)):
                rows = slice(i * batch_size, (i + 1) * batch_size)
                with tf.GradientTape() as tape:
                    loss = loss_fn(y[rows], model(x[rows], training=training))
                    extra = sum(model.losses) if model.losses else 0.0
                    target = scaled(optimizer, loss, extra)
                apply(optimizer, tape.gradient(target, model.trainable_variables), model.trainable_variables)
                losses.append(float(logs(loss, extra)))
                sizes.append(len(x[rows]))
            history.append(mean(losses, sizes))
        return history

    return training_loop


def _with_dataset(model: Any, optimizer: Any, loss_fn: Any, x: Any, y: Any, batch_size: int, epochs: int) -> list:
    import tensorflow as tf

    @tf.function
    def step(a: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.add_n([loss_fn(b, model(a, training=True)), *model.losses])
            scaled = optimizer.scale_loss(loss)
        optimizer.apply_gradients(
            zip(tape.gradient(scaled, model.trainable_weights), model.trainable_weights, strict=True)
        )
        return loss

    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)
    return [sum(float(step(a, b)) * len(a) for a, b in batches) / len(x) for _ in range(epochs)]


def _by_fit(model: Any, optimizer: Any, loss_fn: Any, x: Any, y: Any, batch_size: int, epochs: int) -> list:
    """What the loop is to agree with. Taken from the class: the observer's model refuses."""
    import keras

    keras.Model.compile(model, optimizer, loss_fn, run_eagerly=True)
    seen = keras.Model.fit(model, x, y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0)
    return seen.history["loss"]


def _skips_by_itself(optimizer: Any, gradients: list, variables: list) -> None:
    if all(np.isfinite(g).all() for g in gradients):
        optimizer.apply(gradients, variables)


def _with(size: Callable[[int, int], int] = lambda size, samples: size, epochs: int | None = None) -> Loop:
    """The right loop with another size of batch or number of epochs."""

    def training_loop(model: Any, optimizer: Any, loss_fn: Any, x: Any, y: Any, batch_size: int, asked: int) -> list:
        return _loop()(model, optimizer, loss_fn, x, y, size(batch_size, len(x)), epochs or asked)

    return training_loop


def _only_applied() -> Loop:
    """Leaves the losses of skipped steps out of the mean."""

    def training_loop(model: Any, optimizer: Any, loss_fn: Any, x: Any, y: Any, batch_size: int, epochs: int) -> list:
        seen: list[bool] = []

        def apply(optimizer: Any, gradients: list, variables: list) -> None:
            seen.append(all(np.isfinite(g).all() for g in gradients))
            optimizer.apply(gradients, variables)

        def mean(losses: list, sizes: list) -> float:
            kept = seen[-len(losses) :]
            weights = np.array(sizes) * kept
            return float(np.average(losses, weights=weights)) if weights.any() else 0.0

        return _loop(apply=apply, mean=mean)(model, optimizer, loss_fn, x, y, batch_size, epochs)

    return training_loop


training_loop = Exercise(
    id="custom_loops.training_loop",
    inputs=_inputs,
    observer=train_by_loop,
    right=_loop(),
    points={
        "batches of one size": 1,
        "a last batch that is smaller": 1,
        "batches that overflow": 2,
        "a regulariser and BatchNormalization": 2,
    },
    also_right=(_with_dataset, _by_fit),
    mistakes=(
        Mistake(
            _loop(scaled=lambda optimizer, loss, extra: loss + extra),
            "You never scale the loss, but `apply` divides by the loss scale: hardly anything moves.",
        ),
        Mistake(
            _loop(scaled=lambda optimizer, loss, extra: optimizer.scale_loss(loss)),
            "The regulariser has no effect on your gradients. What layers add to the loss is in model.losses: add it "
            "inside the tape, before you scale.",
        ),
        Mistake(
            _loop(scaled=lambda optimizer, loss, extra: optimizer.scale_loss(loss) + extra),
            "You add model.losses after scaling, so `apply` makes the regulariser's gradient too small by the loss "
            "scale. Add first, then scale the sum.",
        ),
        Mistake(
            _loop(training=False),
            "You call the model without training=True: BatchNormalization uses and keeps its moving statistics. fit "
            "sets it; in a loop you do.",
        ),
        Mistake(
            _loop(count=lambda samples, size: samples // size),
            "You drop the last batch where it is smaller than the others. fit trains on it.",
        ),
        Mistake(
            _loop(mean=lambda losses, sizes: float(np.mean(losses))),
            "You take the plain mean of the batches' losses. Where the last batch is smaller, its loss stands for "
            "fewer samples: weight by the batch's size.",
        ),
        Mistake(
            _loop(mean=lambda losses, sizes: losses[-1]),
            "You report the loss of the last batch. Report the mean over the epoch.",
        ),
        Mistake(
            _loop(apply=_skips_by_itself),
            "You skip the bad step by yourself, so the optimizer never hears of it, and its scale never falls. Call "
            "optimizer.apply always.",
        ),
        Mistake(
            _loop(apply=lambda optimizer, gradients, variables: optimizer.inner_optimizer.apply(gradients, variables)),
            "You hand scaled gradients to the inner optimizer: the updates are too large by the loss scale.",
        ),
        Mistake(
            _only_applied(),
            "You leave the losses of skipped steps out of the mean. fit counts them: they were computed, though "
            "nothing was learned from them.",
        ),
        Mistake(
            _loop(order=lambda samples: slice(None, None, -1)),
            "You go through the data in another order. With shuffle=False it is taken as it comes.",
        ),
        Mistake(
            _loop(logs=lambda loss, extra: loss),
            "You train right, but report the loss without what the regulariser adds. fit reports the sum.",
        ),
        Mistake(
            _loop(mean=lambda losses, sizes: float(np.sum(losses))),
            "You report the sum of the batches' losses: it grows with their number. Report the mean over the samples.",
        ),
        Mistake(
            _with(size=lambda size, samples: samples),
            "You take all samples in one step. An epoch is one step for each `batch_size` of them.",
        ),
        Mistake(
            _with(epochs=1),
            "You end after the first epoch: does `return` stand inside the loop over the epochs?",
        ),
    ),
    hints=(
        "Your train_step, called for x[0:batch_size], x[batch_size:2 * batch_size] and so on; slices past the end are "
        "simply shorter.",
        "loss = loss_fn(y_batch, model(x_batch, training=True)) + sum(model.losses), then scale_loss, all in the tape.",
        "The mean of an epoch: np.average(losses, weights=sizes).",
    ),
    rtol=3e-3,
    atol=2e-5,
    trains=True,
    asks_for=(
        "ampcourse.models.loops.train",
        "ampcourse.training.loops.CustomLoop",
        "ampcourse.training.on_tensorflow.Step",
    ),
    insight="fit does no more than this: scale_loss in the tape, apply outside it, model.losses added, training=True. "
    "On the same operations your loop ends at the same weights, skipped steps included.",
)
