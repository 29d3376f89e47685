"""What holds on a real backend, whichever it is: the tests of TensorFlow and of JAX share it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ampcourse.bench.engine import Engine, assert_policy, layers_of, under, wrapped
from ampcourse.bench.plan import Variant
from ampcourse.bench.speed import build, without_normalisation


def losses_like_fit(engine: Engine, workload: Any, variant: Variant, steps: int = 4) -> tuple[list[float], list[float]]:
    """The losses of our step and those of Keras's own `train_on_batch` from the same weights; weights move alike."""
    samples = workload.samples(8, 0)
    step, _, _ = build(engine, workload, variant, samples, seed=3)
    ours = [step.facts()["loss"]]
    for _ in range(steps - 1):
        with under(engine, variant.policy):
            step.run(1)
        ours.append(step.facts()["loss"])
    with under(engine, variant.policy):
        keras.utils.set_random_seed(3)
        model = workload.build()
        model.compile(wrapped(workload.optimizer(), variant), workload.loss, jit_compile=variant.xla)
        theirs = [float(np.ravel(model.train_on_batch(*samples))[0]) for _ in range(steps)]
    return ours, theirs


def bare_model(engine: Engine, workload: Any, policy: str) -> tuple[int, int, bool]:
    """Normalisation layers found, trainable weights left, and whether what is left computes as if they were not."""
    with under(engine, policy):
        model = workload.build()
        assert_policy(model, policy)
        found = without_normalisation(model)
        x = workload.samples(2, 0)[0]
        y = x.astype(model.layers[0].compute_dtype)
        for layer in layers_of(model):
            if "ormalization" not in type(layer).__name__ and not isinstance(layer, keras.layers.InputLayer):
                y = layer(y)
        same = np.allclose(keras.ops.convert_to_numpy(model(x)), keras.ops.convert_to_numpy(y), atol=1e-2)
    return found, len(model.trainable_variables), bool(same)
