"""Exercise 3: round to the nearest float16, ties to even, with underflow and overflow."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.numerics import FLOAT16

LARGEST, LEAST_NORMAL, LEAST_SUBNORMAL = FLOAT16.largest, FLOAT16.least_normal, FLOAT16.least_subnormal


def _inputs(rng: np.random.Generator) -> Inputs:
    """Every value has at most 22 significant bits, so that a detour over float32 is exact, and right."""

    def signed(x: np.ndarray) -> np.ndarray:
        return rng.permutation(x * rng.choice([-1.0, 1.0], x.size))

    # in units of the gap; an odd number of 1/1024 can be neither a float16 value nor a tie
    off = (2 * rng.integers(0, 512, 96) + 1) / 1024
    near = (rng.integers(1024, 2047, 32) + off[:32]) * 2.0 ** rng.integers(-23, 5, 32)
    ties = (rng.integers(1024, 2047, 24) + 0.5) * 2.0 ** rng.integers(-24, 5, 24)
    small = np.r_[rng.integers(0, 4, 12), rng.integers(4, 1023, 12)] + off[32:56]
    # 65,504 is the largest value and 65,520 halfway to what would be the next: from there on it overflows
    edge = np.r_[65488 + rng.integers(1, 64, 10) / 2, 65520, 65520 + rng.integers(1, 2**18, 9) / 4]
    return {
        "between two neighbours": (signed(near),),
        "ties": (signed(ties),),
        "down among the subnormals": (signed(small * LEAST_SUBNORMAL),),
        "near the upper end": (signed(edge),),
    }


def _rounded(
    x: np.ndarray,
    to_integer: Callable = np.rint,
    bits: int = 10,
    floor: float = LEAST_NORMAL,
    largest: float = 65520.0,
    beyond: float = np.inf,
) -> np.ndarray:
    """A multiple of the gap; each argument is a step that people get wrong."""
    gap = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(x), floor))) - bits)
    return np.where(np.abs(x) >= largest, np.sign(x) * beyond, to_integer(x / gap) * gap)


def _half_away(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def _one_by_one(x: np.ndarray) -> list[float]:
    def nearest(value: float) -> float:
        try:
            return struct.unpack("<e", struct.pack("<e", value))[0]
        except OverflowError:
            return np.copysign(np.inf, value)

    return [nearest(value) for value in x]


def _cast(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def _cast_in_tensorflow(x: np.ndarray) -> np.ndarray:
    import tensorflow as tf

    return tf.cast(tf.constant(x), tf.float16)


to_float16 = Exercise(
    id="fp16_range.to_float16",
    inputs=_inputs,
    right=FLOAT16.round,
    points={
        "between two neighbours": 1,
        "ties": 1,
        "down among the subnormals": 1,
        "near the upper end": 1,
    },
    also_right=(_rounded, _cast, _one_by_one, _cast_in_tensorflow),
    mistakes=(
        Mistake(
            lambda x: _rounded(x, lambda gaps: np.floor(gaps + 0.5)),
            "You round every tie up. Halfway between two neighbours the even one is taken: np.rint does that.",
        ),
        Mistake(
            lambda x: _rounded(x, lambda gaps: np.ceil(gaps - 0.5)),
            "You round every tie down. Halfway between two neighbours the even one is taken: np.rint does that.",
        ),
        Mistake(
            lambda x: _rounded(x, np.trunc),
            "You cut off what does not fit, toward zero. Rounding goes to the nearest of the two neighbours.",
        ),
        Mistake(
            lambda x: _rounded(x, np.floor),
            "You always take the lower neighbour. Rounding goes to the nearest of the two.",
        ),
        Mistake(
            lambda x: _rounded(x, _half_away),
            "Ties go the wrong way: halfway between two neighbours, the even one is taken, not the one further from "
            "zero. np.rint rounds ties to even.",
        ),
        Mistake(
            lambda x: np.rint(x / FLOAT16.epsilon) * FLOAT16.epsilon,
            "You round everything to multiples of 2**-10. That gap is right between 1 and 2 only: "
            "divide by the gap at x.",
        ),
        Mistake(
            lambda x: _rounded(x, bits=11),
            "You keep one bit too many: 12 significand bits. float16 has 11, of which 10 are stored.",
        ),
        Mistake(
            lambda x: _rounded(x, bits=9),
            "You keep one bit too few: 10 significand bits. The 10 stored bits come after a leading 1, "
            "so there are 11 in all.",
        ),
        Mistake(
            lambda x: _rounded(x, largest=LARGEST + 1e-9, beyond=LARGEST),
            "You stop at 65504 where float16 overflows: by IEEE 754 the result is infinite from 65520 on.",
        ),
        Mistake(
            lambda x: _rounded(x, largest=LARGEST + 1e-9),
            "You overflow too early. Between 65504 and 65520 the nearest float16 value is still 65504; "
            "only from 65520 on is it infinity.",
        ),
        Mistake(
            lambda x: _rounded(x, largest=np.nextafter(65520.0, np.inf)),
            "At 65520 itself you return a number that float16 does not have. It is a tie, and the even neighbour is "
            "beyond the largest value: infinity from 65520 on, not above it.",
        ),
        Mistake(
            lambda x: np.where(x >= 65520, np.inf, _rounded(x, largest=np.inf)),
            "Too large in magnitude is too large on the negative side, too: compare np.abs(x), and give the infinity "
            "the sign of x.",
        ),
        Mistake(
            lambda x: np.where(np.abs(x) >= 65520, np.inf, _rounded(x)),
            "Your infinity is always positive. It has the sign of x: np.sign(x) * np.inf.",
        ),
        Mistake(
            lambda x: _rounded(x, largest=np.inf),
            "You return values beyond 65504. float16 has none: from 65520 on the result is infinite.",
        ),
        Mistake(
            lambda x: np.where(np.abs(x) < LEAST_NORMAL, 0.0, _rounded(x)),
            "You flush everything below 2**-14 to zero. There lie the subnormals, multiples of 2**-24.",
        ),
        Mistake(
            lambda x: _rounded(x, floor=1e-300),
            "Too precise below 2**-14: there the gap stays 2**-24, so fewer and fewer significant bits are left.",
        ),
    ),
    hints=(
        "Between two powers of two, the float16 values are the whole multiples of the gap.",
        "Divide x by the gap at x (your ulp), round to a whole number, multiply by the gap. "
        "np.rint rounds ties to even.",
        "Last, where the result is 65536 or more in magnitude there is no such float16: "
        "np.where(np.abs(r) >= 65536, np.sign(x) * np.inf, r).",
    ),
    asks_for=(
        "ampcourse.numerics.Format.round",
        "ampcourse.numerics.FLOAT16.round",
        "ampcourse.numerics.Format.encode",
        "ampcourse.numerics.codes.Codec.encode",
        "ampcourse.numerics.codes.Codec.round",
    ),
    forbids=("float16",),
    insight="Rounding is one idea, the nearest multiple of the gap. Underflow and overflow come out of it: below "
    "2**-25 the nearest multiple is 0, and from 65520 on the nearest multiple is a number that float16 does not have.",
)
