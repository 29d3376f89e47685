"""BERT-base as a classifier of sentences, from keras-hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ampcourse.models.zoo import flops
from ampcourse.models.zoo.workload import Samples, Workload, keras_hub

if TYPE_CHECKING:
    import keras

FULL = {
    "vocabulary_size": 30_522,
    "num_layers": 12,
    "num_heads": 12,
    "hidden_dim": 768,
    "intermediate_dim": 3072,
    "max_sequence_length": 512,
}
SMALL = {
    "vocabulary_size": 500,
    "num_layers": 2,
    "num_heads": 4,
    "hidden_dim": 64,
    "intermediate_dim": 256,
    "max_sequence_length": 64,
}
CLASSES = 2


def workload(scale: str) -> Workload:
    """BERT-base on 128 tokens; small: 2 narrow blocks on 32 tokens."""
    import keras

    sizes, length = (FULL, 128) if scale == "full" else (SMALL, 32)
    width, hidden = sizes["hidden_dim"], sizes["intermediate_dim"]
    work = sizes["num_layers"] * flops.encoder(length, width, hidden) + flops.dense(1, width, width, CLASSES)

    def samples(batch: int, seed: int = 0) -> Samples:
        """Token ids, their padding mask and segments, int32 (batch, length): whole sentences of random words."""
        rng = np.random.default_rng(seed)
        inputs = {
            "padding_mask": np.ones((batch, length), np.int32),
            "segment_ids": np.zeros((batch, length), np.int32),
            "token_ids": rng.integers(1, sizes["vocabulary_size"], (batch, length), dtype=np.int32),
        }
        return inputs, rng.integers(CLASSES, size=batch, dtype=np.int32)

    return Workload(
        name="bert_base",
        scale=scale,
        title="BERT-base",
        unit="sequences",
        build=lambda: _build(sizes),
        samples=samples,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        flops=6 * work,
        batches={"cpu": 4 if scale == "full" else 32, "gpu": 128},
        source="Devlin et al. 2018, BERT, section 3; model of keras-hub, 128 tokens",
        make_optimizer=lambda: keras.optimizers.AdamW(5e-5),
    )


def _build(sizes: dict[str, int]) -> keras.Model:
    import keras

    backbone = keras_hub("BERT-base").models.BertBackbone(**sizes)
    wide = "float64" if keras.config.dtype_policy().compute_dtype == "float64" else "float32"
    x = keras.layers.Dropout(0.1, name="logits_dropout")(backbone.output["pooled_output"])
    x = keras.layers.Dense(CLASSES, dtype=wide, name="logits")(x)
    return keras.Model(backbone.input, x, name="bert_base")
