"""Exercise 2: find the first place where a value is not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.nan_clinic import search_layers

Layers = list[tuple[str, Callable]]
NAMES = ("stem", "mix", "pool", "gate", "norm", "proj", "head", "embed", "bridge", "merge")


def _inputs(rng: np.random.Generator) -> Inputs:
    """Recipes of float16 layers. Harmless ones stand around the one that breaks, and some hide it again."""

    def harmless(count: int) -> list[tuple[str, float]]:
        few = [("times", float(rng.uniform(0.5, 1.5))), ("plus", float(rng.uniform(-0.4, 0.4))), ("relu", 0.0)]
        return [few[i] for i in rng.integers(0, 3, count)]

    def named(operations: list[tuple[str, float]]) -> list[tuple[str, str, float]]:
        names = rng.permutation(NAMES)[: len(operations)]
        return [(str(name), op, float(c)) for name, (op, c) in zip(names, operations, strict=True)]

    def x(size: float = 1.0, empty: bool = False) -> np.ndarray:
        values = (rng.uniform(0.5, 1, (4, 5)) * size).astype(np.float32)
        values[int(rng.integers(4))] *= 0 if empty else 1
        return values

    def among(*broken: tuple[str, float]) -> list:
        return named([*harmless(int(rng.integers(0, 3))), *broken, *harmless(int(rng.integers(0, 3)))])

    def overflow() -> list:  # infinity first, and NaN only in the layer after it
        return named([*harmless(int(rng.integers(0, 2))), ("times", 6e4), ("times", 300.0), ("times", 0.0)])

    def bad(value: float) -> np.ndarray:
        values = x()
        values[int(rng.integers(4)), int(rng.integers(5))] = value
        return values

    shares = [(named([("shares", 1e-8), *harmless(int(rng.integers(1, 4)))]), x(empty=True)) for _ in range(2)]
    hidden = [
        (named([("times", 6e4), ("square", 0.0), (cure, 5.0), *harmless(int(rng.integers(0, 3)))]), x())
        for cure in ("tanh", "clip")
    ]
    well = (among(("tanh", 0.0)), x())
    cases = {
        "a layer is to blame": [*shares, (overflow(), x()), (overflow(), x()), well],
        "infinity that is hidden again": [
            *hidden,
            (named([("times", 6e4), ("times", 200.0), ("tanh", 0.0)]), x()),
            well,
        ],
        "data, or its cast": [
            (among(("tanh", 0.0)), bad(np.nan)),
            (among(("tanh", 0.0)), bad(-np.inf)),
            (among(("tanh", 0.0)), bad(float(rng.uniform(7e4, 9e5)))),
            (among(("tanh", 0.0)), bad(float(rng.uniform(-9e5, -7e4)))),
            well,
        ],
    }
    return {name: ([rows[i] for i in rng.permutation(len(rows))],) for name, rows in cases.items()}


def _finite(values: Any) -> bool:
    return bool(np.isfinite(values).all())


def _half(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def _search(
    fine: Callable[[Any], bool] = _finite,
    look_at_data: bool = True,
    look_at_cast: bool = True,
    backwards: bool = False,
) -> Callable[[Layers, np.ndarray], str]:
    """The walk through the layers, each part open to a mistake."""

    def first_sick(layers: Layers, x: np.ndarray) -> str:
        if look_at_data and not fine(x):
            return "data"
        x = _half(x)
        if look_at_cast and not fine(x):
            return "input"
        sick = []
        for name, layer in layers:
            x = layer(x)
            if not fine(x):
                sick.append(name)
        return (sick[-1] if backwards else sick[0]) if sick else ""

    return first_sick


def _one_loop(layers: Layers, x: np.ndarray) -> str:
    steps = [("data", lambda v: v), ("input", lambda v: v.astype(np.float16)), *layers]
    with np.errstate(all="ignore"):
        for name, step in steps:
            x = step(x)
            if np.isnan(x).any() or np.isinf(x).any():
                return name
    return ""


def _in_tensorflow(layers: Layers, x: np.ndarray) -> str:
    import tensorflow as tf

    places, value = [("data", x), ("input", tf.cast(x, tf.float16))], tf.cast(x, tf.float16).numpy()
    for name, layer in layers:
        value = layer(value)
        places.append((name, value))
    sick = [name for name, v in places if not tf.reduce_all(tf.math.is_finite(v))]
    return next(iter(sick), "")


def _end_first(layers: Layers, x: np.ndarray) -> str:
    value = _half(x)
    for _, layer in layers:
        value = layer(value)
    return _search()(layers, x) if not _finite(value) else ""


first_sick = Exercise(
    id="nan_clinic.first_sick",
    inputs=_inputs,
    observer=search_layers,
    right=_search(),
    points={"a layer is to blame": 2, "infinity that is hidden again": 1, "data, or its cast": 1},
    also_right=(_one_loop, _in_tensorflow),
    mistakes=(
        Mistake(
            _search(fine=lambda x: not np.isnan(x).any()),
            "An infinity goes unseen. Overflow gives infinity first; NaN comes layers later, and points at an innocent "
            "one, or infinity is hidden again. Ask np.isfinite, after every layer.",
        ),
        Mistake(
            _search(fine=lambda x: not np.isinf(x).any()),
            "You look for infinity only, and so miss NaN. Ask np.isfinite.",
        ),
        Mistake(
            _search(fine=lambda x: bool(np.isfinite(x).any())),
            "You call values well as soon as one of them is finite. A single NaN is enough to be sick: all() and not "
            "any().",
        ),
        Mistake(
            _search(backwards=True),
            "You name the last sick layer. Once there, NaN goes on to all that follow: the *first* one is to blame.",
        ),
        Mistake(
            _search(look_at_data=False),
            "You do not look at the batch itself. If it holds NaN or infinity before anything is cast, no layer and no "
            "dtype is to blame: 'data'.",
        ),
        Mistake(
            _search(look_at_cast=False),
            "You do not look at the cast to float16, and so blame the first layer for numbers that were infinite when "
            "it got them: 'input'.",
        ),
        Mistake(
            _search(look_at_data=False, look_at_cast=False),
            "You begin with the first layer's output. Look at the batch first, then at its cast to float16, then at "
            "each layer.",
        ),
        Mistake(
            _end_first,
            "You search only if the last output is not finite. tanh, clipping or softmax turn infinity into an "
            "ordinary number: look after every layer.",
        ),
    ),
    hints=(
        "Walk forward, and stop at the first place whose values are not all finite.",
        "The places in order: x itself ('data'); x.astype(np.float16) ('input'); then the output of each layer.",
        "np.isfinite(values).all() is False for NaN and for both infinities.",
    ),
    asks_for=("ampcourse.clinic.first_sick",),
    insight="The first place where something is not finite is the diagnosis; everything behind it is only ill with it. "
    "`tf.debugging.enable_check_numerics` does the same walk in TensorFlow, and names the operation.",
)
