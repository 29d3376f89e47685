"""Exercise 3: how many casts a rewrite needs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Edges = list[list[int]]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (painted, edges)."""

    def painted(n: int) -> list[bool]:
        some = rng.random(n) < 0.5
        some[:2] = [True, False]
        return [bool(p) for p in rng.permutation(some)]

    def chain(n: int) -> tuple[list[bool], Edges]:
        return painted(n), [[i, i + 1] for i in range(n - 1)]

    def graph(n: int, readers: int) -> tuple[list[bool], Edges]:
        pairs = {(int(rng.integers(b)), b) for b in range(1, n) for _ in range(readers)}
        pairs |= {(0, b) for b in range(1, n, 2)}
        return painted(n), [list(p) for p in rng.permutation(sorted(pairs))]

    return {
        "chains": ([chain(int(n)) for n in rng.integers(4, 9, 8)],),
        "values that are read several times": ([graph(int(n), 2) for n in rng.integers(5, 9, 8)],),
        "larger graphs": ([graph(int(n), 3) for n in rng.integers(10, 16, 6)],),
    }


def _count(painted: list[bool], edges: Edges) -> int:
    return len({a for a, b in edges if painted[a] != painted[b]})


def _by_loop(painted: list[bool], edges: Edges) -> float:
    needs = [False] * len(painted)
    for source, reader in edges:
        if painted[source] is not painted[reader]:
            needs[source] = True
    return float(sum(needs))


def _in_numpy(painted: list[bool], edges: Edges) -> np.int64:
    ends = np.array(edges).T
    colour = np.array(painted)
    return np.int64(np.unique(ends[0][colour[ends[0]] ^ colour[ends[1]]]).size)


def _sorted(painted: list[bool], edges: Edges) -> int:
    groups = groupby(sorted(map(tuple, edges)), key=lambda edge: edge[0])
    return sum(any(painted[reader] != painted[source] for _, reader in group) for source, group in groups)


def _one_way(up: bool) -> Callable[[list[bool], Edges], int]:
    return lambda painted, edges: len({a for a, b in edges if painted[a] == up and painted[b] != up})


count_casts = Exercise(
    id="graph_amp.count_casts",
    inputs=_inputs,
    observer=each,
    right=_count,
    points={"chains": 1, "values that are read several times": 1, "larger graphs": 1},
    also_right=(_by_loop, _in_numpy, _sorted),
    mistakes=(
        Mistake(
            lambda painted, edges: sum(painted[a] != painted[b] for a, b in edges),
            "You count every edge between two dtypes. A value that several operations read in the other dtype is cast "
            "once, and they share the cast.",
        ),
        Mistake(
            lambda painted, edges: len({b for a, b in edges if painted[a] != painted[b]}),
            "You count the operations that read a cast value. Count the values that are cast: by where they come from.",
        ),
        Mistake(_one_way(False), "You count the casts to float16 only. There are casts back to float32, too."),
        Mistake(_one_way(True), "You count the casts back to float32 only. There are casts to float16, too."),
        Mistake(
            lambda painted, edges: sum(painted),
            "That is the number of operations in float16. Casts stand where a value goes from one dtype to the other.",
        ),
        Mistake(
            lambda painted, edges: sum(p != q for p, q in pairwise(painted)),
            "You compare each operation with the next in the list. Only the edges say who reads whose value.",
        ),
        Mistake(
            lambda painted, edges: 2 * _count(painted, edges),
            "Twice the right number: the cast of a value is one operation, not one at each end.",
        ),
    ),
    hints=(
        "An edge needs a cast if painted[source] != painted[reader].",
        "Several edges from one source share one cast. A set of sources counts each once.",
        "len({source for source, reader in edges if painted[source] != painted[reader]})",
    ),
    asks_for=("ampcourse.amp.rewritten_graph", "ampcourse.amp.graph_pass.run", "ampcourse.amp.graph_read.changed"),
    insight="Casts cost time and memory traffic, and nothing is computed by them. The rules try to keep them few: that "
    "is why clear and infer operations between two matrix products are taken along.",
)
