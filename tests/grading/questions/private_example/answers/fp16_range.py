"""Lesson 01 for one class: bit patterns of a 16-bit format whose split of exponent and fraction is this class's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.private import variation

EXPONENT_BITS = int(variation("fp16_range.decode_ours").choice([3, 4, 6, 7]))  # float16 has 5, bfloat16 8
FRACTION_BITS = 15 - EXPONENT_BITS
BIAS = 2 ** (EXPONENT_BITS - 1) - 1
LAST = 2**EXPONENT_BITS - 1  # the exponent field of infinity and NaN
STEPS = 2**FRACTION_BITS


def _patterns(rng: np.random.Generator, exponents: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    return rng.integers(0, 2, exponents.size) << 15 | exponents << FRACTION_BITS | fractions


def _inputs(rng: np.random.Generator) -> Inputs:
    special = _patterns(rng, np.full(16, LAST), np.where(rng.random(16) < 0.5, 0, rng.integers(1, STEPS, 16)))
    special[0] |= 1  # at least one NaN
    return {
        "normal numbers": (_patterns(rng, rng.integers(1, LAST, 24), rng.integers(0, STEPS, 24)),),
        "zeros and subnormals": (_patterns(rng, np.zeros(16, int), np.r_[rng.integers(1, STEPS, 14), 0, 0]),),
        "infinities and NaN": (rng.permutation(special),),
    }


def _decoded(
    bits: np.ndarray,
    fraction_bits: int = FRACTION_BITS,
    bias: int = BIAS,
    hidden: float = 1.0,
    special: Callable = lambda fraction, number: np.where(fraction == 0, np.inf, np.nan),
    subnormal: Callable = lambda fraction: fraction / STEPS * 2.0 ** (1 - BIAS),
) -> np.ndarray:
    """Each argument is something that people get wrong."""
    last, steps = 2 ** (15 - fraction_bits) - 1, 2**fraction_bits
    exponent, fraction = bits >> fraction_bits & last, bits & steps - 1
    number = 2.0 ** (exponent - bias) * (hidden + fraction / steps)
    value = np.where(exponent == last, special(fraction, number), number)
    value = np.where(exponent == 0, subnormal(fraction), value)
    return np.where(bits >> 15 == 1, -value, value)


def _one_by_one(bits: np.ndarray) -> list[float]:
    values = []
    for pattern in map(int, bits):
        exponent, fraction = divmod(pattern % 2**15, STEPS)
        if exponent == LAST:
            value = float("nan") if fraction else float("inf")
        else:
            value = (fraction + STEPS * (exponent > 0)) * 2.0 ** (max(exponent, 1) - BIAS - FRACTION_BITS)
        values.append(-value if pattern >= 2**15 else value)
    return values


decode_ours = Exercise(
    id="fp16_range.decode_ours",
    inputs=_inputs,
    right=_decoded,
    points={"normal numbers": 1, "zeros and subnormals": 1, "infinities and NaN": 1},
    also_right=(_one_by_one, lambda bits: _decoded(bits).tolist()),
    mistakes=(
        Mistake(
            lambda bits: bits.astype(np.uint16).view(np.float16).astype(np.float64),
            f"That is float16, with 5 exponent bits. The format of this class has {EXPONENT_BITS}.",
        ),
        Mistake(
            lambda bits: _decoded(bits, bias=15),
            f"The bias is not float16's 15: with {EXPONENT_BITS} exponent bits it is {BIAS}.",
        ),
        Mistake(lambda bits: _decoded(bits, hidden=0.0), "The leading 1 of normal numbers is not stored, but counts."),
        Mistake(
            lambda bits: _decoded(bits, special=lambda fraction, number: number),
            f"Exponent field {LAST} is not one more binade: there, fraction 0 means infinity and any other NaN.",
        ),
    ),
    hints=("The rules are those of float16; only the widths of the two fields differ, and the bias with them.",),
    asks_for=("ampcourse.numerics.Format", "ampcourse.numerics.codes.Codec.decode"),
    insight="The rules never change, only the split: each bit given to the exponent squares the range and costs one "
    "bit of precision.",
)

EXERCISES = (decode_ours,)

TEXTS = {
    "decode-task": f"""
### Exercise 1: decode (3 points, about 8 minutes)

This class has a 16-bit format of its own: one sign bit, {EXPONENT_BITS} exponent bits and {FRACTION_BITS} fraction
bits. The bias is {BIAS}, and the three rules are those of float16.

Write `decode_ours(bits)`: from bit patterns to values. `>>`, `&` and `np.where` are all you need. It is judged when it
is graded; `check` does not know this class's format.
""",
    "decode": f'''
def decode_ours(bits):
    """Values of bit patterns with {EXPONENT_BITS} exponent bits and {FRACTION_BITS} fraction bits.

    bits: int64 array of shape (n,), each from 0 to 65535. Returns n values, in the same order.
    """
    ### BEGIN SOLUTION
    exponent, fraction = bits >> {FRACTION_BITS} & {LAST}, bits & {STEPS - 1}
    value = 2.0 ** (exponent - {BIAS}) * (1 + fraction / {STEPS})
    value = np.where(exponent == {LAST}, np.where(fraction == 0, np.inf, np.nan), value)
    value = np.where(exponent == 0, 2.0 ** {1 - BIAS} * fraction / {STEPS}, value)
    return np.where(bits >> 15 == 1, -value, value)
    ### END SOLUTION
''',
    "decode-check": 'check("fp16_range.decode_ours", decode_ours)',
}
