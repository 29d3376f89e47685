"""Exercise 4: how often a function is traced, and how many programs XLA compiles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Call = tuple[int, str, float]  # batch size, dtype, rate
Pair = tuple[int, int]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (calls, any_batch); the calls come in rounds, so that everything is seen before, but not in a row."""

    def calls(sizes: int, dtypes: int, rates: int, length: int = 12) -> list[Call]:
        batches = [int(n) for n in rng.choice(np.arange(8, 129), sizes, replace=False)]
        kinds = [str(name) for name in rng.choice(["float32", "float16", "bfloat16"], dtypes, replace=False)]
        numbers = [float(r) / 1000 for r in rng.choice(np.arange(1, 999), rates, replace=False)]
        return [tuple(many[int(rng.integers(len(many)))] for many in (batches, kinds, numbers)) for _ in range(length)]

    def few() -> int:
        return int(rng.integers(2, 5))

    return {
        "other batch sizes": ([(calls(few(), 1, 1), False) for _ in range(4)],),
        "other dtypes and numbers": ([(calls(1, 2, few()), False) for _ in range(4)],),
        "an input signature": ([(calls(few(), 1, few()), True) for _ in range(4)],),
    }


def _counts(
    of: Callable[[list[Call]], int] = lambda calls: len(set(calls)),
    signature: Callable[[list[Call]], Pair] = lambda calls: (1, len({batch for batch, _, _ in calls})),
) -> Callable[[list[Call], bool], Pair]:
    """The right count, with its two halves open to mistakes."""

    def count_programs(calls: list[Call], any_batch: bool) -> Pair:
        calls = [tuple(call) for call in calls]
        return signature(calls) if any_batch else (of(calls), of(calls))

    return count_programs


def _by_playing(calls: list[Call], any_batch: bool) -> list[int]:
    """What a `tf.function` does: look into its caches, and trace or compile where nothing is found."""
    traced: list[tuple] = []
    compiled: list[tuple] = []
    for batch, dtype, rate in calls:
        key = ("relaxed",) if any_batch else (batch, dtype, rate)
        if key not in traced:
            traced.append(key)
        if (*key, batch) not in compiled:
            compiled.append((*key, batch))
    return [len(traced), len(compiled)]


def _in_numpy(calls: list[Call], any_batch: bool) -> np.ndarray:
    different = [f"{batch}" if any_batch else f"{batch} {dtype} {rate!r}" for batch, dtype, rate in calls]
    programs = np.unique(different).size
    return np.where(any_batch, [1, programs], [programs, programs])


def _changes(calls: list[Call]) -> int:
    return 1 + sum(one != other for one, other in pairwise(calls))


count_programs = Exercise(
    id="xla_fusion.count_programs",
    inputs=_inputs,
    observer=each,
    right=_counts(),
    points={"other batch sizes": 1, "other dtypes and numbers": 1, "an input signature": 2},
    also_right=(_by_playing, _in_numpy),
    mistakes=(
        Mistake(
            _counts(of=len, signature=lambda calls: (len(calls), len(calls))),
            "You count every call. A call like an earlier one finds its trace and its program in the cache.",
        ),
        Mistake(
            _counts(of=_changes),
            "You count how often something changes from one call to the next. Old traces are kept: going back to an "
            "earlier size costs nothing.",
        ),
        Mistake(
            _counts(of=lambda calls: len({(batch, dtype) for batch, dtype, _ in calls})),
            "You leave out the rate. A Python number is part of the program, so a new number is a new program.",
        ),
        Mistake(
            _counts(of=lambda calls: len({(batch, rate) for batch, _, rate in calls})),
            "You leave out the dtype. A program is compiled for one dtype.",
        ),
        Mistake(
            _counts(of=lambda calls: len({batch for batch, _, _ in calls})),
            "You look at the batch size only. A new dtype or a new Python number is a new program as well.",
        ),
        Mistake(
            lambda calls, any_batch: (1, _counts()(calls, any_batch)[1]),
            "You let one trace serve everything. Without a signature each new shape, dtype or Python number is traced "
            "anew; only None in a signature leaves something open.",
        ),
        Mistake(
            _counts(signature=lambda calls: (1, 1)),
            "Under the signature there is one trace, but XLA needs sizes: it compiles that trace once for each batch "
            "size.",
        ),
        Mistake(
            _counts(signature=lambda calls: (len({batch for batch, _, _ in calls}),) * 2),
            "With None in the signature TensorFlow traces once for all batch sizes. Only XLA compiles again.",
        ),
        Mistake(
            _counts(signature=lambda calls: (1, len(set(calls)))),
            "Under the signature the rate is a tensor, an input of the program: another value needs no other program.",
        ),
        Mistake(
            _counts(signature=lambda calls: (len(set(calls)), len(set(calls)))),
            "You count as if there were no signature. It makes a tensor of the rate and leaves the batch size open: "
            "one trace.",
        ),
    ),
    hints=(
        "Without a signature a trace belongs to one combination of shape, dtype and Python value, and XLA compiles "
        "one program for each trace.",
        "set(calls) holds each combination once. (Calls that came as lists have to become tuples first.)",
        "With the signature: one trace, and as many programs as there are different batch sizes.",
    ),
    insight="TensorFlow caches traces, XLA caches programs, and XLA's key always contains every size. An open batch "
    "size saves traces only: for XLA, feed batches of one size, drop or pad the last one, and pass numbers as tensors.",
)
