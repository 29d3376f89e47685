"""Exercises 1 and 2: from a bit pattern to its value, and the gap from a value to the next."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.numerics import FLOAT16

LEAST_NORMAL = FLOAT16.least_normal  # 2**-14


def _patterns(rng: np.random.Generator, exponents: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    # int64, not uint16: in uint16 a learner's own `exponent - 15` would wrap around, which is not the question
    return rng.integers(0, 2, exponents.size) << 15 | exponents << 10 | fractions


def _decode_inputs(rng: np.random.Generator) -> Inputs:
    normal = _patterns(rng, rng.integers(1, 31, 24), rng.integers(0, 1024, 24))
    small = _patterns(rng, np.zeros(16, int), np.r_[rng.integers(1, 1024, 14), 0, 0])
    special = _patterns(rng, np.full(16, 31), np.where(rng.random(16) < 0.5, 0, rng.integers(1, 1024, 16)))
    special[0] |= 1  # at least one NaN
    return {
        "normal numbers": (normal,),
        "zeros and subnormals": (rng.permutation(small),),
        "infinities and NaN": (rng.permutation(special),),
    }


def _decoded(
    bits: np.ndarray,
    bias: int = 15,
    steps: float = 1024.0,
    hidden: float = 1.0,
    subnormal: Callable = lambda fraction: fraction * 2.0**-24,
    special: Callable = lambda fraction, number: np.where(fraction == 0, np.inf, np.nan),
    signed: bool = True,
    mask: int = 31,
) -> np.ndarray:
    """The rules of IEEE 754-2019, section 3.4; each argument is a rule that people get wrong."""
    exponent, fraction = bits >> 10 & mask, bits & 1023
    number = 2.0 ** (exponent - bias) * (hidden + fraction / steps)
    value = np.where(exponent == 31, special(fraction, number), number)
    value = np.where(exponent == 0, subnormal(fraction), value)
    return np.where(signed & (bits >> 15 == 1), -value, value)


def _decode_one_by_one(bits: np.ndarray) -> list[float]:
    return [struct.unpack("<e", int(pattern).to_bytes(2, "little"))[0] for pattern in bits]


def _decode_by_rules(bits: np.ndarray) -> list[float]:
    values = []
    for pattern in map(int, bits):
        exponent, fraction = divmod(pattern % 2**15, 1024)
        if exponent == 31:
            value = math.nan if fraction else math.inf
        else:
            value = math.ldexp(fraction + 1024 * (exponent > 0), max(exponent, 1) - 25)
        values.append(-value if pattern >= 2**15 else value)
    return values


def _decode_in_tensorflow(bits: np.ndarray) -> np.ndarray:
    import tensorflow as tf

    return tf.bitcast(tf.cast(bits, tf.uint16), tf.float16)


decode = Exercise(
    id="fp16_range.decode",
    inputs=_decode_inputs,
    right=FLOAT16.decode,
    points={"normal numbers": 1, "zeros and subnormals": 1, "infinities and NaN": 1},
    also_right=(
        _decoded,
        lambda bits: bits.astype(np.uint16).view(np.float16),
        _decode_one_by_one,
        _decode_by_rules,
        _decode_in_tensorflow,
    ),
    mistakes=(
        Mistake(
            lambda bits: _decoded(bits, hidden=0.0),
            "The leading 1 is missing. A normal number's significand is 1 + fraction/1024: "
            "the 1 is not stored, but it counts.",
        ),
        Mistake(
            lambda bits: _decoded(
                bits, subnormal=lambda f: 2.0**-15 * (1 + f / 1024), special=lambda f, number: number
            ),
            "You use the rule for normal numbers everywhere. The exponent fields 0 (zeros and subnormals) and "
            "31 (infinities and NaN) each have a rule of their own.",
        ),
        Mistake(
            lambda bits: _decoded(bits, special=lambda f, number: number),
            "Exponent field 31 is not one more binade: there, fraction 0 means infinity and any other fraction NaN.",
        ),
        Mistake(
            lambda bits: _decoded(bits, subnormal=lambda f: 2.0**-15 * (1 + f / 1024)),
            "With exponent field 0 the leading 1 is gone: the value is 2**-14 * fraction/1024, so fraction 0 is zero.",
        ),
        Mistake(
            lambda bits: _decoded(bits, subnormal=lambda f: 2.0**-15 * f / 1024),
            "Your subnormals are half of what they should be. Exponent field 0 has the exponent -14, the same as "
            "field 1, not -15.",
        ),
        Mistake(
            lambda bits: _decoded(bits, subnormal=lambda f: 0.0 * f),
            "You turn every subnormal into zero. Exponent field 0 with a fraction other than 0 is a small number: "
            "2**-14 * fraction/1024.",
        ),
        Mistake(
            lambda bits: _decoded(bits, special=lambda f, number: np.inf),
            "Exponent field 31 is infinity only if the fraction is 0; otherwise it is NaN.",
        ),
        Mistake(
            lambda bits: _decoded(bits, bias=16),
            "Your normal numbers are half of what they should be: the bias of a 5-bit exponent is 2**4 - 1 = 15.",
        ),
        Mistake(
            lambda bits: _decoded(bits, bias=0),
            "The bias is missing: exponent field 15 means 2**0, so subtract 15 from the field.",
        ),
        Mistake(
            lambda bits: _decoded(bits, steps=1023.0),
            "Divide the fraction by 1024, not 1023: its ten bits count steps of 1/1024, and the step after the last "
            "is the next power of two.",
        ),
        Mistake(
            lambda bits: _decoded(bits, mask=63),
            "Your exponent field still has the sign bit in front, so it comes out 32 too large for negative numbers: "
            "keep its five bits only, (bits >> 10) & 31.",
        ),
        Mistake(
            lambda bits: _decoded(bits, signed=False),
            "The sign is missing: the leftmost bit, worth 2**15 in the pattern, makes the value negative.",
        ),
    ),
    hints=(
        "Take the pattern apart first: sign = bits >> 15, exponent = (bits >> 10) & 31, fraction = bits & 1023.",
        "There are three rules: one for exponent fields 1 to 30, one for 0, one for 31. "
        "np.where can choose between them.",
        "Fields 1 to 30: 2.0**(exponent - 15) * (1 + fraction/1024). Field 0: 2.0**-14 * fraction/1024. "
        "Field 31: infinity if the fraction is 0, else NaN. Apply the sign last.",
    ),
    asks_for=(
        "ampcourse.numerics.Format.decode",
        "ampcourse.numerics.FLOAT16.decode",
        "ampcourse.numerics.Format.fields",
        "ampcourse.numerics.codes.Codec.decode",
    ),
    forbids=("float16", "view"),
    insight="Two of the 32 exponent fields are kept for special things: field 0 for zero and the subnormals, field 31 "
    "for infinity and NaN. All other patterns follow one rule.",
)


def _ulp_inputs(rng: np.random.Generator) -> Inputs:
    sign = rng.choice([-1.0, 1.0], 32)
    # values that float16 holds exactly: rounding is a later exercise
    normal = sign * rng.integers(1025, 2048, 32) * 2.0 ** rng.integers(-24, 6, 32)
    subnormal = rng.choice([-1.0, 1.0], 16) * rng.integers(1, 1024, 16) * FLOAT16.least_subnormal
    return {
        "normal numbers": (normal,),
        # mixed with normal ones: among subnormals alone the answer is a constant, and could be handed in as one
        "subnormals among others": (rng.permutation(np.r_[subnormal, normal[:16]]),),
        # positive: for negative ones numpy's own float16 spacing measures toward zero
        "exact powers of two": (2.0 ** rng.integers(-14, 16, 16),),
    }


def _gap(x: np.ndarray, to_integer: Callable = np.floor, floor: float = LEAST_NORMAL, bits: int = 10) -> np.ndarray:
    return 2.0 ** (to_integer(np.log2(np.maximum(np.abs(x), floor))) - bits)


def _toward_zero(x: np.ndarray) -> np.ndarray:
    stored = np.abs(x).astype(np.float16)
    return stored.astype(np.float64) - np.nextafter(stored, np.float16(0)).astype(np.float64)


def _ulp_in_tensorflow(x: np.ndarray) -> np.ndarray:
    import tensorflow as tf

    magnitude = tf.maximum(tf.abs(tf.constant(x, tf.float64)), LEAST_NORMAL)
    return 2.0 ** (tf.floor(tf.math.log(magnitude) / tf.math.log(tf.constant(2.0, tf.float64)) + 1e-9) - 10.0)


ulp = Exercise(
    id="fp16_range.ulp",
    inputs=_ulp_inputs,
    right=FLOAT16.ulp,
    points={"normal numbers": 2, "subnormals among others": 1, "exact powers of two": 1},
    also_right=(
        _gap,
        lambda x: np.spacing(x.astype(np.float16)),
        lambda x: [2.0 ** (max(math.frexp(v)[1] - 1, -14) - 10) for v in x],
        _ulp_in_tensorflow,
    ),
    mistakes=(
        Mistake(
            lambda x: np.full_like(x, FLOAT16.epsilon),
            "You return the machine epsilon for every x. That is the gap just above 1; "
            "the gap doubles at every power of two.",
        ),
        Mistake(
            lambda x: _gap(x, floor=0.0),
            "Right for normal numbers. Below 2**-14 the exponent stops falling: all subnormals share the gap 2**-24.",
        ),
        Mistake(
            lambda x: _gap(x, floor=LEAST_NORMAL / 2),
            "Right for normal numbers. Below them the exponent stays at -14, not -15: subnormals have the same gap as "
            "the lowest binade of normal numbers.",
        ),
        Mistake(
            lambda x: _gap(x, np.ceil),
            "One binade too high: 1.5 lies in the binade that starts at 2**0, not 2**1. Round log2 down, not up.",
        ),
        Mistake(
            lambda x: _gap(x, np.trunc),
            "Right from 1 up. Below 1, log2 is negative, and cutting off what is after the decimal point (int, astype, "
            "trunc) rounds it up, toward zero: use np.floor, which rounds down.",
        ),
        Mistake(
            lambda x: np.where(x > 0, _gap(x), np.nan),
            "Right for positive x. A negative number has no logarithm: take the magnitude first, np.abs(x).",
        ),
        Mistake(
            lambda x: np.log2(_gap(x)),
            "That is the exponent of the gap. The gap itself is 2.0 to that power.",
        ),
        Mistake(
            lambda x: _gap(x, np.round),
            "Take the binade in which x lies, not the nearest power of two: 1.5 belongs to 2**0, although log2(1.5) "
            "rounds to 1. Round log2 down.",
        ),
        Mistake(
            lambda x: _gap(x, bits=11),
            "Half of the right gap. That is the largest rounding error; the gap between neighbours is twice as wide.",
        ),
        Mistake(
            lambda x: np.abs(x) * FLOAT16.epsilon,
            "You multiply epsilon by x itself. The gap is a staircase: it stays the same from one power of two "
            "to the next.",
        ),
        Mistake(
            _toward_zero,
            "You measure toward zero. At an exact power of two the gap below is half of the gap above; "
            "the question is the gap away from zero.",
        ),
        Mistake(
            lambda x: np.sign(x) * _gap(x),
            "A gap is a distance, so it is positive for negative x too: take the magnitude of x first.",
        ),
        Mistake(
            lambda x: np.spacing(np.abs(x).astype(np.float32)),
            "That is the gap between float32 numbers, which have 23 fraction bits. float16 has 10.",
        ),
        Mistake(
            lambda x: np.spacing(np.abs(x)),
            "That is the gap between float64 numbers, which have 52 fraction bits. float16 has 10.",
        ),
    ),
    hints=(
        "Between 1 and 2 there are 1,024 gaps. How many between 2 and 4, and how wide is each?",
        "Write |x| as m * 2**e with 1 <= m < 2. Only e matters, and the gap is 2**(e - 10).",
        "np.floor(np.log2(np.abs(x))) gives e. It must not go below -14: np.maximum(e, -14). Then 2.0 ** (... - 10).",
    ),
    asks_for=(
        "ampcourse.numerics.Format.ulp",
        "ampcourse.numerics.FLOAT16.ulp",
        "ampcourse.numerics.Format.next_up",
        "ampcourse.numerics.Format.neighbours",
        "ampcourse.numerics.codes.Codec.next_up",
    ),
    forbids=("spacing", "nextafter"),
    insight="The gap depends on the binade only, and it never falls below 2**-24. Relative to x it stays between "
    "2**-11 and 2**-10 as long as x is normal; below 2**-14 it grows without limit.",
)
