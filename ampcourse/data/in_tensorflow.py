"""`pipeline`: the same batches as a tf.data.Dataset, so that TensorFlow prepares them beside the training step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ampcourse.data.embedded import DataError
from ampcourse.data.splits import Pictures, Split
from ampcourse.data.views import Feed, feed, resizing


def pipeline(
    split: Split,
    batch: int,
    *,
    pictures: Pictures,
    size: int | None = None,
    channels: int | None = None,
    train: bool = False,
    seed: int = 0,
    epoch: int = 0,
    start: int = 0,
) -> Any:
    """What `batches` gives, as a `tf.data.Dataset`: decoded, cached, augmented and batched in parallel, prefetched.

    Decoded pictures stay in memory with the split, so that the second epoch's pipeline decodes nothing. The dataset
    holds what `batches` with the same arguments holds, up to float32's rounding; arguments and errors are the same.

    Returns:
        A dataset of pairs: pictures float32 of shape (batch, size, size, channels), labels int64 of shape (batch,).

    Raises:
        DataError: as `batches`, and where TensorFlow is not installed.
    """
    try:
        import tensorflow as tf
    except ImportError:
        says = "`pipeline` makes a tf.data.Dataset, and TensorFlow is not installed here: use `batches`."
        raise DataError(says) from None
    settings = {"size": size, "channels": channels, "train": train, "seed": seed, "epoch": epoch, "start": start}
    plan = feed(split, batch, pictures=pictures, **settings)
    first, last = plan.start * batch, min(plan.count * batch, len(split))
    view = plan.view.rows(first, last)
    labels = split.labels[view.index]
    rows = tf.data.Dataset.from_tensor_slices((view.index, view.top, view.left, view.flip, labels))
    # Whole batches are worked on at once: a call for each picture would cost more than the work on it.
    rows = rows.batch(batch, drop_remainder=train)
    prepared = _preparation(plan)
    ready = rows.map(prepared, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return ready.prefetch(tf.data.AUTOTUNE)


def _preparation(plan: Feed) -> Any:
    """The function of a batch's view that gives the batch, in TensorFlow operations."""
    import tensorflow as tf

    fetch = _fetching(plan)
    matrix = resizing(plan.cut, plan.size)
    pad = [[0, 0], [plan.pad] * 2, [plan.pad] * 2, [0, 0]]

    def prepared(index: Any, top: Any, left: Any, flip: Any, labels: Any) -> tuple[Any, Any]:
        x = tf.pad(fetch(index), pad)
        offsets = tf.range(plan.cut, dtype=tf.int64)
        columns = tf.where(flip[:, tf.newaxis], offsets[::-1], offsets) + left[:, tf.newaxis]
        x = tf.gather(x, offsets + top[:, tf.newaxis], axis=1, batch_dims=1)
        x = tf.gather(x, columns, axis=2, batch_dims=1)
        x = tf.cast(x, tf.float32) * plan.scale + plan.shift
        if plan.size != plan.cut:
            x = tf.einsum("ih,nhwc->niwc", matrix, x)
            x = tf.einsum("jw,niwc->nijc", matrix, x)
        if plan.channels != x.shape[-1]:
            x = tf.repeat(x, plan.channels, axis=-1)
        return x, labels

    return prepared


def _fetching(plan: Feed) -> Any:
    """The function of an index that gives the stored pictures."""
    import tensorflow as tf

    if not plan.split.encoded:
        # One tensor for all epochs; as a captured input it is not copied into the graph, which may not pass 2 GB.
        with tf.device("CPU:0"):
            images = plan.split.kept("tensor", lambda: tf.constant(plan.split.images))
        return lambda index: tf.gather(images, index)

    def fetch(index: Any) -> Any:
        # The decoder is that of `batches`: another one would give other grey values.
        x = tf.numpy_function(lambda places: plan.fetched(np.asarray(places)), [index], tf.uint8, stateful=False)
        return tf.ensure_shape(x, (index.shape[0], plan.stored, plan.stored, 3))

    return fetch
