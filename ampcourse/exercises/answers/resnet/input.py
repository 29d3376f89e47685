"""Exercise 5: a tf.data pipeline whose steps stand in the right order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.resnet import three_epochs

RIGHT = ("decode", "cache", "shuffle", "augment", "batch", "prefetch")


def _inputs(rng: np.random.Generator) -> Inputs:
    """Numbers of pictures that leave an incomplete batch."""

    def sizes() -> tuple[int, int]:
        batch = int(rng.integers(5, 9))
        return batch * int(rng.integers(7, 11)) + int(rng.integers(1, batch)), batch

    return {
        "decoded once, augmented anew": (*sizes(), "work"),
        "another order in each epoch": (*sizes(), "order"),
        "whole batches, made ready": (*sizes(), "batches"),
    }


def _steps(
    names: Sequence[str] = RIGHT, *, buffer: int | None = None, drop: bool = True, parallel: int = 1
) -> Callable[..., Any]:
    """A pipeline of these steps, in this order."""

    def pipeline(files: Any, labels: Any, decode: Callable, augment: Callable, batch: int) -> Any:
        import tensorflow as tf

        made = tf.data.Dataset.from_tensor_slices((files, labels))
        workers = tf.data.AUTOTUNE if parallel > 1 else None
        for name in names:
            if name == "decode":
                made = made.map(lambda x, y: (decode(x), y), workers)
            elif name == "augment":
                made = made.map(lambda x, y: (augment(x), y), workers)
            elif name == "shuffle":
                made = made.shuffle(buffer or len(files))
            elif name == "batch":
                made = made.batch(batch, drop_remainder=drop)
            else:
                made = {"cache": made.cache, "repeat": made.repeat, "prefetch": lambda d=made: d.prefetch(2)}[name]()
        return made

    return pipeline


def _both_at_once(files: Any, labels: Any, decode: Callable, augment: Callable, batch: int) -> Any:
    import tensorflow as tf

    made = tf.data.Dataset.from_tensor_slices((files, labels)).map(lambda x, y: (augment(decode(x)), y))
    return made.cache().shuffle(len(files)).batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def _decoded_first(files: Any, labels: Any, decode: Callable, augment: Callable, batch: int) -> Any:
    import tensorflow as tf

    pictures = tf.stack([decode(file) for file in files])
    made = tf.data.Dataset.from_tensor_slices((pictures, labels)).shuffle(len(files))
    made = made.map(lambda x, y: (augment(x), y), num_parallel_calls=2).batch(batch, drop_remainder=True)
    return made.prefetch(1).with_options(tf.data.Options())


def _labels_apart(files: Any, labels: Any, decode: Callable, augment: Callable, batch: int) -> Any:
    import tensorflow as tf

    pictures = tf.data.Dataset.from_tensor_slices(files).map(decode).cache().shuffle(len(files)).map(augment)
    made = tf.data.Dataset.zip((pictures, tf.data.Dataset.from_tensor_slices(labels).shuffle(len(files))))
    return made.batch(batch, drop_remainder=True).prefetch(2)


pipeline = Exercise(
    id="resnet.pipeline",
    inputs=_inputs,
    observer=three_epochs,
    right=_steps(parallel=2),
    points={
        "decoded once, augmented anew": 2,
        "another order in each epoch": 2,
        "whole batches, made ready": 2,
    },
    also_right=(_steps(("decode", "cache", "augment", "shuffle", "batch", "prefetch")), _decoded_first),
    mistakes=(
        Mistake(
            _both_at_once,
            "The cache lies behind the augmentation, so each picture is augmented once and then always the same. Cache "
            "what never changes, and augment after it.",
        ),
        Mistake(
            _steps(("decode", "shuffle", "augment", "batch", "prefetch")),
            "Every file is decoded again in each epoch. Put a cache behind the decoding (before it, it keeps files "
            "only).",
        ),
        Mistake(
            _steps(("decode", "shuffle", "cache", "augment", "batch", "prefetch")),
            "Every epoch has the order of the first. A cache behind the shuffle keeps it (so does "
            "reshuffle_each_iteration=False): shuffle after the cache.",
        ),
        Mistake(
            _steps(("decode", "cache", "augment", "batch", "prefetch")),
            "Nothing is shuffled: every epoch goes through the files in the same order.",
        ),
        Mistake(
            _steps(("decode", "cache", "augment", "batch", "shuffle", "prefetch")),
            "You shuffle batches, not pictures: each batch holds the same neighbours in every epoch. Shuffle before "
            "you batch.",
        ),
        Mistake(
            _steps(buffer=3),
            "The shuffle buffer is small, so a picture moves a few places only. Here it can hold all: len(files).",
        ),
        Mistake(
            _steps(("decode", "cache", "shuffle", "batch", "prefetch")),
            "Nothing is augmented.",
        ),
        Mistake(
            _steps(("decode", "cache", "shuffle", "batch", "augment", "prefetch")),
            "You augment after batching, so a whole batch is changed in one way. `augment` takes one picture.",
        ),
        Mistake(
            _steps(drop=False),
            "The last batch is smaller than the others: another shape, which is compiled again. drop_remainder=True.",
        ),
        Mistake(
            _steps(RIGHT[:-1]),
            "Whole batches are not made ready ahead: the model waits for each. Let `prefetch` be the last step, not an "
            "earlier one.",
        ),
        Mistake(
            _steps(("decode", "cache", "shuffle", "augment", "batch", "repeat", "prefetch")),
            "Your pipeline repeats itself without an end. One run through it is one epoch; `fit` starts it again.",
        ),
        Mistake(
            _labels_apart,
            "Pictures and labels are shuffled apart and no longer belong together. Keep them in one dataset of pairs.",
        ),
    ),
    hints=(
        "What never changes comes before the cache, what is random after it.",
        "Shuffle single pictures, with a buffer for all of them; make batches last, and prefetch those.",
        "from_tensor_slices((files, labels)), map decode, cache, shuffle, map augment, batch, prefetch.",
    ),
    trains=True,
    asks_for=("ampcourse.data.pipeline",),
    insight="The order follows from two questions. Does a step give the same each time? Then before the cache. Does it "
    "work on one picture? Then before the batch.",
)
