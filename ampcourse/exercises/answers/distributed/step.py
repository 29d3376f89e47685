"""Exercise 6: one training step on several replicas, simulated one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.distributed import train_shards

Shard = tuple[np.ndarray, np.ndarray]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Global batches for a model from 3 numbers to 2; where one overflows differs from seed to seed."""
    weights = [rng.normal(size=(3, 2)).astype("float32"), rng.normal(size=2).astype("float32")]

    def shard(size: int, x_size: float = 1.0) -> Shard:
        return (rng.normal(size=(size, 3)) * x_size).astype("float32"), rng.normal(size=(size, 2)).astype("float32")

    scale = float(2.0 ** rng.integers(6, 9))
    even, one, other = int(rng.integers(5, 9)), int(rng.integers(9, 13)), int(rng.integers(3, 6))
    batches = [[shard(6) for _ in range(3)] for _ in range(4)]
    batches[int(rng.integers(1, 3))][int(rng.integers(1, 3))] = shard(6, 3e3)
    return {
        "equal shards": (weights, [[shard(even) for _ in range(4)] for _ in range(3)], scale),
        "uneven shards": (weights, [[shard(one), shard(other), shard(other + 1)] for _ in range(3)], scale),
        "another replica than the first overflows": (weights, batches, scale),
    }


def _losses(model: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    outputs = tf.cast(model(x, training=True), tf.float32)
    return tf.reduce_mean(tf.square(outputs - y), axis=1)


def _gradients(model: Any, optimizer: Any, shard: Shard, share: Callable[[Any], Any], scaled: bool = True) -> list:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = share(_losses(model, *shard))
        loss = optimizer.scale_loss(loss) if scaled else loss
    return tape.gradient(loss, model.trainable_variables)


def _mean(losses: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_mean(losses)


def _of_all(shards: list) -> Callable[[Any], Any]:
    import tensorflow as tf

    total = sum(len(x) for x, _ in shards)
    return lambda losses: tf.reduce_sum(losses) / total


def _added(parts: list[list]) -> list:
    return [sum(same[1:], same[0]) for same in zip(*parts, strict=True)]


def _finite(gradients: list) -> bool:
    return all(np.isfinite(g.numpy()).all() for g in gradients)


def _step(
    share: Callable[[list], Callable] = _of_all,
    factor: Callable[[list, Any], float] = lambda shards, optimizer: 1.0,
    scaled: bool = True,
) -> Callable:
    def distributed_step(model: Any, optimizer: Any, shards: list) -> None:
        parts = [_gradients(model, optimizer, shard, share(shards), scaled) for shard in shards]
        by = factor(shards, optimizer)
        optimizer.apply([g * by for g in _added(parts)], model.trainable_variables)

    return distributed_step


def _averaged(model: Any, optimizer: Any, shards: list) -> None:
    import tensorflow as tf

    total, gradients = sum(x.shape[0] for x, _ in shards), None
    for x, y in shards:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(_losses(model, x, y), global_batch_size=total)
            loss = optimizer.scale_loss(loss)
        part = tape.gradient(loss, model.trainable_variables)
        gradients = part if gradients is None else [a + b for a, b in zip(gradients, part, strict=True)]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


def _weighted(model: Any, optimizer: Any, shards: list) -> None:
    total = sum(len(x) for x, _ in shards)
    parts = []
    for shard in shards:
        part = _gradients(model, optimizer, shard, _mean)
        parts.append([g.numpy() * np.float32(len(shard[0]) / total) for g in part])
    optimizer.apply([np.sum(same, axis=0) for same in zip(*parts, strict=True)], model.trainable_variables)


def _one_after_the_other(model: Any, optimizer: Any, shards: list) -> None:
    for shard in shards:
        optimizer.apply(_gradients(model, optimizer, shard, _mean), model.trainable_variables)


def _first_decides(model: Any, optimizer: Any, shards: list) -> None:
    parts = [_gradients(model, optimizer, shard, _of_all(shards)) for shard in shards]
    if _finite(parts[0]):
        scale = float(optimizer.dynamic_scale)
        optimizer.inner_optimizer.apply([g / scale for g in _added(parts)], model.trainable_variables)
    else:
        optimizer.apply(parts[0], model.trainable_variables)


def _leaves_out_the_bad(model: Any, optimizer: Any, shards: list) -> None:
    parts = [_gradients(model, optimizer, shard, _of_all(shards)) for shard in shards]
    good = [part for part in parts if _finite(part)] or parts
    optimizer.apply(_added(good), model.trainable_variables)


def _first_only(model: Any, optimizer: Any, shards: list) -> None:
    optimizer.apply(_gradients(model, optimizer, shards[0], _mean), model.trainable_variables)


def _last_only(model: Any, optimizer: Any, shards: list) -> None:
    for shard in shards:
        gradients = _gradients(model, optimizer, shard, _of_all(shards))
    optimizer.apply(gradients, model.trainable_variables)


def _first_part_only(model: Any, optimizer: Any, shards: list) -> None:
    optimizer.apply(_gradients(model, optimizer, shards[0], _of_all(shards)), model.trainable_variables)


def _applied_in_the_loop(model: Any, optimizer: Any, shards: list) -> None:
    for shard in shards:
        optimizer.apply(_gradients(model, optimizer, shard, _of_all(shards)), model.trainable_variables)


def _applied_as_it_grows(model: Any, optimizer: Any, shards: list) -> None:
    total = None
    for shard in shards:
        part = _gradients(model, optimizer, shard, _of_all(shards))
        total = part if total is None else _added([total, part])
        optimizer.apply(total, model.trainable_variables)


def _returns_early(model: Any, optimizer: Any, shards: list) -> None:
    parts = [_gradients(model, optimizer, shard, _of_all(shards)) for shard in shards]
    if all(_finite(part) for part in parts):
        optimizer.apply(_added(parts), model.trainable_variables)


def _scaled_outside(model: Any, optimizer: Any, shards: list) -> None:
    import tensorflow as tf

    total = None
    for shard in shards:
        with tf.GradientTape() as tape:
            loss = _of_all(shards)(_losses(model, *shard))
        scaled = optimizer.scale_loss(loss)
        part = tape.gradient(scaled, model.trainable_variables)
        total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
    optimizer.apply(total, model.trainable_variables)


def _as_many_as_the_first(shards: list) -> Callable[[Any], Any]:
    import tensorflow as tf

    return lambda losses: tf.reduce_sum(losses) / (len(shards[0][0]) * len(shards))


def _undivided(shards: list) -> Callable[[Any], Any]:
    import tensorflow as tf

    return tf.reduce_sum


distributed_step = Exercise(
    id="distributed.distributed_step",
    inputs=_inputs,
    observer=train_shards,
    right=_step(),
    points={"equal shards": 2, "uneven shards": 2, "another replica than the first overflows": 2},
    also_right=(_averaged, _weighted),
    mistakes=(
        Mistake(
            _step(share=lambda shards: _mean),
            "You take the mean on each replica and add the gradients up: your update is as many times too large as "
            "there are replicas. Divide the losses by the size of the global batch.",
        ),
        Mistake(
            _step(share=lambda shards: _mean, factor=lambda shards, optimizer: 1 / len(shards)),
            "You average the replicas' means. That weighs every replica the same, however few examples it has: divide "
            "the losses by the size of the global batch, and add.",
        ),
        Mistake(
            _step(factor=lambda shards, optimizer: 1 / len(shards)),
            "You divide by the global batch, and by the number of replicas once more. Adding is enough.",
        ),
        Mistake(
            _one_after_the_other,
            "You update once for each replica. Replicas work at the same time, from the same weights: add up their "
            "gradients, then make one update.",
        ),
        Mistake(
            _step(scaled=False),
            "Your updates are too small by the loss scale. optimizer.apply divides by it, so the loss must have been "
            "multiplied, by optimizer.scale_loss, and nobody else may divide.",
        ),
        Mistake(
            _first_decides,
            "You ask the first replica whether the step is good. An overflow on another one is then applied, and all "
            "weights are lost: add up first, and let optimizer.apply look at the sum.",
        ),
        Mistake(
            _leaves_out_the_bad,
            "You leave out the replica that overflowed and apply the rest. The scale never learns that it was too "
            "high, and the update misses examples: hand the whole sum to optimizer.apply, which skips and halves.",
        ),
        Mistake(_first_only, "You use the first replica's shard only: the others work for nothing."),
        Mistake(
            _first_part_only,
            "Your update has the first shard's gradients only. Is there a `return` inside the loop, or an `apply` "
            "before it?",
        ),
        Mistake(
            _last_only,
            "Your update has the last shard's gradients only: each round of the loop overwrites what the one before "
            "has found. Add up.",
        ),
        Mistake(
            _applied_in_the_loop,
            "optimizer.apply stands inside the loop: it makes an update for each shard, with a small part of the "
            "gradient. Add up in the loop, apply once after it.",
        ),
        Mistake(
            _applied_as_it_grows,
            "You add up, but optimizer.apply stands inside the loop: it applies every partial sum. Move it behind the "
            "loop.",
        ),
        Mistake(
            _returns_early,
            "You return without a call of optimizer.apply where a gradient is not finite. No update is right, but so "
            "the scale is never halved, and the next steps overflow again: hand over the sum all the same.",
        ),
        Mistake(
            _scaled_outside,
            "tape.gradient gave None. The tape sees only what is computed inside its `with` block: the losses, the "
            "division and optimizer.scale_loss all belong there.",
        ),
        Mistake(
            _step(share=_undivided),
            "You add the losses up and do not divide: the update grows with the batch. Divide by the number of "
            "examples of all shards.",
        ),
        Mistake(
            _step(share=_as_many_as_the_first),
            "You take every shard to be as large as the first. Sizes may differ: add them up.",
        ),
    ),
    hints=(
        "One global batch, one update. What is done for each shard, and what is done once?",
        "For each shard: losses, their sum divided by the number of examples of *all* shards, scale_loss, gradients.",
        "Add the gradients up variable by variable: [a + b for a, b in zip(total, part)]; then one optimizer.apply.",
    ),
    rtol=4e-3,
    atol=5e-4,
    trains=True,
    asks_for=(
        "ampcourse.models.density.train",
        "ampcourse.models.loops.train",
        "ampcourse.training.on_tensorflow.Step",
    ),
    insight="Whatever looks at gradients, the test for overflow, clipping, a norm, has to come after the sum, or it "
    "has to agree across replicas. Before the sum each replica knows only its own part.",
)
