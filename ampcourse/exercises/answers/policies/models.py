"""Exercise 3: build a classifier that is right under any policy, and leave no trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.policies import built_under


def _inputs(rng: np.random.Generator) -> Inputs:
    def question(policy: str, surrounding: str) -> tuple:
        features, hidden, classes = (int(n) for n in rng.integers([4, 8, 40], [8, 16, 60]))
        shapes = [(features, hidden), (hidden,), (hidden,), (hidden,), (hidden, classes), (classes,)]
        weights = [rng.normal(0, 0.5, shape).astype(np.float32) for shape in shapes]
        x = rng.normal(0, 1, (4, features)).astype(np.float32)
        return policy, (features, hidden, classes), surrounding, x, weights

    return {
        "mixed_float16": question("mixed_float16", "float32"),
        "mixed_bfloat16": question("mixed_bfloat16", "float32"),
        "float32, while the global policy is mixed_float16": question("float32", "mixed_float16"),
    }


@contextlib.contextmanager
def _policy(name: str, restore: bool = True) -> Iterator[None]:
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        if restore:
            keras.config.set_dtype_policy(before)


def _sequential(features: int, hidden: int, classes: int, head: str | None = "float32", norm: str | None = None) -> Any:
    import keras

    return keras.Sequential(
        [
            keras.Input((features,)),
            keras.layers.Dense(hidden, activation="relu"),
            keras.layers.LayerNormalization(dtype=norm),
            keras.layers.Dense(classes),
            keras.layers.Activation("softmax", dtype=head),
        ]
    )


def _right(policy: str, features: int, hidden: int, classes: int) -> Any:
    with _policy(policy):
        return _sequential(features, hidden, classes)


def _float32_head(policy: str, features: int, hidden: int, classes: int) -> Any:
    """Functional, the whole last layer in float32."""
    import keras

    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        inputs = keras.Input((features,))
        x = keras.layers.Dense(hidden, activation="relu")(inputs)
        x = keras.layers.LayerNormalization()(x)
        return keras.Model(inputs, keras.layers.Dense(classes, activation="softmax", dtype="float32")(x))
    finally:
        keras.mixed_precision.set_global_policy(before)


def _subclassed(policy: str, features: int, hidden: int, classes: int) -> Any:
    """No global policy at all: the model hands its own on to its layers."""
    import keras

    class Classifier(keras.Model):
        def __init__(self) -> None:
            super().__init__(dtype=policy)
            self.first = keras.layers.Dense(hidden, activation="relu", dtype=self.dtype_policy)
            self.norm = keras.layers.LayerNormalization(dtype=self.dtype_policy)
            self.last = keras.layers.Dense(classes, dtype=self.dtype_policy)

        def call(self, x: Any) -> Any:
            return keras.ops.softmax(keras.ops.cast(self.last(self.norm(self.first(x))), "float32"))

    return Classifier()


def _each_layer(policy: str, features: int, hidden: int, classes: int) -> Any:
    import keras

    return keras.Sequential(
        [
            keras.Input((features,)),
            keras.layers.Dense(hidden, activation="relu", dtype=policy),
            keras.layers.LayerNormalization(dtype=policy),
            keras.layers.Dense(classes, activation="softmax", dtype="float32"),
        ]
    )


def _cast_too_late(policy: str, features: int, hidden: int, classes: int) -> Any:
    import keras

    with _policy(policy):
        model = _sequential(features, hidden, classes, head=None)
        model.add(keras.layers.Activation("linear", dtype="float32"))
        return model


def _with(name: Callable[[str], str] = str, restore: bool = True, **dtypes: Any) -> Callable:
    def build(policy: str, features: int, hidden: int, classes: int) -> Any:
        with _policy(name(policy), restore):
            return _sequential(features, hidden, classes, **dtypes)

    return build


def _logits(policy: str, features: int, hidden: int, classes: int) -> Any:
    import keras

    with _policy(policy):
        model = _sequential(features, hidden, classes)
        model.pop()
        model.add(keras.layers.Activation("linear", dtype="float32"))
        return model


classifier = Exercise(
    id="policies.classifier",
    inputs=_inputs,
    observer=built_under,
    right=_right,
    points={"mixed_float16": 2, "mixed_bfloat16": 1, "float32, while the global policy is mixed_float16": 1},
    also_right=(_float32_head, _subclassed),
    mistakes=(
        Mistake(
            _with(restore=False),
            "The dtypes are right, but the global policy stays changed: whoever makes a model after yours gets it too. "
            "Put the old one back, in a `finally`.",
        ),
        Mistake(
            _with(head=None),
            'The probabilities come out in 16 bits: the softmax needs dtype="float32" of its own.',
        ),
        Mistake(
            _cast_too_late,
            "The softmax itself still runs in 16 bits, and a cast afterwards brings nothing back: the rows do not add "
            "up to 1. Compute it in float32.",
        ),
        Mistake(
            _each_layer,
            "The layers are right, but the *model's* own policy is the global one, so `compile` puts loss scaling "
            "where it should not be, or none where it should. Make the model itself under the policy.",
        ),
        Mistake(
            _with(name=lambda policy: "float32"),
            "You do not use the policy that is asked for: everything is float32.",
        ),
        Mistake(
            _with(name=lambda policy: policy.removeprefix("mixed_")),
            "You left the mixed_ away: now even the weights are 16 bits, and small updates are lost.",
        ),
        Mistake(
            _with(norm="float32"),
            "You put LayerNormalization into float32 by hand. It computes its statistics in float32 anyway; that "
            "costs casts and memory and gains nothing. Let it follow the policy.",
        ),
        Mistake(
            _logits,
            "Your model returns logits; probabilities are asked for.",
        ),
    ),
    hints=(
        "Keep the old policy (keras.config.dtype_policy()), set the new one, build inside `try`, and put the old one "
        "back in `finally`.",
        'Only the softmax says something of its own: keras.layers.Activation("softmax", dtype="float32"), '
        "or the whole last Dense with dtype='float32'.",
        "The model must be made before the policy is put back: it reads the policy as well, and `compile` looks at it.",
    ),
    rtol=0,
    atol=0.02,
    trains=True,
    asks_for=("ampcourse.models.density.classifier_model", "ampcourse.training.parts.build_model"),
    insight="Everything follows the policy, except what leaves the model. And a function that changes something for "
    "the whole process puts it back, even if it fails half-way.",
)
