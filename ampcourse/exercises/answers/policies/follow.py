"""Exercise 1: which dtypes occur on the way through a stack of layers?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Stack = list[tuple[str, str]]
Dtypes = list[tuple[str, str, str]]
MIXED = ("mixed_float16", "mixed_bfloat16")
PLAIN = ("float32", "float16", "bfloat16", "float64")
WHOLE = ("int32", "uint8", "int64", "bool")
_WITH_VARIABLES = ("Dense", "BatchNormalization", "Embedding")
_HANDS_ON = ("Flatten", "Plain")


def _inputs(rng: np.random.Generator) -> Inputs:
    def kinds(count: int) -> list[str]:
        return [str(k) for k in rng.choice(["Dense", "BatchNormalization", "Flatten"], count)]

    def stack(policies: list[str]) -> Stack:
        return [*zip(kinds(len(policies)), policies, strict=True), ("Dense", str(rng.choice(PLAIN + MIXED)))]

    def several(make: Callable[[], tuple]) -> tuple:
        return ([make() for _ in range(4)],)

    def data() -> str:
        return str(rng.choice(["float32", "float64", "float16"]))

    def one_policy() -> tuple:
        policy = str(rng.choice(MIXED))
        return [("BatchNormalization", policy), *stack([policy] * int(rng.integers(1, 4)))], data()

    def many() -> tuple:
        return stack([str(p) for p in rng.choice(MIXED + PLAIN, int(rng.integers(2, 4)))]), data()

    def whole() -> tuple:
        policy = str(rng.choice(MIXED))
        return [("Flatten", policy), ("Embedding", str(rng.choice(MIXED + PLAIN))), *stack([policy])], str(
            rng.choice(WHOLE[:3])
        )

    def no_cast() -> tuple:
        plain = ("Plain", str(rng.choice(MIXED)))
        return [plain, *stack([str(rng.choice(MIXED))]), ("Plain", str(rng.choice(MIXED)))], "float32"

    return {
        "one policy": several(one_policy),
        "policies of their own": several(many),
        "whole numbers": several(whole),
        "autocast=False": several(no_cast),
    }


def _rule(
    halves: Callable[[str], tuple[str, str]] | None = None,
    cast_whole: bool = False,
    cast_plain: bool = False,
    casts: bool = True,
    wide_norms: bool = False,
    hands_on: tuple[str, ...] = _HANDS_ON,
    variables: tuple[str, ...] = _WITH_VARIABLES,
) -> Callable[[Stack, str], Dtypes]:
    """The rule, with each of its parts open to a mistake."""
    halves = halves or _split

    def follow(stack: Stack, data: str) -> Dtypes:
        rows, given = [], data
        for kind, policy in stack:
            compute, variable = halves(policy)
            keeps = not casts or (given in WHOLE and not cast_whole) or (kind == "Plain" and not cast_plain)
            seen = given if keeps else compute
            output = seen if kind in hands_on else compute
            if wide_norms and kind == "BatchNormalization":
                output = "float32"
            rows.append((seen, variable if kind in variables else "", output))
            given = output
        return rows

    return follow


def _split(policy: str) -> tuple[str, str]:
    """Compute and variable dtype."""
    mixed = policy.startswith("mixed_")
    return policy.removeprefix("mixed_"), "float32" if mixed else policy


def _asks_keras(stack: Stack, data: str) -> Dtypes:
    import keras

    rows = []
    for kind, name in stack:
        policy = keras.dtype_policies.get(name)
        floating = "float" in data
        seen = policy.compute_dtype if floating and kind != "Plain" else data
        data = seen if kind in _HANDS_ON else policy.compute_dtype
        rows.append([seen, policy.variable_dtype if kind in _WITH_VARIABLES else "", data])
    return rows


def _in_sentences(stack: Stack, data: str) -> Dtypes:
    answer: Dtypes = []
    for kind, policy in stack:
        compute = policy[len("mixed_") :] if "mixed" in policy else policy
        stored = {"mixed_float16": "float32", "mixed_bfloat16": "float32"}.get(policy, policy)
        if kind == "Plain" or (kind == "Flatten" and data in WHOLE):
            answer.append((data, "", data))
        elif kind == "Flatten":
            answer.append((compute, "", compute))
        elif kind == "Embedding":
            answer.append((data, stored, compute))
        else:
            answer.append((compute, stored, compute))
        data = answer[-1][2]
    return answer


follow = Exercise(
    id="policies.follow",
    inputs=_inputs,
    observer=each,
    right=_rule(),
    points={"one policy": 1, "policies of their own": 1, "whole numbers": 1, "autocast=False": 1},
    also_right=(_asks_keras, _in_sentences),
    mistakes=(
        Mistake(
            _rule(halves=lambda p: (_split(p)[0],) * 2),
            "Your variables have the compute dtype. Under a mixed_ policy they are float32: that is what mixed means.",
        ),
        Mistake(
            _rule(halves=lambda p: (_split(p)[0], "float32")),
            "Your variables are always float32. That is so under a mixed_ policy only; under plain float16 even the "
            "variables are float16.",
        ),
        Mistake(
            _rule(wide_norms=True),
            "Your BatchNormalization answers in float32. It computes in float32 *inside*, but what it returns has "
            "the compute dtype, as for every other layer.",
        ),
        Mistake(
            _rule(cast_whole=True),
            "You cast whole numbers. Autocast touches floats only: an identifier would not survive float16.",
        ),
        Mistake(
            _rule(cast_plain=True),
            "A layer made with autocast=False sees exactly what it is given, whatever its policy says.",
        ),
        Mistake(
            _rule(hands_on=("Flatten",)),
            "What Plain returns is what it was given, plus 1: nobody casts on the way out.",
        ),
        Mistake(
            _rule(hands_on=("Plain",)),
            "Flatten only moves values: whole numbers come out as they went in. A policy casts on the way in, never "
            "on the way out.",
        ),
        Mistake(
            _rule(casts=False),
            "You forgot the cast on the way in: a layer's `call` sees floats in the layer's compute dtype.",
        ),
        Mistake(
            _rule(variables=(*_WITH_VARIABLES, *_HANDS_ON)),
            'Flatten and Plain have no variables: answer with "" there.',
        ),
    ),
    hints=(
        "First split the policy: mixed_X computes in X and keeps float32; any other name is both.",
        "What `call` sees: the compute dtype, unless the data are whole numbers or the kind is Plain.",
        "What it returns: Flatten and Plain return the dtype they saw, all others the compute dtype. "
        "That is the data of the next layer.",
    ),
    asks_for=("ampcourse.amp.dtype_table", "ampcourse.amp.audit", "ampcourse.amp.dtypes_trace.trace"),
    insight="A policy acts at two places only: floats are cast on the way in, and variables when they are read. "
    "Everything else follows from what the layer computes.",
)
