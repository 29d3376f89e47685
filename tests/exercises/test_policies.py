"""The rules behind lesson 03's first two exercises are Keras's own: every case is built with Keras and compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ampcourse.exercises.answers.policies.follow import MIXED, PLAIN, follow
from ampcourse.exercises.answers.policies.program import POLICIES, what_keras_does

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")


@pytest.fixture(autouse=True)
def _policy() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy(before)


class Plain(keras.layers.Layer):
    def __init__(self, **options: Any) -> None:
        super().__init__(autocast=False, **options)

    def call(self, x: Any) -> Any:
        return x + tf.cast(1, x.dtype)


MAKE = {
    "Dense": lambda policy: keras.layers.Dense(3, dtype=policy),
    "BatchNormalization": lambda policy: keras.layers.BatchNormalization(dtype=policy),
    "Embedding": lambda policy: keras.layers.Embedding(9, 3, dtype=policy),
    "Flatten": lambda policy: keras.layers.Flatten(dtype=policy),
    "Plain": lambda policy: Plain(dtype=policy),
}


def watched(kind: str, policy: str, data: str) -> tuple[str, str, str]:
    """What Keras really does to one layer."""
    layer, seen = MAKE[kind](policy), []
    call = layer.call
    object.__setattr__(
        layer, "call", lambda x, *args, **kwargs: (seen.append(x.dtype.name), call(x, *args, **kwargs))[1]
    )
    output = layer(tf.ones((2, 3), data))
    variables = {keras.backend.standardize_dtype(v.dtype) for v in layer.weights}
    return seen[-1], variables.pop() if variables else "", output.dtype.name


CASES = [
    (kind, policy, data)
    for kind, policy in itertools.product(MAKE, MIXED + PLAIN)
    for data in (("int32", "uint8", "int64") if kind == "Embedding" else ("float32", "float64", "float16", "int32"))
    if not (kind in ("Dense", "BatchNormalization") and data == "int32")
]


@pytest.mark.parametrize("kind", MAKE)
def test_the_dtypes_on_the_way_are_those_of_keras(kind: str) -> None:
    for case in (c for c in CASES if c[0] == kind):
        assert follow.right([case[:2]], case[2]) == [watched(*case)], case


def ran(program: list[tuple[str, str]]) -> tuple[list[str], bool]:
    """The program, really run."""
    layers, model = [], None
    for statement, argument in program:
        if statement == "policy":
            keras.config.set_dtype_policy(argument)
        elif statement == "layer":
            layers.append(keras.layers.Dense(2, dtype=argument or None))
        elif statement == "model":
            model = keras.Sequential([keras.Input((2,)), *layers])
        else:
            optimizer = keras.optimizers.SGD()
            if argument == "wrapped":
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
            options = {} if argument in {"plain", "wrapped"} else {"auto_scale_loss": False}
            model.compile(optimizer, "mse", **options)
    keras.config.set_dtype_policy("float32")
    scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    return [layer.dtype_policy.name for layer in layers], scaled


@pytest.mark.parametrize("seed", range(2))
def test_programs_end_as_they_do_in_keras(seed: int) -> None:
    for rows in what_keras_does.inputs(np.random.default_rng(seed)).values():
        for (program,) in rows[0]:
            assert what_keras_does.right(program) == ran(program), program


def test_every_policy_and_every_optimizer() -> None:
    for policy, how in itertools.product((*POLICIES, "float16"), ("plain", "wrapped", "auto_scale_loss=False")):
        program = [("policy", policy), ("layer", ""), ("model", ""), ("compile", how)]
        assert what_keras_does.right(program) == ran(program), program
