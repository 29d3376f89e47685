"""Whether a run is worth going on with: the gradient monitor's verdict, or what can be told without it."""

from __future__ import annotations

import math
from typing import Any

from ampcourse.training.config import Config
from ampcourse.training.session import values

EVERY = 64  # updates between two looks
LOWEST = 2.0**-10  # a loss scale that no healthy run needs
STOPS = ("collapsing", "diverged")


def build_monitor(config: Config, backend: str) -> Any:
    """A GradientMonitor on TensorFlow, if it is asked for; None elsewhere."""
    if not config.monitor or backend != "tensorflow":
        return None
    from ampcourse.amp import GradientMonitor

    return GradientMonitor(verbose=0)


class Health:
    """The verdict on one run.

    Without a gradient monitor, as on JAX, a loss that is not finite counts as "diverged", and a loss scale of 2**-10 or
    less as "collapsing".
    """

    def __init__(self, config: Config, monitor: Any, optimizer: Any) -> None:
        self.watches = config.monitor
        self.monitor, self.optimizer = monitor, optimizer
        self.verdict, self.says = "", ()

    def look(self, loss: float | None = None) -> bool:
        """Whether the run should end; `loss` is the mean of the epoch where that is known."""
        if not self.watches:
            return False
        if self.monitor is not None:
            self.verdict = self.monitor.summary()["verdict"]
            self.says = tuple(self.monitor.says) if self.verdict != "healthy" else ()
        else:
            self.verdict, self.says = _without_monitor(self.scale, loss)
        return self.verdict in STOPS

    @property
    def scale(self) -> float:
        """The loss scale now; 1.0 where nothing scales."""
        scale = getattr(self.optimizer, "dynamic_scale", None)
        return 1.0 if scale is None else float(values(scale))


def _without_monitor(scale: float, loss: float | None) -> tuple[str, tuple[str, ...]]:
    if scale <= LOWEST:
        return "collapsing", (f"The loss scale has fallen to {scale:g}: hardly a step has finite gradients.",)
    if loss is not None and not math.isfinite(loss):
        return "diverged", ("The loss is not finite: try a lower learning rate.",)
    return "healthy", ()
