"""A translator of LSTM layers with attention, after Google's of 2016.

Wu et al., "Google's neural machine translation system" (2016), section 3: a stack of LSTM layers reads the sentence,
the first in both directions; another stack writes the translation, and the lowest of its layers asks where to look,
with Bahdanau's attention (2014); layers add their input to their output from the third on. Unlike there, what attention
finds is not fed back into that lowest layer, so that each layer runs over the whole sentence at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ampcourse.models.zoo import flops
from ampcourse.models.zoo.workload import Samples, Workload

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class Size:
    """Words in the vocabulary, units of each LSTM, layers of each stack, words of a sentence."""

    words: int
    units: int
    depth: int
    length: int


FULL = Size(32_320, 1024, 4, 50)
SMALL = Size(200, 32, 3, 12)
START = 1
"""The word before the first one of a translation."""


def workload(scale: str) -> Workload:
    """4 + 4 layers of 1,024 units; small: 3 + 3 layers of 32."""
    import keras

    size = FULL if scale == "full" else SMALL

    def samples(batch: int, seed: int = 0) -> Samples:
        """Words, int32 (batch, length): the sentence, the translation as far as it is written, and the next words."""
        rng = np.random.default_rng(seed)
        read, targets = rng.integers(2, size.words, (2, batch, size.length), dtype=np.int32)
        written = np.concatenate([np.full((batch, 1), START, np.int32), targets[:, :-1]], axis=1)
        return {"sentence": read, "translation": written}, targets

    return Workload(
        name="gnmt",
        scale=scale,
        title="GNMT",
        unit="sentences",
        build=lambda: build(size),
        samples=samples,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        flops=6 * _work(size),
        batches={"cpu": 8 if scale == "full" else 32, "gpu": 128},
        source="after Wu et al. 2016, Google's neural machine translation system, section 3: 4 + 4 layers",
        make_optimizer=lambda: keras.optimizers.Adam(1e-3),
    )


def _work(size: Size) -> int:
    """Multiply-adds of the forward pass of one pair of sentences; the scores of the attention are no matrix product."""
    n, steps = size.units, size.length
    reads = 2 * flops.lstm(steps, n, n // 2) + (size.depth - 1) * flops.lstm(steps, n, n)
    writes = flops.lstm(steps, n, n) + (size.depth - 1) * flops.lstm(steps, 2 * n, n)
    looks = 2 * flops.dense(steps, n, n) + steps * steps * n
    return reads + writes + looks + flops.dense(steps, n, size.words)


def build(size: Size) -> keras.Model:
    """From {"sentence": (batch, length), "translation": (batch, length)} to float32 logits (batch, length, words)."""
    import keras
    from keras import layers

    sentence = keras.Input((size.length,), dtype="int32", name="sentence")
    translation = keras.Input((size.length,), dtype="int32", name="translation")
    x = layers.Embedding(size.words, size.units, name="read_words")(sentence)
    both = layers.LSTM(size.units // 2, return_sequences=True, name="read1")
    x = layers.Bidirectional(both, name="read1")(layers.Dropout(0.2, name="read1_dropout")(x))
    for place in range(2, size.depth + 1):
        x = _layer(x, [], size.units, f"read{place}", residual=place > 2)
    y = layers.Embedding(size.words, size.units, name="write_words")(translation)
    y = _layer(y, [], size.units, "write1", residual=False)
    seen = _look(y, x, size.units)
    for place in range(2, size.depth + 1):
        y = _layer(y, [seen], size.units, f"write{place}", residual=place > 2)
    y = layers.Dense(size.words, name="words")(y)  # a third of the work: in the compute dtype, and cast afterwards
    wide = "float64" if keras.config.dtype_policy().compute_dtype == "float64" else "float32"
    y = layers.Activation("linear", dtype=wide, name="logits")(y)
    return keras.Model({"sentence": sentence, "translation": translation}, y, name="gnmt")


def _layer(x: Any, besides: list[Any], units: int, name: str, residual: bool) -> Any:
    """An LSTM that reads x, and what lies besides it; its output, plus x if residual."""
    from keras import layers

    y = layers.Dropout(0.2, name=f"{name}_dropout")(x)
    if besides:
        y = layers.Concatenate(name=f"{name}_inputs")([y, *besides])
    y = layers.LSTM(units, return_sequences=True, name=name)(y)
    return layers.Add(name=f"{name}_sum")([x, y]) if residual else y


def _look(y: Any, x: Any, units: int) -> Any:
    """What of x each place of y looks at, weighted by Bahdanau's additive scores."""
    from keras import layers

    query = layers.Dense(units, use_bias=False, name="look_query")(y)
    key = layers.Dense(units, use_bias=False, name="look_key")(x)
    return layers.AdditiveAttention(name="look")([query, x, key])
