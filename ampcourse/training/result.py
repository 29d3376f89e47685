"""What a training run hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ampcourse.training.config import Config


@dataclass(frozen=True)
class Result:
    """One finished run; printing it gives its summary in a few lines.

    Attributes:
        config: what was asked for.
        history: one row an epoch: epoch, update, loss, accuracy (training, as the weights moved), test_loss,
            test_accuracy, learning_rate, loss_scale, skipped, seconds.
        accuracy: share of the test pictures that the final weights (their average, if there is one) get right.
        seconds: of this call alone, compiling and testing included.
        steps: updates since the beginning of the run, those before a resume included.
        skipped: updates that the optimizer left out because a gradient was not finite.
        verdict: of the gradient monitor: healthy, settling, collapsing, diverged, underflowing; "" where none watched.
        says: sentences that a person should read: the monitor's reasons, and what was done differently than asked.
        backend: of Keras: "tensorflow" or "jax".
        devices: how many shared each batch.
        model: the trained model, with the final weights.
        out: where checkpoints and logs are; None where nothing was written.
    """

    config: Config
    history: tuple[dict[str, Any], ...]
    accuracy: float
    seconds: float
    steps: int
    skipped: int = 0
    verdict: str = ""
    says: tuple[str, ...] = ()
    backend: str = ""
    devices: int = 1
    model: Any = field(default=None, repr=False)
    out: Path | None = None

    @property
    def stopped(self) -> bool:
        """Whether the monitor ended the run early."""
        return self.verdict in ("collapsing", "diverged")

    def __str__(self) -> str:
        head = (
            f"{self.config.model} on {self.config.data}, {self.config.policy}: {self.accuracy:.1%} of the test "
            f"pictures right after {self.steps:,} updates; {self.seconds:.0f} s."
        )
        return "\n".join([head, *self.says])
