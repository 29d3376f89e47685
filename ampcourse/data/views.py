"""How pictures become batches: which ones, how each is moved and flipped, and at which size. Decided ahead, by number.

The order and the augmentation of a picture hang on the seed, the epoch and its place in the epoch, on nothing else. So
a run that is continued in the middle of an epoch sees exactly what an uninterrupted one would have seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.data.embedded import DataError
from ampcourse.data.splits import Pictures, Split

DEFAULT_SIDE = 224  # of pictures that are stored as JPEG files


@dataclass(frozen=True)
class View:
    """What is cut out of which picture, one row for each place of an epoch, from the batch on that is asked for.

    Attributes:
        index: int64 of shape (n,), which picture.
        top, left: int64 of shape (n,), where the square that is kept begins, in pixels of the padded picture.
        flip: bool of shape (n,), whether it is mirrored, left to right.
    """

    index: np.ndarray
    top: np.ndarray
    left: np.ndarray
    flip: np.ndarray

    def rows(self, begin: int, end: int) -> View:
        """The places from `begin` to `end`, `end` left out."""
        return View(*(column[begin:end] for column in (self.index, self.top, self.left, self.flip)))


@dataclass(frozen=True)
class Feed:
    """Everything that `batches` and `pipeline` share: the checked arguments, and what follows from them.

    Attributes:
        split, batch: the pictures, and how many there are in a batch.
        stored: the side of a picture before it is cut, in pixels; `pad` black pixels are put around it first.
        cut: the side of the square that is cut out.
        size: the side of the pictures in the batch; the square is scaled to it.
        channels: of the pictures in the batch.
        scale, shift: float32 of shape (channels of the stored picture,): standardised = stored value * scale + shift.
        count: batches, of which `start` are left out.
        view: what is cut out of which picture.
    """

    split: Split
    batch: int
    stored: int
    pad: int
    cut: int
    size: int
    channels: int
    scale: np.ndarray
    shift: np.ndarray
    start: int
    count: int
    view: View

    def fetched(self, index: np.ndarray) -> np.ndarray:
        """The stored pictures at these places, uint8 of shape (n, stored, stored, channels of the stored picture)."""
        if self.split.encoded:
            return self.split.decoded(self.stored).take(index)
        return self.split.images[index]

    def place(self, number: int) -> View:
        """What is in batch `number`."""
        return self.view.rows(number * self.batch, (number + 1) * self.batch)


def feed(
    split: Split,
    batch: int,
    *,
    pictures: Pictures,
    size: int | None,
    channels: int | None,
    train: bool,
    seed: int,
    epoch: int,
    start: int,
) -> Feed:
    """Check the arguments of `batches` and `pipeline`, and decide everything that they do."""
    for name, value, low in (("batch", batch, 1), ("seed", seed, 0), ("epoch", epoch, 0), ("start", start, 0)):
        check_whole(name, value, low)
    if size is not None:
        check_whole("size", size, 1)
    n, own = len(split), len(pictures.mean)
    channels = own if channels is None else channels
    if channels != own and (own, channels) != (1, 3):
        raise DataError(
            f"Pictures with {own} channel{'s' * (own > 1)} cannot be given {channels!r}: leave channels out."
        )
    count = n // batch if train else math.ceil(n / batch)
    if not n or not count:
        raise DataError(f"A batch of {batch} cannot be filled from {n} pictures: ask for a smaller batch.")
    if start > count:
        raise DataError(f"start is {start}, but there are {count} batches of {batch} in {n} pictures.")
    if split.encoded:
        size = size or DEFAULT_SIDE
        stored, pad, cut = math.ceil(size * 8 / 7), 0, size  # 256 for 224, as is usual
    else:
        stored = cut = split.images.shape[1]
        size = size or stored
        pad = max(1, stored // 8) if train else 0  # 4 pixels of 32, as is usual
    mean, std = (np.array(moment, np.float32) for moment in (pictures.mean, pictures.std))
    view = _view(n, stored + 2 * pad - cut, train, seed, epoch)
    scale, shift = 1 / (255 * std), -mean / std
    return Feed(split, batch, stored, pad, cut, size, channels, scale, shift, start, count, view)


def _view(n: int, room: int, train: bool, seed: int, epoch: int) -> View:
    """Order and augmentation of an epoch; `room` is how far the square that is cut out may be moved."""
    if not train:
        middle = np.full(n, room // 2)
        return View(np.arange(n), middle, middle, np.zeros(n, bool))
    order, moves = (np.random.default_rng([seed, epoch, use]) for use in (0, 1))
    top, left = moves.integers(0, room + 1, (2, n))
    return View(order.permutation(n), top, left, moves.random(n) < 0.5)


def resizing(old: int, new: int) -> np.ndarray:
    """The matrix that scales a row of `old` pixels to `new`, float32 of shape (new, old), each row adding up to 1.

    Linear interpolation between the centres of pixels; where the picture shrinks, the triangle is as wide as the
    distance between new pixels, against aliasing: what `tf.image.resize(..., antialias=True)` does.
    """
    step = old / new
    width = max(step, 1.0)
    centres = (np.arange(new) + 0.5) * step - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(old) - centres[:, np.newaxis]) / width)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def check_whole(name: str, value: Any, low: int) -> None:
    """Refuse what is no whole number of at least `low`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < low:
        raise DataError(f"{name} is {value!r}: it must be a whole number of at least {low}.")
