"""What a model of the zoo comes with: how to build, feed, judge and train it, and how much work a sample is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ampcourse.course import UserError

if TYPE_CHECKING:
    import keras

SCALES = ("full", "small")
Samples = tuple[Any, Any]


class ZooError(UserError):
    """There is no such model, or it cannot be built or run here."""


@dataclass(frozen=True)
class Workload:
    """A model with all that a training run of it needs.

    Attributes:
        name: as in `names()`.
        scale: "full", the published size; or "small", the same architecture cut down for a CPU.
        title: for tables and plots.
        unit: what a sample is, in the plural: "pictures", "sequences", "ratings", "sentences".
        build: makes the model under the current global dtype policy, with random weights. Its outputs are float32
            under every policy (float64 under float64).
        samples: `samples(batch, seed)`, a pair of inputs and targets for `batch` samples: NumPy arrays, or a dict of
            them for a model with several inputs. The same seed gives the same samples.
        loss: a Keras loss that takes the outputs as they are (logits).
        flops: floating-point operations of the matrix products and convolutions in the forward and backward pass of
            one sample: 2 for each multiply-add, and the backward pass counted as twice the forward one.
        batches: samples in a batch that suit a machine, by "cpu" and "gpu".
        source: the paper, and whose code it is.
        make_optimizer: see `optimizer`.
        fused_attention: whether attention runs in one fused operation, see `obstacle`.
    """

    name: str
    scale: str
    title: str
    unit: str
    build: Callable[[], keras.Model]
    samples: Callable[[int, int], Samples]
    loss: keras.losses.Loss
    flops: float
    batches: Mapping[str, int]
    source: str
    make_optimizer: Callable[[], keras.optimizers.Optimizer]
    fused_attention: bool = False

    def optimizer(self) -> keras.optimizers.Optimizer:
        """A fresh optimizer of the usual kind for this model, without a LossScaleOptimizer around it."""
        return self.make_optimizer()

    def obstacle(self, policy: str) -> str | None:
        """One sentence on why the model cannot be trained under a dtype policy here, or None if it can.

        JAX has no float16 product with float32 sums on a CPU, which is what Keras's fused attention asks it for.
        """
        import keras

        if not self.fused_attention or policy != "mixed_float16" or keras.backend.backend() != "jax":
            return None
        import jax

        if jax.default_backend() != "cpu":
            return None
        return (
            f"{self.title} cannot be trained under mixed_float16 on JAX and a CPU, which has no float16 attention: "
            "choose mixed_bfloat16, TensorFlow or a GPU."
        )


def pictures(shape: tuple[int, int, int], classes: int) -> Callable[[int, int], Samples]:
    """Made-up standardised pictures, float32 (batch, *shape), and classes, int32 (batch,)."""

    def samples(batch: int, seed: int = 0) -> Samples:
        rng = np.random.default_rng(seed)
        images = rng.standard_normal((batch, *shape), dtype=np.float32)
        return images, rng.integers(classes, size=batch, dtype=np.int32)

    return samples


def keras_hub(title: str) -> ModuleType:
    """The package keras-hub.

    Raises:
        ZooError: if it is not installed.
    """
    try:
        import keras_hub
    except ImportError:
        raise ZooError(f"{title} comes from keras-hub, which is not installed: pip install keras-hub.") from None
    return keras_hub
