"""Exercise 2: how the four lists become dtypes, in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

Kinds = list[str]
Edges = list[list[int]]
Places = set[int]
PASSES = ("infer", "clear")


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (kinds, inputs); each graph has at least one allow operation."""

    def kinds(names: list[str], weights: list[float], size: int) -> Kinds:
        found = [str(k) for k in rng.choice(names, size, p=np.array(weights) / sum(weights))]
        if "allow" not in found:
            found[int(rng.integers(size))] = "allow"
        return found

    def chain(size: int) -> Edges:
        return [[i - 1] if i else [] for i in range(size)]

    def graph(size: int) -> Edges:
        """Each operation reads one or two of the four before it; the first two read the function's arguments."""
        some = [rng.choice(np.arange(max(0, i - 4), i), min(i, int(rng.integers(1, 3))), False) for i in range(size)]
        return [sorted(int(a) for a in sources) if i > 1 else [] for i, sources in enumerate(some)]

    def planted() -> tuple[Kinds, Edges]:
        """Float16 on both sides of an operation on no list, which random graphs seldom have."""
        middle = [str(k) for k in rng.choice(["infer", "clear"], int(rng.integers(0, 3)))]
        found = ["allow", *middle, "none", "infer", *middle, "allow"]
        return found, chain(len(found))

    every, weights = ["allow", "infer", "clear", "none", "deny"], [3, 4, 4, 2, 2]
    return {
        "chains": ([(kinds(every, weights, n), chain(n)) for n in rng.integers(4, 10, 30)],),
        "graphs without deny": (
            [(kinds(every[:4], weights[:4], n), graph(n)) for n in rng.integers(5, 11, 28)] + [planted()],
        ),
        "graphs with deny": ([(kinds(every, weights, n), graph(n)) for n in rng.integers(5, 11, 45)],),
    }


def _readers(inputs: Edges) -> Edges:
    return [[reader for reader, sources in enumerate(inputs) if i in sources] for i in range(len(inputs))]


def _reached(start: Iterable[int], onward: Edges, enter: Callable[[int], bool]) -> Places:
    """The places of `start`, and all that a walk from there comes to."""
    found, waiting = set(start), list(start)
    while waiting:
        for place in onward[waiting.pop()]:
            if place not in found and enter(place):
                found.add(place)
                waiting.append(place)
    return found


def _of(kinds: Kinds, *wanted: str) -> Places:
    return {i for i, kind in enumerate(kinds) if kind in wanted}


def _covered(kinds: Kinds, inputs: Edges, trailing: bool = False) -> Places:
    """Rule 2."""
    ahead = _reached(_of(kinds, "deny", "infer"), inputs, lambda i: kinds[i] == "clear")
    return _reached(
        _of(kinds, "deny"),
        _readers(inputs),
        lambda i: kinds[i] in ("infer", "clear", "deny") and (trailing or i in ahead),
    )


def _between(kinds: Kinds, inputs: Edges, covered: Places, passes: tuple[str, ...] = PASSES) -> Places:
    """Rules 1 and 3."""
    allow = _of(kinds, "allow")
    behind = _reached(allow, _readers(inputs), lambda i: kinds[i] in passes and i not in covered)
    found = _reached(allow, inputs, lambda i: i in behind)
    return found - _of(kinds, "none")


def _follow(kinds: Kinds, inputs: Edges, covered: Places, painted: Places) -> Places:
    """Rule 4."""
    painted = set(painted)
    for i in sorted(_of(kinds, "infer") - covered):
        if painted & set(inputs[i]):
            painted.add(i)
    return painted


def _spread(
    kinds: Kinds, inputs: Edges, covered: Places, painted: Places, ways: str = "both", also: tuple[str, ...] = ()
) -> Places:
    """Rule 5."""
    readers = _readers(inputs)
    onward = [(a if ways != "up" else []) + (b if ways != "down" else []) for a, b in zip(readers, inputs, strict=True)]
    return _reached(painted, onward, lambda i: kinds[i] in ("clear", *also) and i not in covered)


def _once(kinds: Kinds, inputs: Edges, covered: Places, painted: Places) -> Places:
    near = {i for p in painted for i in (*inputs[p], *_readers(inputs)[p])}
    return painted | {i for i in near if kinds[i] == "clear" and i not in covered}


def _paint(
    cover: Callable = _covered,
    between: Callable = _between,
    follow: Callable = _follow,
    spread: Callable = _spread,
    follow_last: bool = False,
) -> Callable[[Kinds, Edges], list[bool]]:
    """The right rules in their order, each open to a mistake."""

    def paint(kinds: Kinds, inputs: Edges) -> list[bool]:
        covered = cover(kinds, inputs)
        painted = between(kinds, inputs, covered)
        for rule in (spread, follow) if follow_last else (follow, spread):
            painted = rule(kinds, inputs, covered, painted)
        return [i in painted for i in range(len(kinds))]

    return paint


def _until_nothing_changes(kinds: Kinds, inputs: Edges) -> tuple[bool, ...]:
    """Marks instead of walks: each rule repeated for as long as it changes anything."""
    n, readers = len(kinds), _readers(inputs)

    def grow(marks: list[bool], may: Callable[[int], bool], near: Edges) -> list[bool]:
        for _ in range(n):
            marks = [marks[i] or (may(i) and any(marks[j] for j in near[i])) for i in range(n)]
        return marks

    ahead = grow([k in ("deny", "infer") for k in kinds], lambda i: kinds[i] == "clear", readers)
    deny = grow([k == "deny" for k in kinds], lambda i: ahead[i] and kinds[i] in PASSES, inputs)
    allow = [k == "allow" for k in kinds]

    def free(i: int) -> bool:
        return kinds[i] in PASSES and not deny[i]

    behind, before = grow(allow, free, inputs), grow(allow, free, readers)
    painted = [a or (b and c) for a, b, c in zip(allow, behind, before, strict=True)]
    for i in range(n):
        painted[i] = painted[i] or (kinds[i] == "infer" and not deny[i] and any(painted[j] for j in inputs[i]))
    near = [a + b for a, b in zip(inputs, readers, strict=True)]
    return tuple(grow(painted, lambda i: kinds[i] == "clear" and not deny[i], near))


def _in_matrices(kinds: Kinds, inputs: Edges) -> np.ndarray:
    n, kind = len(kinds), np.array(kinds)
    reads = np.zeros((n, n), bool)
    for i, sources in enumerate(inputs):
        reads[i, sources] = True

    def closure(start: np.ndarray, matrix: np.ndarray, through: np.ndarray) -> np.ndarray:
        for _ in range(n):
            start = start | (through & (matrix @ start))
        return start

    ahead = closure((kind == "deny") | (kind == "infer"), reads.T, kind == "clear")
    covered = closure(kind == "deny", reads, ahead)
    allow, free = kind == "allow", np.isin(kind, PASSES) & ~covered
    painted = closure(allow, reads, free) & closure(allow, reads.T, free)
    for i in np.flatnonzero((kind == "infer") & ~covered):
        painted[i] |= (reads[i] & painted).any()
    return closure(painted, reads | reads.T, (kind == "clear") & ~covered)


def _one_pass(covers: bool) -> Callable[[Kinds, Edges], list[bool]]:
    """Once through the list, with no look ahead."""

    def paint(kinds: Kinds, inputs: Edges) -> list[bool]:
        covered, painted = [], []
        for kind, sources in zip(kinds, inputs, strict=True):
            passes = kind in PASSES
            covered.append(covers and (kind == "deny" or (passes and any(covered[a] for a in sources))))
            painted.append(kind == "allow" or (passes and not covered[-1] and any(painted[a] for a in sources)))
        return painted

    return paint


paint = Exercise(
    id="graph_amp.paint",
    inputs=_inputs,
    observer=each,
    right=_paint(),
    points={"chains": 2, "graphs without deny": 2, "graphs with deny": 2},
    also_right=(_until_nothing_changes, _in_matrices),
    mistakes=(
        Mistake(
            lambda kinds, inputs: [kind == "allow" for kind in kinds],
            "You rewrite what is on the allow list and nothing else. Rules 3 to 5 carry float16 further.",
        ),
        Mistake(
            lambda kinds, inputs: [kind not in ("deny", "none") for kind in kinds],
            "You rewrite everything but deny operations and those on no list. Infer and clear operations need a "
            "reason: a place between, behind or beside float16.",
        ),
        Mistake(
            _one_pass(covers=True),
            "You go through the list once and hand float16 on from each operation to its readers. That is not enough: "
            "rules 3 and 5 also look at what comes behind, and an infer operation behind a clear one may stay in "
            "float32. Do the rules one after the other, each for the whole graph.",
        ),
        Mistake(
            _one_pass(covers=False),
            "You go through the list once, hand float16 on from each operation to its readers, and leave out the deny "
            "paint (rule 2). Do the rules one after the other, each for the whole graph.",
        ),
        Mistake(
            _paint(cover=lambda kinds, inputs: _of(kinds, "deny")),
            "You keep the deny operations themselves in float32 but not what comes behind them. Their paint runs on "
            "through infer and clear operations (rule 2).",
        ),
        Mistake(
            _paint(cover=lambda kinds, inputs: _covered(kinds, inputs, trailing=True)),
            "Your deny paint goes too far. It covers a clear operation only if an infer or deny operation still "
            "follows behind it through clear ones; other clear operations stay free to become float16.",
        ),
        Mistake(
            _paint(follow=lambda kinds, inputs, covered, painted: painted),
            "You leave out rule 4: an infer operation that reads a float16 value becomes float16, even if no allow "
            "operation follows.",
        ),
        Mistake(
            _paint(spread=lambda kinds, inputs, covered, painted: painted),
            "You leave out rule 5: clear operations take over float16 from their neighbours.",
        ),
        Mistake(
            _paint(spread=lambda k, i, c, p: _spread(k, i, c, p, ways="down")),
            "Your clear operations look at what they read only. They take over float16 from those who read them, too.",
        ),
        Mistake(
            _paint(spread=_once),
            "You stop after one clear operation. Float16 goes on through as many of them as hang together.",
        ),
        Mistake(
            _paint(spread=lambda k, i, c, p: _spread(k, i, c, p, also=("infer",))),
            "You treat infer like clear in rule 5. An infer operation takes float16 only from what it reads directly, "
            "and before the clear operations have their turn.",
        ),
        Mistake(
            _paint(follow_last=True),
            "You have rules 4 and 5 in the other order. Infer comes first: an infer operation behind a clear one "
            "behind an allow one stays in float32.",
        ),
        Mistake(
            _paint(between=lambda k, i, c: _between(k, i, c, (*PASSES, "none"))),
            "You let float16 pass through an operation on no list. Such an operation ends every way.",
        ),
        Mistake(
            lambda kinds, inputs: [not painted for painted in _paint()(kinds, inputs)],
            "The wrong way round: True is for what becomes float16.",
        ),
    ),
    hints=(
        "Keep two sets of places: those covered by deny paint, and those in float16. Do the rules one after the other.",
        "Most rules are walks: from these operations, along inputs or readers, through operations of that kind. Write "
        "one helper reached(start, onward, may_enter), where onward[i] lists the neighbours of i.",
        "Rule 3 is two walks: forward from the allow operations, then backward from them inside what the first found.",
    ),
    asks_for=("ampcourse.amp.rewritten_graph", "ampcourse.amp.graph_pass.run", "ampcourse.amp.graph_read.changed"),
    insight="This is the whole decision, and nothing in it looks at a number. The lists are somebody's experience with "
    "many models; whether they fit yours, only a look at the graph and at the values tells.",
)
