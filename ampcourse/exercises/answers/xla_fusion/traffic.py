"""Exercise 1: the bytes that a chain of elementwise operations moves, one by one and fused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

Ops = list[tuple[str, tuple[str, ...]]]
Both = tuple[int, int]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Programs whose last operation gives the result; every other result is used by the one after it."""

    def program(outer: int, length: int, again: float) -> Ops:
        """Each operation takes the result before it and perhaps one thing more: an outer input, old or new."""
        ops, fresh = [("t1", ("x0",))], [f"x{i}" for i in range(1, outer)]
        for number in range(2, length + 1):
            before = f"t{number - 1}"
            if rng.random() < again:
                second = (before, "x0")[int(rng.integers(2))]
                ops.append((f"t{number}", (before, second)))
            else:
                ops.append((f"t{number}", (before, fresh.pop(0)) if fresh else (before,)))
        return ops

    def size() -> tuple[int, int]:
        return int(rng.integers(1_000, 1_000_000)), int(rng.choice([2, 4]))

    last = [("t1", ("x0",)), ("t2", ("t1", "x0")), ("t3", ("t2", "t2"))]
    return {
        "one input, used once": (program(1, int(rng.integers(3, 9)), 0.0), *size()),
        "several inputs": (program(int(rng.integers(2, 5)), int(rng.integers(6, 9)), 0.0), *size()),
        "inputs used again": (last + _moved(program(2, int(rng.integers(3, 7)), 0.6)), *size()),
    }


def _moved(ops: Ops) -> Ops:
    """The same program behind one of three operations: its numbers go on from there, and t3 is its input."""
    names = {f"t{n}": f"t{n + 3}" for n in range(1, 99)} | {"x0": "t3"}
    return [(names[result], tuple(names.get(name, name) for name in inputs)) for result, inputs in ops]


def _count(
    once: bool = True,
    written: bool = True,
    fused_written: bool = True,
    each_use: bool = False,
    inner: bool = False,
    sizes: bool = True,
) -> Callable[[Ops, int, int], Both]:
    """The right count, with each of its parts open to a mistake."""

    def chain_bytes(ops: Ops, elements: int, itemsize: int) -> Both:
        made = {result for result, _ in ops}
        reads = sum(len(set(inputs)) if once else len(inputs) for _, inputs in ops)
        outer = [name for _, inputs in ops for name in dict.fromkeys(inputs) if inner or name not in made]
        one = elements * (itemsize if sizes else 1)
        alone = reads + (len(ops) if written else 0)
        return alone * one, (len(outer if each_use else set(outer)) + int(fused_written)) * one

    return chain_bytes


def _in_loops(ops: Ops, elements: int, itemsize: int) -> list[int]:
    alone = fused = 0
    known: set[str] = set()
    for _, inputs in ops:
        for position, name in enumerate(inputs):
            if name in inputs[:position]:
                continue
            alone += elements * itemsize
            if name not in known and name not in dict(ops):
                known.add(name)
                fused += elements * itemsize
        alone += elements * itemsize
    return [alone, fused + elements * itemsize]


def _in_numpy(ops: Ops, elements: int, itemsize: int) -> np.ndarray:
    every = {name for _, inputs in ops for name in inputs}
    outer = every - {result for result, _ in ops}
    arrays = [sum(len({*inputs}) + 1 for _, inputs in ops), len(outer) + 1]
    return np.array(arrays, np.int64) * elements * itemsize


chain_bytes = Exercise(
    id="xla_fusion.chain_bytes",
    inputs=_inputs,
    right=_count(),
    points={"one input, used once": 1, "several inputs": 1, "inputs used again": 1},
    also_right=(_in_loops, _in_numpy, lambda *program: tuple(map(float, _count()(*program)))),
    mistakes=(
        Mistake(
            _count(once=False),
            "You count an input twice where an operation names it twice. `t * t` reads t once.",
        ),
        Mistake(_count(written=False), "One by one, every operation also *writes* its result."),
        Mistake(_count(fused_written=False), "The fused kernel writes its result too: that is one array more."),
        Mistake(
            _count(written=False, fused_written=False),
            "You count what is read only. What is written moves as well: every result one by one, the last one fused.",
        ),
        Mistake(
            _count(each_use=True),
            "Fused, an input is read once, however many operations inside use it: it stays in a register.",
        ),
        Mistake(
            _count(inner=True),
            "In your fused count the results inside are read as well. They never go through memory: count only names "
            "that no operation makes.",
        ),
        Mistake(_count(sizes=False), "You count elements. Bytes are asked for: multiply by `itemsize`."),
        Mistake(
            lambda *program: _count()(*program)[::-1],
            "The right two numbers, the wrong way round: first one by one, then fused.",
        ),
        Mistake(
            lambda ops, elements, itemsize: (_count()(ops, elements, itemsize)[0], 2 * elements * itemsize),
            "You let the fused kernel read one input only. It reads every array that comes from outside, once each.",
        ),
    ),
    hints=(
        "One by one, an operation reads each of its different inputs and writes one result.",
        "Fused, the kernel reads each name that no operation makes, once, and writes the last result.",
        "made = {result for result, _ in ops}; what comes from outside are the inputs that are not in `made`. "
        "A set counts each name once.",
    ),
    asks_for=("ampcourse.amp.hlo", "ampcourse.amp.xla_module.Fusion", "ampcourse.amp.xla_text.read"),
    insight="Fused, the traffic no longer depends on how many operations there are, only on what goes in and what "
    "comes out. Halving the item size halves both counts, so low precision and fusion multiply.",
)
