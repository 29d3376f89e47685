"""The batches of a run: a function of the seed, the epoch and the place in it, so a resumed run sees the same ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from ampcourse import data
from ampcourse.training.catalogue import picture_side
from ampcourse.training.config import Config


class Feed:
    """Training and test batches of one data set, at the size that the model wants."""

    def __init__(self, config: Config, backend: str) -> None:
        self.config, self.backend = config, backend
        self.pictures = data.pictures(config.data, download=config.download, limit=config.limit)
        height, _, channels = self.pictures.source.shape
        side = config.size or picture_side(config.model, height)
        self.shape = (side, side, channels)
        self.classes = len(self.pictures.classes)

    @property
    def count(self) -> int:
        """How many training pictures there are."""
        return len(self.pictures.train.labels)

    def train(self, epoch: int, start: int, stop: int) -> Iterable[Any]:
        """Batches `start` to `stop` (left out) of an epoch, shuffled and augmented."""
        settings = {"train": True, "seed": self.config.seed, "epoch": epoch, "start": start}
        if self.backend == "tensorflow":
            return self._made(data.pipeline, self.pictures.train, settings).take(stop - start)
        found = self._made(data.batches, self.pictures.train, settings)
        return (pair for pair in itertools.islice(found, stop - start))  # Keras knows generators, not islice

    def test(self) -> Iterable[Any]:
        """All test pictures, as they are; the last batch may be smaller."""
        make = data.pipeline if self.backend == "tensorflow" else data.batches
        return self._made(make, self.pictures.test, {"train": False})

    def _made(self, make: Any, split: Any, settings: dict[str, Any]) -> Any:
        size, channels = self.shape[0], self.shape[-1]
        return make(split, self.config.batch, pictures=self.pictures, size=size, channels=channels, **settings)
