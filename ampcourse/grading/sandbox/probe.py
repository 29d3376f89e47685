"""Which layers of isolation hold on this machine: a sandbox is really started, and looks about from inside."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ampcourse.grading.model import GradingError
from ampcourse.grading.sandbox import command


@dataclass(frozen=True)
class Layer:
    """One layer: its name, whether it holds, and what to say if not."""

    name: str
    holds: bool
    says: str = ""


@dataclass(frozen=True)
class Layers:
    """All layers."""

    layers: tuple[Layer, ...]

    @property
    def complete(self) -> bool:
        """Whether all hold."""
        return all(layer.holds for layer in self.layers)

    @property
    def reasons(self) -> tuple[str, ...]:
        """A sentence for each that does not."""
        return tuple(layer.says for layer in self.layers if not layer.holds)


@functools.cache
def probe() -> Layers:
    """Look once."""
    try:
        command.find()
    except GradingError as error:
        return Layers((Layer("bubblewrap", False, str(error)),))
    return Layers((Layer("bubblewrap", True),))
