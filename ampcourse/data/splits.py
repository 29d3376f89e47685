"""What the loaders return: pictures with their labels, in two parts."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ampcourse.data.embedded import DataError
from ampcourse.data.known import Source

MEMORY_SHARE = 0.4  # of the free memory, which decoded pictures may take


class Jpegs(Sequence):
    """JPEG files of different sizes, one after the other in one block of bytes.

    Args:
        content: all files, uint8 of shape (bytes,).
        ends: where each file ends, int64 of shape (n,).
    """

    def __init__(self, content: np.ndarray, ends: np.ndarray, index: np.ndarray | None = None) -> None:
        self.content, self.ends = content, ends
        self.index = np.arange(len(ends)) if index is None else index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, place: Any) -> Any:
        """The bytes of one file, or for a slice or an array of places the files there."""
        if isinstance(place, slice | np.ndarray | list):
            return Jpegs(self.content, self.ends, self.index[place])
        number = self.index[place]
        begin = self.ends[number - 1] if number else 0
        return self.content[begin : self.ends[number]].tobytes()


@dataclass(frozen=True)
class Split:
    """One part of a data set.

    Attributes:
        images: uint8 of shape (n, height, width, channels), 0 to 255; or a sequence of JPEG files as bytes.
        labels: int64 of shape (n,).
    """

    images: Any
    labels: np.ndarray
    _kept: dict = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def encoded(self) -> bool:
        """Whether the pictures are JPEG files rather than arrays."""
        return not isinstance(self.images, np.ndarray)

    def only(self, index: np.ndarray) -> Split:
        """The pictures at these places."""
        return Split(self.images[index], self.labels[index])

    def decoded(self, side: int) -> Decoded:
        """The JPEG files as square pictures of this side; kept, so that each is decoded once."""
        key = ("decoded", side)
        if key not in self._kept:
            self._kept[key] = Decoded(self.images, side)
        return self._kept[key]

    def kept(self, key: Any, make: Any) -> Any:
        """What `make()` gave when this was first asked for."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


@dataclass(frozen=True)
class Pictures:
    """A data set: two parts, the names of the classes, and the moments of the training part's grey values in [0, 1]."""

    source: Source
    train: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; a label is a position in them."""
        return self.source.classes

    def limited(self, limit: int) -> Pictures:
        """The same with `limit` training pictures, as many of each class as can be; the test part stays whole."""
        labels = self.train.labels
        if limit >= len(labels):
            return self
        order = np.argsort(labels, kind="stable")
        begin = np.searchsorted(labels[order], labels[order])
        rank = np.empty(len(labels), int)
        rank[order] = np.arange(len(labels)) - begin  # how many of its class come before it
        chosen = np.sort(np.argsort(rank, kind="stable")[:limit])
        return Pictures(self.source, self.train.only(chosen), self.test, self.mean, self.std)


class Decoded:
    """JPEG files as pictures: shorter side scaled to `side` pixels, the square in the middle cut out.

    Each is decoded when it is first asked for, and kept where memory allows. Several threads may ask at once.
    """

    def __init__(self, jpegs: Sequence[bytes], side: int) -> None:
        self.jpegs, self.side = jpegs, side
        shape = (len(jpegs), side, side, 3)
        fits = np.prod(shape, dtype=np.int64) <= MEMORY_SHARE * _free_memory()
        self._pictures = np.empty(shape, np.uint8) if fits else None
        self._done = np.zeros(len(jpegs), bool)

    def take(self, index: np.ndarray) -> np.ndarray:
        """The pictures at these places, uint8 of shape (n, side, side, 3)."""
        if self._pictures is None:
            return np.stack([self._decode(number) for number in index])
        for number in index:
            if not self._done[number]:
                # Two threads may decode the same picture: they write the same bytes.
                self._pictures[number] = self._decode(number)
                self._done[number] = True
        return self._pictures[index]

    def _decode(self, number: int) -> np.ndarray:
        from PIL import Image

        try:
            with Image.open(io.BytesIO(self.jpegs[number])) as file:
                file.draft("RGB", (self.side, self.side))  # large files are decoded at half or a quarter of their size
                return _square(file.convert("RGB"), self.side)
        except (OSError, ValueError) as error:
            raise DataError(f"Picture {number} is no JPEG file that can be decoded: {error}.") from None


def _square(image: Any, side: int) -> np.ndarray:
    """The middle of a picture, its shorter side scaled to `side`: uint8 of shape (side, side, channels)."""
    from PIL import Image

    width, height = image.size
    short = min(width, height)
    left, top = (width - short) / 2, (height - short) / 2
    box = (left, top, left + short, top + short)
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR, box=box))


def _free_memory() -> int:
    """Bytes that are free; 4 GB where that cannot be asked."""
    try:
        import psutil
    except ImportError:
        return 4 * 10**9
    return psutil.virtual_memory().available
