"""Exercises 2 and 3: choose a static loss scale, and take it off again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each
from ampcourse.numerics import FLOAT16

LARGEST = FLOAT16.largest


def _scale_inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (list of gradients, headroom). The largest magnitude is negative about every other time."""

    def tensors(largest: float) -> list[np.ndarray]:
        spread = [np.exp2(rng.uniform(-12, -1, size)) * rng.choice([-1, 1], size) for size in rng.integers(3, 7, 3)]
        arrays = [(largest * values).astype(np.float32) for values in spread]
        arrays[rng.integers(1, 3)][rng.integers(3)] = np.float32(largest * rng.choice([-1, 1]))
        return arrays

    def near(low: float, high: float) -> float:
        """A largest gradient whose product with some power of two lies between low and high times 65504."""
        return float(LARGEST * rng.uniform(low, high) * 2.0 ** -rng.integers(16, 40))

    plain = [(tensors(near(0.55, 0.95)), 1.0) for _ in range(10)]
    room = [(tensors(near(0.55, 0.95)), float(2.0 ** rng.integers(1, 6))) for _ in range(10)]
    edge = [(tensors(near(1.0001, 1.0004)), 1.0) for _ in range(8)]
    large = [(tensors(float(np.exp2(rng.uniform(16.1, 30)))), 1.0) for _ in range(8)]
    return {
        "no headroom": (plain,),
        "with headroom": (room,),
        "just above a power of two times 65504": (edge,),
        "gradients that are too large": (large,),
    }


def _largest(gradients: list[np.ndarray]) -> float:
    return max(float(np.abs(g).max()) for g in gradients)


def _scale(
    size: Callable[[list[np.ndarray]], float] = _largest,
    limit: float = LARGEST,
    whole: Callable[[float], float] = math.floor,
    room: Callable[[float], float] = lambda headroom: headroom,
) -> Callable[[list[np.ndarray], float], float]:
    return lambda gradients, headroom: 2.0 ** whole(math.log2(limit / (size(gradients) * room(headroom))))


def _by_doubling(gradients: list[np.ndarray], headroom: float) -> float:
    scale, needed = 2.0**-60, _largest(gradients) * headroom
    while scale * 2 * needed <= 65504:
        scale *= 2
    return scale


def _in_numpy(gradients: list[np.ndarray], headroom: float) -> np.ndarray:
    biggest = np.abs(np.concatenate(gradients).astype(np.float64)).max()
    return np.exp2(np.floor(np.log2(65504 / biggest / headroom)))


def _by_exponents(gradients: list[np.ndarray], headroom: float) -> float:
    return math.ldexp(0.5, math.frexp(LARGEST / (_largest(gradients) * headroom))[1])


largest_scale = Exercise(
    id="loss_scaling.largest_scale",
    inputs=_scale_inputs,
    observer=each,
    right=_scale(),
    points={
        "no headroom": 1,
        "with headroom": 1,
        "just above a power of two times 65504": 1,
        "gradients that are too large": 1,
    },
    also_right=(_by_doubling, _in_numpy, _by_exponents),
    mistakes=(
        Mistake(
            _scale(size=lambda gs: max(float(g.max()) for g in gs)),
            "You take the largest value, not the largest magnitude. A large negative gradient overflows too, "
            "to minus infinity.",
        ),
        Mistake(
            _scale(size=lambda gs: float(np.abs(gs[0]).max())),
            "You look at the first tensor only. One scale serves all of them, so the largest of all decides.",
        ),
        Mistake(
            _scale(whole=math.ceil),
            "You round the exponent up, so that the largest gradient overflows. Round it down with floor: int() rounds "
            "negative exponents up.",
        ),
        Mistake(
            lambda gs, headroom: LARGEST / (_largest(gs) * headroom),
            "That is the right limit, but not a power of two. Powers of two change only the exponent, "
            "so scaling by them rounds nothing.",
        ),
        Mistake(
            _scale(limit=2.0**16),
            "You take 2**16 as the limit. float16 ends at 65504, and 65520 already rounds to infinity: just above "
            "a power of two times 65504 your scale is twice too large.",
        ),
        Mistake(
            _scale(room=lambda headroom: 1.0),
            "You leave out the headroom. Tomorrow's gradients may be larger: the largest of today, times headroom, "
            "has to fit.",
        ),
        Mistake(
            _scale(room=lambda headroom: 1 / headroom),
            "The headroom makes your scale larger. It has to make it smaller: gradients may become larger by that "
            "factor and must still fit.",
        ),
        Mistake(
            lambda gs, headroom: max(1.0, _scale()(gs, headroom)),
            "Your scale never falls below 1. Gradients above 65504 need a scale below 1: nothing forbids that.",
        ),
        Mistake(
            lambda gs, headroom: max(0.5, _scale()(gs, headroom)),
            "You seem to search upwards from 1. Gradients above 65504 need a scale far below: search downwards too, "
            "or use log2.",
        ),
        Mistake(
            _scale(size=lambda gs: float(np.median(np.abs(np.concatenate(gs))))),
            "You use a typical gradient. The largest one overflows first, and a single infinity spoils the step.",
        ),
        Mistake(
            lambda gs, headroom: 2.0**15,
            "You return Keras's starting value, whatever the gradients are. Compute the scale from them.",
        ),
    ),
    hints=(
        "Which single gradient overflows first?",
        "scale * headroom * largest <= 65504. Solve for the scale, then go down to the next power of two.",
        "2.0 ** np.floor(np.log2(65504 / (largest * headroom))), where largest is the largest of abs(g) over all g.",
    ),
    rtol=1e-9,
    asks_for=("ampcourse.numerics.fate_by_scale", "ampcourse.numerics.fate"),
    insight="With a static scale, choose as high as the largest gradient allows, less some headroom: a power of two "
    "costs no rounding, and a higher scale lifts more small gradients out of the subnormals.",
)


def _unscale_inputs(rng: np.random.Generator) -> Inputs:
    def scaled(low: float, high: float) -> np.ndarray:
        return (np.exp2(rng.uniform(low, high, 64)) * rng.choice([-1.0, 1.0], 64)).astype(np.float16)

    broken = scaled(-8, 10)
    broken[rng.choice(64, 3, replace=False)] = [np.inf, -np.inf, np.nan]
    return {
        "a usual scale": (scaled(-10, 4), float(2.0 ** rng.integers(13, 17))),
        "a scale that float16 does not hold": (scaled(-8, 10), float(2.0 ** rng.integers(18, 30))),
        "with infinity and NaN": (broken, float(2.0 ** rng.integers(13, 16))),
    }


def _unscale(g: np.ndarray, scale: float) -> np.ndarray:
    return g.astype(np.float32) / np.float32(scale)


def _all_in_float16(g: np.ndarray, scale: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        return g / np.float16(scale)


def _in_float16(g: np.ndarray, scale: float) -> np.ndarray:
    return _all_in_float16(g, scale).astype(np.float32)


def _without_broken(g: np.ndarray, scale: float) -> np.ndarray:
    return np.nan_to_num(_unscale(g, scale), nan=0.0, posinf=0.0, neginf=0.0)


def _in_tensorflow(g: np.ndarray, scale: float) -> Any:
    import tensorflow as tf

    return tf.cast(tf.constant(g), tf.float32) / scale


unscale = Exercise(
    id="loss_scaling.unscale",
    inputs=_unscale_inputs,
    right=_unscale,
    points={"a usual scale": 1, "a scale that float16 does not hold": 1, "with infinity and NaN": 1},
    also_right=(
        lambda g, s: np.multiply(g, np.float32(1 / s), dtype=np.float32),
        lambda g, s: np.ldexp(g.astype(np.float32), -int(np.log2(s))),
        lambda g, s: (g.astype(np.float64) / s).astype(np.float32),
        _in_tensorflow,
    ),
    mistakes=(
        Mistake(
            _in_float16,
            "You divide in float16 and cast afterwards, so what the scale had saved is flushed again (and a scale "
            "above 65504 is infinite there). Cast to float32 first, then divide.",
        ),
        Mistake(
            _all_in_float16,
            "Your result is float16, so what the scale had saved is flushed again. float16 divided by a Python "
            "float stays float16: cast to float32 before you divide.",
        ),
        Mistake(
            lambda g, s: g.astype(np.float32),
            "You cast but do not divide: the update would be too large by the loss scale.",
        ),
        Mistake(
            lambda g, s: g.astype(np.float32) * np.float32(s),
            "You multiply by the scale once more. Backpropagation has already done that: divide.",
        ),
        Mistake(
            lambda g, s: _unscale(g, s).astype(np.float16),
            "Right until you cast the result back to float16: there the small gradients are flushed again. "
            "Return float32.",
        ),
        Mistake(
            lambda g, s: g.astype(np.float64) / s,
            "Right values, but in float64. The optimizer and its weights are float32.",
        ),
        Mistake(
            _without_broken,
            "You replace infinity and NaN by 0. They are the only sign that the scale was too high: "
            "leave them, so that the step can be skipped.",
        ),
    ),
    hints=(
        "In which format does 2**-10 / 2**15 survive?",
        "Two operations: a cast and a division. Only one order works.",
        "gradients.astype(np.float32) / np.float32(scale)",
    ),
    dtype="float32",
    asks_for=("ampcourse.models.density.gradients",),
    insight="Unscaling is the first thing done to gradients, in float32: clipping, weight decay and the optimizer all "
    "expect true sizes. Infinity divided by the scale is still infinity, so nothing is hidden.",
)
