"""Exercise 6: load a model so that training goes on as if nothing had happened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.policies import reloaded


def _inputs(rng: np.random.Generator) -> Inputs:
    def question(policy: str, surrounding: str) -> tuple:
        features, outputs = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        weights = [rng.normal(0, 1, shape).astype(np.float32) for shape in ((features, outputs), (outputs,))]
        x = rng.normal(0, 1, (4, features)).astype(np.float32)
        y = rng.normal(0, 1, (4, outputs)).astype(np.float32)
        return policy, surrounding, weights, x, y, float(2.0 ** rng.integers(8, 14))

    return {
        "a mixed_float16 model in a float32 process": question("mixed_float16", "float32"),
        "a float32 model in a mixed_float16 process": question("float32", "mixed_float16"),
        "a mixed_bfloat16 model in a mixed_float16 process": question("mixed_bfloat16", "mixed_float16"),
    }


def _right(path: str, policy: str) -> Any:
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return keras.models.load_model(path)
    finally:
        keras.config.set_dtype_policy(before)


def _by_old_names(path: str, policy: str) -> Any:
    import keras

    before = keras.mixed_precision.global_policy()
    try:
        keras.mixed_precision.set_global_policy(policy)
        model = keras.saving.load_model(path)
    finally:
        keras.mixed_precision.set_global_policy(before)
    return model


def _in_a_with(path: str, policy: str) -> Any:
    import keras

    @contextlib.contextmanager
    def under(name: str) -> Iterator[None]:
        before = keras.config.dtype_policy().name
        keras.config.set_dtype_policy(name)
        try:
            yield
        finally:
            keras.config.set_dtype_policy(before)

    with under(policy):
        return keras.models.load_model(path)


def _plain(path: str, policy: str) -> Any:
    import keras

    return keras.models.load_model(path)


def _leaves_it(path: str, policy: str) -> Any:
    import keras

    keras.config.set_dtype_policy(policy)
    return keras.models.load_model(path)


def _always_mixed(path: str, policy: str) -> Any:
    return _right(path, "mixed_float16")


def _wraps_afterwards(path: str, policy: str) -> Any:
    import keras

    model = keras.models.load_model(path)
    if policy == "mixed_float16":
        optimizer = model.optimizer
        model.compile(keras.optimizers.LossScaleOptimizer(optimizer), "mse", run_eagerly=True)
    return model


def _compiles_anew(path: str, policy: str) -> Any:
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = keras.models.load_model(path, compile=False)
    finally:
        keras.config.set_dtype_policy(before)
    optimizer = keras.optimizers.Adam(0.01)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(optimizer, "mse", run_eagerly=True)
    return model


def _not_compiled(path: str, policy: str) -> Any:
    import keras

    return keras.models.load_model(path, compile=False)


reload = Exercise(
    id="policies.reload",
    inputs=_inputs,
    observer=reloaded,
    right=_right,
    points={
        "a mixed_float16 model in a float32 process": 2,
        "a float32 model in a mixed_float16 process": 1,
        "a mixed_bfloat16 model in a mixed_float16 process": 1,
    },
    also_right=(_by_old_names, _in_a_with),
    mistakes=(
        Mistake(
            _plain,
            "load_model compiles under the global policy of the moment, not under the model's. Where they differ, the "
            "optimizer is wrapped when it should not be or the other way round, and its state is dropped with no "
            "more than a warning. Set the policy first.",
        ),
        Mistake(
            _leaves_it,
            "The model is right, but the global policy stays changed. Put the old one back, in a `finally`.",
        ),
        Mistake(
            _always_mixed,
            "You load everything under mixed_float16. Use the policy that is asked for: a float32 model would get "
            "a loss scale and lose its state.",
        ),
        Mistake(
            _wraps_afterwards,
            "You wrap after loading. The loss scale is there again, but the state was dropped while loading: steps, "
            "moments and scale start anew. Set the policy *before* load_model.",
        ),
        Mistake(
            _compiles_anew,
            "You compile anew, so the optimizer starts at step 0 with empty moments and the default loss scale.",
        ),
        Mistake(
            _not_compiled,
            "Your model has no optimizer: with compile=False it is loaded for inference only.",
        ),
    ),
    hints=(
        "Which policy is the global one matters at one moment only: while load_model runs.",
        "before = keras.config.dtype_policy(); keras.config.set_dtype_policy(policy); then load inside `try`.",
        "finally: keras.config.set_dtype_policy(before)",
    ),
    rtol=1e-3,
    atol=1e-6,
    trains=True,
    insight="A file holds the layers' policies but only the plain optimizer's name; `compile` decides anew. If you "
    "compile with a LossScaleOptimizer of your own, it is in the file, and loading is right under every policy.",
)
