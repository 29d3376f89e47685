"""The articles' claims of speed, as numbers: what can be divided can be checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SpeedClaim:
    """One row of an article's table.

    Attributes:
        article: key of the article, as in the ledger.
        model: what is trained, named as in the benchmark where it is there.
        device: the GPU that the article names, or "not named".
        before, after: time of an epoch in float32 and in mixed precision, seconds; None where only a ratio is given.
        ratio: the speed-up that the article states.
        batches: the batch sizes before and after; None where they are not given.
    """

    article: str
    model: str
    device: str
    before: float | None
    after: float | None
    ratio: float
    batches: tuple[float, float] | None = None

    @property
    def divided(self) -> float | None:
        """The ratio that the two times give."""
        return None if self.before is None or self.after is None else self.before / self.after


SPEEDS = (
    SpeedClaim("S000", "resnet50", "A100", 386, 152, 2.54, (128, 256)),
    SpeedClaim("S000", "bert_base", "A100", 1420, 680, 2.09, (4, 10)),
    SpeedClaim("S000", "retinanet_r50", "A100", 970, 420, 2.31, (8, 16)),
    SpeedClaim("S000", "ncf", "A100", 180, 85, 2.12, (1e6, 2e6)),
    SpeedClaim("S000", "gnmt", "A100", 560, 260, 2.15, (128, 192)),
    SpeedClaim("S002", "vit_l16", "not named", 420, 210, 2.0, (64, 96)),
    SpeedClaim("S003", "resnet50", "V100", None, None, 2.1, (64, 128)),
    SpeedClaim("S003", "bert_base", "A100", None, None, 2.6),
    SpeedClaim("S003", "vit_b16", "RTX 3090", None, None, 2.3, (8, 16)),
)
IMAGENET = 1_281_167
"""Training pictures of ImageNet (ILSVRC 2012), which one epoch goes through once."""
STATED_RATES = (33.0, 84.0)
"""Pictures a second before and after, as article S000 states them for ResNet-50 in its text."""
