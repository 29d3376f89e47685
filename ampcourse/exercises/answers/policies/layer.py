"""Exercise 5: a custom layer that is right under every policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.policies import layer_under


def _inputs(rng: np.random.Generator) -> Inputs:
    """Ordinary rows, one whose squares leave float16, one whose squares vanish there, and one of zeros."""

    def question(policy: str) -> tuple:
        features = int(rng.integers(5, 9))
        sizes = np.array([1.0, rng.uniform(500, 3000), rng.uniform(1e-4, 2e-4), 0.0])
        x = rng.normal(0, 1, (4, features)) * sizes[:, None]
        return policy, float(rng.uniform(1, 3) * 1e-9), rng.uniform(0.5, 1.5, features).astype(np.float32), x

    policies = ("float32", "mixed_float16", "mixed_bfloat16", "float16", "float64")
    return {policy: question(policy) for policy in policies}


def _made(
    wide: Callable[[Any], str] | None = None,
    back: Callable[[Any], str] = lambda layer: layer.compute_dtype,
    variable: str | None = None,
    constant: Callable[[Any], str] | None = None,
    total: bool = False,
    gain: bool = True,
    swallows: bool = False,
    outside: bool = False,
) -> Callable:
    """The layer, with each of its parts open to a mistake.

    Args:
        wide: the dtype to reduce in, from the layer.
        back: the dtype of the result.
        variable: a dtype nailed down for the gain.
        constant: the dtype in which epsilon is kept.
        total: add up instead of averaging.
        gain: whether the gain is used.
        swallows: whether the options are lost, the dtype among them.
        outside: add epsilon outside of the root.
    """
    wide = wide or _at_least_float32
    constant = constant or wide

    def make(epsilon: float = 1e-6, **options: Any) -> Any:
        import keras

        class RmsNorm(keras.layers.Layer):
            def __init__(self) -> None:
                super().__init__(**({} if swallows else options))

            def build(self, shape: tuple) -> None:
                self.gain = self.add_weight(shape=shape[-1:], initializer="ones", name="gain", dtype=variable)

            def call(self, x: Any) -> Any:
                ops = keras.ops
                w = ops.cast(x, wide(self))
                e = ops.cast(ops.convert_to_tensor(epsilon, constant(self)), wide(self))
                square = (ops.sum if total else ops.mean)(ops.square(w), axis=-1, keepdims=True)
                w = w / (ops.sqrt(square) + e) if outside else w / ops.sqrt(square + e)
                return ops.cast(w, back(self)) * (ops.cast(self.gain, back(self)) if gain else 1)

        return RmsNorm()

    return make


def _at_least_float32(layer: Any) -> str:
    import keras

    return keras.backend.result_type(layer.compute_dtype, "float32")


def _in_tensorflow(epsilon: float = 1e-6, **options: Any) -> Any:
    import keras
    import tensorflow as tf

    class RmsNorm(keras.layers.Layer):
        def build(self, shape: tuple) -> None:
            self.gain = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x: Any) -> Any:
            wide = tf.float64 if self.compute_dtype == "float64" else tf.float32
            y = tf.cast(x, wide)
            y *= tf.math.rsqrt(tf.reduce_mean(y * y, axis=-1, keepdims=True) + epsilon)
            return tf.cast(y * tf.cast(self.gain, wide), self.compute_dtype)

    return RmsNorm(**options)


def _scaled_first(epsilon: float = 1e-6, **options: Any) -> Any:
    """Divide by the largest value before squaring, in float64 throughout."""
    import keras

    class RmsNorm(keras.layers.Layer):
        def build(self, shape: tuple) -> None:
            self.gain = self.add_weight(shape=shape[-1:], initializer="ones")

        def call(self, x: Any) -> Any:
            w = keras.ops.cast(x, "float64")
            m = keras.ops.maximum(keras.ops.max(keras.ops.abs(w), axis=-1, keepdims=True), 1e-30)
            root = m * keras.ops.sqrt(keras.ops.mean(keras.ops.square(w / m), -1, keepdims=True) + epsilon / m / m)
            return keras.ops.cast(w / root * keras.ops.cast(self.gain, "float64"), self.compute_dtype)

    return RmsNorm(**options)


safe_layer = Exercise(
    id="policies.safe_layer",
    inputs=_inputs,
    observer=layer_under,
    right=_made(),
    points={"float32": 1, "mixed_float16": 2, "mixed_bfloat16": 1, "float16": 1, "float64": 1},
    also_right=(_in_tensorflow, _scaled_first),
    mistakes=(
        Mistake(
            _made(wide=lambda layer: layer.compute_dtype),
            "You square and average in the compute dtype. In float16 squares of values above 256 overflow, those below "
            "2**-12.5 vanish, and so does your epsilon. Cast to float32 first.",
        ),
        Mistake(
            _made(back=_at_least_float32),
            "You never cast back: your layer answers in float32 and silently moves all that follows out of float16. "
            "Return self.compute_dtype.",
        ),
        Mistake(
            _made(wide=lambda layer: "float32"),
            "You nailed float32 down. Under float64 half of the digits are lost; "
            'keras.backend.result_type(self.compute_dtype, "float32") is never narrower than either.',
        ),
        Mistake(
            _made(back=lambda layer: "float16"),
            "You nailed float16 down for the result. Under other policies it has to be something else: "
            "self.compute_dtype.",
        ),
        Mistake(
            _made(variable="float32"),
            "You nailed the gain's dtype down. add_weight without a dtype takes the policy's variable dtype, which is "
            "float64 or float16 under those policies.",
        ),
        Mistake(
            _made(constant=lambda layer: layer.compute_dtype),
            "Your epsilon is rounded to the compute dtype, and in float16 it becomes 0: a row of zeros is then "
            "0 / 0. Add it in float32.",
        ),
        Mistake(
            _made(swallows=True),
            "Your layer does not pass its options on, so it never hears of the dtype: super().__init__(**options).",
        ),
        Mistake(
            _made(total=True),
            "You add the squares up; their mean is asked for.",
        ),
        Mistake(
            _made(gain=False),
            "The gain has no effect on your result.",
        ),
        Mistake(
            _made(outside=True),
            "You add epsilon after the root. It belongs under it: sqrt(mean + epsilon).",
        ),
    ),
    hints=(
        "build: self.gain = self.add_weight(shape=(shape[-1],), initializer='ones'), without a dtype.",
        "call: wide = keras.backend.result_type(self.compute_dtype, 'float32'), then keras.ops.cast(x, wide), "
        "square, mean over the last axis with keepdims=True, add epsilon, root.",
        "Cast to self.compute_dtype before you multiply by self.gain, or cast the gain to float32 and the product "
        "back at the end.",
    ),
    atol=0.03,
    trains=True,  # it does not train, but making a layer under five policies takes as long
    insight="Four habits make a layer safe: options handed on, weights without a dtype, sums and small constants in at "
    "least float32, and the result in self.compute_dtype.",
)
