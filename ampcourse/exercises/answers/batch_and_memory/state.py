"""Exercise 2: the bytes of weights, gradients and optimizer, which no batch size changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

_SLOTS = {"sgd": 0, "momentum": 1, "adam": 2}
MIXED = ("mixed_float16", "mixed_bfloat16")


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (parameters, policy, optimizer, accumulate)."""

    def rows(policies: tuple[str, ...], accumulate: bool = False) -> tuple[list[tuple]]:
        names = [*_SLOTS, str(rng.choice(list(_SLOTS)))]
        return ([(int(rng.integers(10_000, 10**9)), str(rng.choice(policies)), name, accumulate) for name in names],)

    return {
        "float32": rows(("float32",)),
        "mixed policies": rows(MIXED),
        "16 bits throughout": rows(("float16", "bfloat16")),
        "with accumulation": rows((*MIXED, "bfloat16"), accumulate=True),
    }


def _sum(
    of_weight: Callable[[str], int] | None = None,
    slots: Mapping[str, int] = _SLOTS,
    gradients: Callable[[str, int], int] = lambda policy, width: width,
    slot_width: Callable[[str, int], int] = lambda policy, width: width,
    accumulates: bool = True,
    copy: bool = False,
) -> Callable[[int, str, str, bool], int]:
    """The right answer, with each of its parts open to a mistake."""
    of_weight = of_weight or _width

    def state_bytes(parameters: int, policy: str, optimizer: str, accumulate: bool) -> int:
        width = of_weight(policy)
        each_one = width + gradients(policy, width) + slots[optimizer] * slot_width(policy, width)
        if accumulate and accumulates:
            each_one += slot_width(policy, width)
        return parameters * (each_one + 2 * (copy and policy in MIXED))

    return state_bytes


def _width(policy: str) -> int:
    return 4 if policy == "float32" or policy.startswith("mixed_") else 2


def _by_dtype(parameters: int, policy: str, optimizer: str, accumulate: bool) -> float:
    variable = {"float16": np.float16, "bfloat16": np.float16}.get(policy, np.float32)
    arrays = 2 + ["sgd", "momentum", "adam"].index(optimizer) + int(accumulate)
    return float(parameters) * np.dtype(variable).itemsize * arrays


def _in_sentences(parameters: int, policy: str, optimizer: str, accumulate: bool) -> int:
    numbers = 2 * parameters
    if optimizer == "momentum":
        numbers += parameters
    elif optimizer == "adam":
        numbers += 2 * parameters
    if accumulate:
        numbers += parameters
    return numbers * (2 if policy in ("float16", "bfloat16") else 4)


state_bytes = Exercise(
    id="batch_and_memory.state_bytes",
    inputs=_inputs,
    observer=each,
    right=_sum(),
    points={"float32": 0.5, "mixed policies": 1, "16 bits throughout": 0.5, "with accumulation": 1},
    also_right=(_by_dtype, _in_sentences),
    mistakes=(
        Mistake(
            _sum(of_weight=lambda policy: 4 if policy == "float32" else 2),
            "You halve the variables under mixed policies. A mixed policy stores variables in float32 (lesson 03), and "
            "gradients and slots follow the variables.",
        ),
        Mistake(
            _sum(of_weight=lambda policy: 4),
            "You take 4 bytes everywhere. Under plain float16 or bfloat16 the variables themselves have 16 bits.",
        ),
        Mistake(
            _sum(gradients=lambda policy, width: 2 if policy in MIXED else width),
            "You keep gradients in 16 bits under mixed policies. What reaches the optimizer is the gradient of the "
            "float32 variable: the cast's own gradient brings it back to float32.",
        ),
        Mistake(
            _sum(gradients=lambda policy, width: 0),
            "The gradients are missing: one number for each parameter, until the optimizer has used them.",
        ),
        Mistake(
            _sum(slots={"sgd": 0, "momentum": 1, "adam": 1}),
            "Adam remembers two numbers for each parameter: the mean of the gradients and that of their squares.",
        ),
        Mistake(
            _sum(slots={"sgd": 1, "momentum": 2, "adam": 3}),
            "You count one slot too many: plain SGD remembers nothing, momentum one number, Adam two.",
        ),
        Mistake(
            _sum(slots=dict.fromkeys(_SLOTS, 0)),
            "You left out what the optimizer remembers.",
        ),
        Mistake(
            _sum(accumulates=False),
            "Accumulation is not free: the sum so far is one more number for each parameter.",
        ),
        Mistake(
            _sum(slot_width=lambda policy, width: 4),
            "Slots have the dtype of the variables: under plain float16 or bfloat16 they have 16 bits, too.",
        ),
        Mistake(
            _sum(copy=True),
            "You add the 16-bit copies of the weights. They are real, but made anew in every step: here they count as "
            "kept tensors, not as state.",
        ),
    ),
    hints=(
        "How many numbers are there for each parameter? The variable, its gradient, and what the optimizer remembers.",
        "SGD remembers 0 numbers, momentum 1, Adam 2; accumulation adds 1.",
        "Every one of them has the dtype of the variable: float32 under float32 and under both mixed policies.",
    ),
    rtol=1e-9,
    asks_for=("ampcourse.amp.kept_for_backward", "ampcourse.amp.memory_state.optimizer_bytes"),
    insight="With Adam it is 16 bytes for each parameter, under float32 and under a mixed policy alike. What a mixed "
    "policy makes smaller grows with the batch.",
)
