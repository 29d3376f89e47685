"""Observers of lesson 07: what an input pipeline does over three epochs, and what a batch normalisation returns."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

EPOCHS = 3
_AGAIN = 1000.0
"""What the n-th augmentation adds to a picture is n times this, so a picture tells which it was, and when."""


class _Counted:
    """The decoder and the augmentation that the learner is given: they count what they are called with."""

    def __init__(self) -> None:
        # Steps may run in several threads: both of these count one call at a time.
        self.decoded: list[bytes] = []
        self.numbers = count(1)

    def decode(self, file: Any) -> Any:
        """From a file, a text tensor of shape (), to a picture, float32 of shape (2, 2, 1)."""
        import tensorflow as tf

        def read(content: bytes) -> Any:
            import numpy as np

            self.decoded.append(content)
            return np.full((2, 2, 1), float(content), np.float32)

        return tf.ensure_shape(tf.numpy_function(read, [file], tf.float32), (2, 2, 1))

    def augment(self, picture: Any) -> Any:
        """From a picture to a changed one, of the same shape."""
        import tensorflow as tf

        def change(values: Any) -> Any:
            import numpy as np

            return values + np.float32(_AGAIN * next(self.numbers))

        return tf.ensure_shape(tf.numpy_function(change, [picture], tf.float32), picture.shape)


def three_epochs(answer: Callable, pictures: int, batch: int, about: str) -> dict[str, Any]:
    """Build the learner's pipeline over `pictures` files and go through it three times.

    Reports, by what it is asked `about`: "work" how often a file was decoded and a picture augmented; "order" which
    orders the pictures come in; "batches" sizes, labels and how the pipeline ends.
    """
    import numpy as np
    import tensorflow as tf

    counted = _Counted()
    names = [str(n).encode() for n in range(pictures)]
    labels = np.arange(pictures) % 7
    made = answer(tf.constant(names), tf.constant(labels), counted.decode, counted.augment, batch)
    if not isinstance(made, tf.data.Dataset):
        raise TypeError(f"a tf.data.Dataset has to be returned, and {type(made).__name__} was")
    # One more than there are pictures, so that a pipeline without an end is noticed and not waited for.
    epochs = [[_as_arrays(x, y) for x, y in made.take(pictures + 1)] for _ in range(EPOCHS)]
    if any(not 0 < len(epoch) <= pictures for epoch in epochs):
        return {"an epoch": "is empty" if not all(epochs) else "has no end"}
    return {"work": _work, "order": _order, "batches": _batches}[about](counted, made, epochs)


def _as_arrays(x: Any, y: Any) -> tuple[Any, Any]:
    """Pictures flattened to one number each (they hold one), and labels."""
    import numpy as np

    x, y = np.asarray(x, np.float64), np.ravel(np.asarray(y))
    if x.shape[-3:] != (2, 2, 1):
        raise ValueError(f"batches of pictures have the shape (batch, 2, 2, 1) here, not {x.shape}")
    return x.reshape(-1, 4)[:, 0], y


def _seen(epoch: list) -> Any:
    import numpy as np

    return np.concatenate([x for x, _ in epoch]) % _AGAIN


def _work(counted: _Counted, made: Any, epochs: list) -> dict[str, Any]:
    import numpy as np

    changes = np.concatenate([np.concatenate([x for x, _ in epoch]) // _AGAIN for epoch in epochs])
    return {
        "files decoded in three epochs": len(counted.decoded),
        "pictures augmented in three epochs": next(counted.numbers) - 1,
        "no augmentation comes twice": len(set(changes.tolist())) == len(changes),
    }


def _order(counted: _Counted, made: Any, epochs: list) -> dict[str, Any]:
    import numpy as np

    orders = [_seen(epoch) for epoch in epochs]
    steps = np.concatenate([np.diff(x % _AGAIN) for epoch in epochs for x, _ in epoch])
    neighbours = bool(steps.size and np.mean(steps == 1) > 0.75)
    moved = np.mean([np.abs(order - np.arange(len(order))).mean() / len(order) for order in orders])
    return {
        "pictures an epoch": [len(order) for order in orders],
        "another order in each epoch": len({tuple(order) for order in orders}) == EPOCHS,
        "neighbours stay neighbours": neighbours,
        "pictures move far": bool(not neighbours and moved > 0.2),  # a third of the way where all places are as likely
    }


def _batches(counted: _Counted, made: Any, epochs: list) -> dict[str, Any]:
    import numpy as np

    sizes = [len(x) for x, _ in epochs[0]]
    return {
        "batches an epoch": len(sizes),
        "smallest and largest batch": [min(sizes), max(sizes)],
        "labels belong to their pictures": all(
            len(x) == len(y) and np.array_equal(x % _AGAIN % 7, y) for epoch in epochs for x, y in epoch
        ),
        "a picture comes at most once an epoch": all(len(set(_seen(e))) == len(_seen(e)) for e in epochs),
        "the last step": _last_step(made),
    }


def _last_step(made: Any) -> str:
    """Whether batches are made ready while the model computes; options around the last step change nothing."""
    while type(made).__name__ == "_OptionsDataset":
        made = made._input_dataset
    return "prefetch" if "prefetch" in type(made).__name__.lower() else "another"


def normalised(answer: Callable, dtype: str, x: Any, parameters: list, training: bool) -> dict[str, Any]:
    """Call a batch normalisation with pictures in `dtype`; gamma, beta, moving mean and variance are float32.

    Reports dtypes and values of the result and of both moving statistics.
    """
    import tensorflow as tf

    given = [tf.constant(p, tf.float32) for p in parameters]
    returned = answer(tf.cast(tf.constant(x), dtype), *given, training)
    if not isinstance(returned, tuple | list) or len(returned) != 3:
        raise TypeError("three things are asked for: the result, the new moving mean and the new moving variance")
    facts: dict[str, Any] = {}
    shapes = (tuple(x.shape), *[tuple(p.shape) for p in parameters[2:]])
    for name, value, shape in zip(("result", "moving mean", "moving variance"), returned, shapes, strict=True):
        if value is None:
            return {name: None}
        value = tf.convert_to_tensor(value)
        if tuple(value.shape) != shape:
            raise ValueError(f"the {name} has the shape {shape}, not {tuple(value.shape)}")
        facts[f"{name}, dtype"] = value.dtype.name
        facts[name] = tf.cast(value, tf.float64).numpy()
    return facts
