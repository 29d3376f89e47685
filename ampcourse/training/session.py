"""What a run consists of, for both loops and both backends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.training.config import Config
from ampcourse.training.errors import TrainingError


@dataclass(frozen=True)
class Devices:
    """How many devices share each batch, what they are, and TensorFlow's strategy if they are several."""

    count: int
    name: str
    scope: Any
    strategy: Any = None


@dataclass(frozen=True)
class Plan:
    """How much there is to do: updates in an epoch and in all."""

    per_epoch: int
    total: int

    @property
    def epochs(self) -> int:
        """Epochs, the last of which may be cut short."""
        return -(-self.total // self.per_epoch)

    def updates(self, epoch: int) -> int:
        """Updates that belong to an epoch (from 0)."""
        return min(self.per_epoch, self.total - epoch * self.per_epoch)

    @classmethod
    def of(cls, config: Config, pictures: int) -> Plan:
        """The plan of a run with so many training pictures.

        Raises:
            TrainingError: if they do not fill one update.
        """
        per_epoch = pictures // config.batch // config.accumulate
        if not per_epoch:
            times = f" times {config.accumulate} accumulated ones" if config.accumulate > 1 else ""
            raise TrainingError(
                f"A batch of {config.batch}{times} needs more than the {pictures:,} training pictures there are: make "
                "it smaller."
            )
        return cls(per_epoch, config.steps or config.epochs * per_epoch)


@dataclass(frozen=True)
class Parts:
    """A model and what trains it."""

    config: Config
    model: Any
    loss: Any
    optimizer: Any
    monitor: Any
    devices: Devices


def fill_up(x: np.ndarray, y: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A batch of exactly `size` pictures, and 1.0 for each that is real, 0.0 for each that was added."""
    missing = size - len(y)
    real = np.concatenate([np.ones(len(y), np.float32), np.zeros(missing, np.float32)])
    if not missing:
        return x, y, real
    return np.concatenate([x, np.repeat(x[:1], missing, 0)]), np.concatenate([y, np.repeat(y[:1], missing)]), real


def values(variable: Any) -> np.ndarray:
    """The present values of a Keras variable, also of one that is mirrored on several devices."""
    value = getattr(variable, "value", variable)
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
