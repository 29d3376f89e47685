"""Neural collaborative filtering (NeuMF): will this person like this item?

He et al., "Neural collaborative filtering" (2017), section 3.4: the product of two embeddings, and a tower of dense
layers on two others, feed one logit. The sizes are those in which it is usually measured: MovieLens 20M, 64 factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ampcourse.models.zoo import flops
from ampcourse.models.zoo.workload import Samples, Workload

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class Size:
    """People and items, factors of the product, and units of the tower; its first layer reads two embeddings."""

    people: int
    items: int
    factors: int
    tower: tuple[int, ...]


FULL = Size(138_493, 26_744, 64, (256, 128, 64))
SMALL = Size(500, 200, 8, (32, 16, 8))


def workload(scale: str) -> Workload:
    """NeuMF; small: few people, items and units."""
    import keras

    size = FULL if scale == "full" else SMALL
    work = flops.dense(1, size.tower[0], *size.tower) + flops.dense(1, size.factors + size.tower[-1], 1)

    def samples(batch: int, seed: int = 0) -> Samples:
        """Who and what, int32 (batch,); whether they liked it, float32 (batch, 1)."""
        rng = np.random.default_rng(seed)
        inputs = {
            "person": rng.integers(size.people, size=batch, dtype=np.int32),
            "item": rng.integers(size.items, size=batch, dtype=np.int32),
        }
        return inputs, rng.integers(2, size=(batch, 1)).astype(np.float32)

    return Workload(
        name="ncf",
        scale=scale,
        title="NCF",
        unit="ratings",
        build=lambda: build(size),
        samples=samples,
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        flops=6 * work,
        batches={"cpu": 4096 if scale == "full" else 1024, "gpu": 1_048_576},
        source="He et al. 2017, Neural collaborative filtering, section 3.4",
        make_optimizer=lambda: keras.optimizers.Adam(1e-3),
    )


def build(size: Size) -> keras.Model:
    """From {"person": (batch,), "item": (batch,)} to a float32 logit, shape (batch, 1)."""
    import keras
    from keras import layers

    person = keras.Input((), dtype="int32", name="person")
    item = keras.Input((), dtype="int32", name="item")

    def embedded(of: keras.KerasTensor, count: int, width: int, name: str) -> keras.KerasTensor:
        return layers.Embedding(count, width, "random_normal", name=name)(of)

    product = layers.Multiply(name="product")(
        [
            embedded(person, size.people, size.factors, "person_factors"),
            embedded(item, size.items, size.factors, "item_factors"),
        ]
    )
    half = size.tower[0] // 2
    x = layers.Concatenate(name="pair")(
        [embedded(person, size.people, half, "person_tower"), embedded(item, size.items, half, "item_tower")]
    )
    for place, units in enumerate(size.tower, 1):
        x = layers.Dense(units, "relu", name=f"tower{place}")(x)
    x = layers.Concatenate(name="both")([product, x])
    wide = "float64" if keras.config.dtype_policy().compute_dtype == "float64" else "float32"
    return keras.Model({"person": person, "item": item}, layers.Dense(1, dtype=wide, name="logit")(x), name="ncf")
