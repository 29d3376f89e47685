"""Exercise 5: which of its two ways Keras's attention goes, and what runs in which dtype there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

POLICIES = ("float32", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16", "float64")
Two = tuple[str, str]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (policy, dropout, training, with_scores), all kinds in each group, in an order of their own."""

    def shuffled(rows: list[tuple]) -> list[tuple]:
        return [rows[place] for place in rng.permutation(len(rows))]

    def rate() -> float:
        return round(float(rng.uniform(0.05, 0.5)), 2)

    def both_ways(policies: tuple[str, ...]) -> list[tuple]:
        return [(p, d, bool(rng.integers(2)), False) for p in policies for d in (0.0, rate())]

    mixed = ("mixed_float16", "mixed_bfloat16")
    rows = [(p, 0.0, bool(rng.integers(2)), wanted) for p in mixed for wanted in (False, True)]
    rows += [(p, rate(), training, False) for p in mixed for training in (False, True)]
    return {
        "with and without dropout": (shuffled(both_ways(mixed)),),
        "scores wanted, training or not": (shuffled(rows),),
        "other policies": (shuffled(both_ways(("float32", "float16", "bfloat16", "float64"))),),
    }


def _path(
    apart: Callable[[float, bool, bool], bool] = lambda dropout, training, wanted: dropout > 0 or wanted,
    fused_in: Callable[[str], str] = lambda compute: "float64" if compute == "float64" else "float32",
    else_in: Callable[[str], str] = lambda compute: compute,
    scaled: tuple[str, str] = ("scores", "query"),
) -> Callable[..., Two]:
    """The right answer, with each of its parts open to a mistake."""

    def softmax_path(policy: str, dropout: float, training: bool, with_scores: bool) -> Two:
        compute = policy.removeprefix("mixed_")
        if apart(dropout, training, with_scores):
            return else_in(compute), scaled[1]
        return fused_in(compute), scaled[0]

    return softmax_path


def _by_table(policy: str, dropout: float, training: bool, with_scores: bool) -> list[str]:
    bits = policy.split("_")[-1]
    rows = {True: [{"float64": "float64"}.get(bits, "float32"), "scores"], False: [bits, "query"]}
    return rows[not dropout and not with_scores]


def _by_numpy(policy: str, dropout: float, training: bool, with_scores: bool) -> Two:
    compute = policy.replace("mixed_", "")
    if dropout or with_scores:
        return compute, "query"
    wide = "float32" if compute == "bfloat16" else np.promote_types(compute, "float32").name
    return wide, "scores"


softmax_path = Exercise(
    id="vit.softmax_path",
    inputs=_inputs,
    observer=each,
    right=_path(),
    points={"with and without dropout": 2, "scores wanted, training or not": 1, "other policies": 1},
    also_right=(_by_table, _by_numpy),
    mistakes=(
        Mistake(
            _path(lambda dropout, training, wanted: (dropout > 0 and training) or wanted),
            "You ask whether dropout *acts*. The layer asks whether it is there at all: with dropout=0.1 it leaves the "
            "fused way at inference, too.",
        ),
        Mistake(
            _path(lambda dropout, training, wanted: dropout > 0),
            "Dropout is one of two reasons. The fused way has no weights to give out, so who asks for them leaves it.",
        ),
        Mistake(
            _path(lambda dropout, training, wanted: wanted),
            "Asking for the weights is one of two reasons. Dropout acts on the weights, so it needs the other way too.",
        ),
        Mistake(
            _path(else_in=lambda compute: "float64" if compute == "float64" else "float32"),
            "You say float32 on both ways. Written out, the softmax is a Keras layer under the same policy, and that "
            "layer computes in the compute dtype.",
        ),
        Mistake(
            _path(fused_in=lambda compute: compute),
            "You say the compute dtype on both ways. On the fused one the scores are cast to float32 before softmax.",
        ),
        Mistake(
            _path(fused_in=lambda compute: "float32"),
            "At least float32: float64 scores stay float64.",
        ),
        Mistake(
            _path(scaled=("query", "scores")),
            "The dtypes are right, what is scaled is the wrong way round: look at where the multiplication stands in "
            "the two lists of operations.",
        ),
        Mistake(
            _path(scaled=("query", "query")),
            "The dtypes are right. But on the fused way the products come first, and the *scores* are scaled.",
        ),
        Mistake(
            _path(lambda dropout, training, wanted: not (dropout > 0 or wanted)),
            "The two ways are swapped: the fused one is taken if there is neither dropout nor a wish for the weights.",
        ),
        Mistake(
            lambda *row: _path(lambda d, t, w: d > 0 or w, else_in=lambda c: row[0])(*row),
            "You return the policy's name. A dtype is asked for: the compute dtype of mixed_float16 is float16.",
        ),
    ),
    hints=(
        "First decide which way is taken: look for dropout > 0, or for weights that are wanted.",
        "The compute dtype is the policy without 'mixed_'.",
        "Fused: at least float32, and the scores are scaled. Written out: the compute dtype, and the query is scaled.",
    ),
    asks_for=("ampcourse.amp.dtype_table", "ampcourse.amp.dtypes_trace.trace", "ampcourse.amp.audit"),
    insight="An option that has nothing to do with precision changes the precision. So look at the graph, not at the "
    "name of the layer: amp.dtype_table shows what runs inside.",
)
