"""`batches`: pictures as NumPy arrays, ready for a training step of any backend."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np

from ampcourse.data.splits import Pictures, Split
from ampcourse.data.views import Feed, View, feed, resizing

LARGE = 2**22  # bytes of a batch from which on threads prepare the next ones
WORKERS = 8

Batch = tuple[np.ndarray, np.ndarray]


class Batches:
    """The batches of one epoch. Iterating again gives the same ones; `len` says how many there are."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def __len__(self) -> int:
        return self._feed.count - self._feed.start

    def __iter__(self) -> Iterator[Batch]:
        numbers = range(self._feed.start, self._feed.count)
        large = 4 * self._feed.batch * self._feed.size**2 * self._feed.channels >= LARGE
        return self._ahead(iter(numbers)) if large else map(self._made, numbers)

    def _ahead(self, numbers: Iterator[int]) -> Iterator[Batch]:
        """In order, while threads prepare the following ones: NumPy and the JPEG decoder work beside each other."""
        workers = min(WORKERS, os.cpu_count() or 1)
        with ThreadPoolExecutor(workers, "batches") as pool:
            waiting = deque(pool.submit(self._made, number) for number in islice(numbers, workers + 1))
            try:
                while waiting:
                    ready = waiting.popleft().result()
                    waiting.extend(pool.submit(self._made, number) for number in islice(numbers, 1))
                    yield ready
            finally:  # whoever stops early waits only for what has begun
                pool.shutdown(wait=False, cancel_futures=True)

    def _made(self, number: int) -> Batch:
        view = self._feed.place(number)
        return _prepared(self._feed, self._feed.fetched(view.index), view), self._feed.split.labels[view.index]


def batches(
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
) -> Batches:
    """The pictures of a part in batches, standardised; for training shuffled and augmented.

    Order and augmentation hang on `seed`, `epoch` and the place in the epoch alone: from batch `start` on, a run sees
    exactly what it would have seen without an interruption. `pipeline` gives the same for TensorFlow.

    Args:
        split: `pictures.train` or `pictures.test`.
        batch: pictures in a batch.
        pictures: what `ampcourse.data.pictures` returned; its mean and standard deviation are used.
        size: height and width in pixels; default: as stored, and 224 for JPEG files.
        channels: 3 repeats the one channel of grey pictures; default: as stored.
        train: shuffle; mirror half of the pictures, left to right; move each by up to an eighth of its side (JPEG
            files: cut out a square of 7/8 of the shorter side anywhere); drop the last, incomplete batch.
        seed, epoch: whole numbers from 0 on.
        start: how many batches of the epoch to leave out.

    Returns:
        An iterable with a length, of pairs: pictures float32 of shape (batch, size, size, channels), standardised
        (without unit), and labels int64 of shape (batch,).

    Raises:
        DataError: for an argument that makes no sense, and if the pictures do not fill one batch.
    """
    settings = {"size": size, "channels": channels, "train": train, "seed": seed, "epoch": epoch, "start": start}
    return Batches(feed(split, batch, pictures=pictures, **settings))


def _prepared(feed: Feed, stored: np.ndarray, view: View) -> np.ndarray:
    """Stored pictures cut, mirrored, standardised and scaled."""
    cut = _cut(stored, view, feed.pad, feed.cut)
    # Row by row, all channels at once: NumPy is slow over a last axis of three.
    x = cut.reshape(*cut.shape[:2], -1).astype(np.float32)
    x *= np.tile(feed.scale, feed.cut)
    x += np.tile(feed.shift, feed.cut)
    n, side, channels = cut.shape[0], feed.cut, cut.shape[-1]
    if feed.size != side:
        matrix = resizing(side, feed.size)
        x = (matrix @ x).reshape(-1, side, channels)  # rows
        x = matrix @ x  # columns
    x = x.reshape(n, feed.size, feed.size, channels)
    return np.repeat(x, feed.channels, axis=-1) if feed.channels != channels else x


def _cut(stored: np.ndarray, view: View, pad: int, side: int) -> np.ndarray:
    """The square that the view keeps of each picture, uint8 of shape (n, side, side, channels)."""
    if pad:
        stored = np.pad(stored, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    if stored.shape[1] == side and not view.flip.any():
        return stored
    cut = np.empty((len(stored), side, side, stored.shape[-1]), np.uint8)
    # One slice a picture copies whole rows, which is faster than fancy indexing of all pictures.
    for one, picture, top, left, flip in zip(cut, stored, view.top, view.left, view.flip, strict=True):
        square = picture[top : top + side, left : left + side]
        one[:] = square[:, ::-1] if flip else square
    return cut
