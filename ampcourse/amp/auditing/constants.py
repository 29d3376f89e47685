"""Constants that the format of the tensors they meet cannot hold: mask values, epsilons, factors.

What counts is where a constant is rounded: when it is made (a Python number beside a float16 tensor), or when it is
cast, perhaps after a few steps in float32. The number as it was written is compared with what the format makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ampcourse.amp.auditing.formats import LOW, as_float, dtype_of, is_low, rounded, told
from ampcourse.amp.auditing.graphs import MOVES, Graph, line_of
from ampcourse.amp.auditing.report import Hazard

_SHIFT = frozenset(("Add", "AddV2", "Sub", "BiasAdd"))
_COMPARE = frozenset(("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "Assert", "RandomUniform"))
_MULTIPLY = frozenset(("Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan", "MatMul", "BatchMatMulV2"))
# A number beside zero matters here: a quotient, a logarithm, a root or its derivative.
_GUARDED = frozenset(("Log", "Rsqrt", "Reciprocal", "Inv", "Sqrt", "Pow", "RealDiv", "Div", "Xlogy", "Xdivy"))
_CARRIES = MOVES | {"Cast", "Add", "AddV2", "Maximum", "Sub", "SelectV2", "Select", "Neg", "Minimum", "Abs"}
_GROWS = frozenset(("Reciprocal", "Inv", "Rsqrt", "RealDiv", "Div", "Exp", "Expm1", "Pow", "Square", "Cosh", "Sinh"))


def constant_hazards(graph: Graph) -> Iterator[Hazard]:
    """Constants that become infinite or 0, or 1 where the difference from 1 was the point."""
    for op in graph.forward():
        if op.type == "Cast" and is_low(op.outputs[0]) and not is_low(op.inputs[0]):
            for value in reached(graph, op.inputs[0]):
                yield from _judge(graph, op, value)
        elif op.outputs and is_low(op.outputs[0]) and graph.is_constant(op):
            value = as_float(graph.written(op))
            if value is not None:
                yield from _judge(graph, op, value)


def reached(graph: Graph, tensor: Any, depth: int = 0) -> list[np.ndarray]:
    """Constant values that a tensor certainly takes somewhere, found by walking back through simple arithmetic."""
    op = graph.source(tensor).op
    if depth > 12:
        return []
    written = graph.written(op)
    if written is not None:
        value = as_float(written)
        return [] if value is None else [value]
    inputs = graph.inputs(op)
    if op.type in ("Neg", "Abs"):
        return [-v for v in reached(graph, inputs[0], depth + 1)]
    if op.type in ("SelectV2", "Select"):
        return [v for x in inputs[1:] for v in reached(graph, x, depth + 1)]
    if op.type in ("Pack", "ConcatV2", "Fill"):
        return [v for x in inputs for v in reached(graph, x, depth + 1) if dtype_of(x) == dtype_of(op.outputs[0])]
    if op.type in MOVES or op.type == "Cast":
        return reached(graph, inputs[0], depth + 1) if inputs else []
    if op.type in ("Mul", "Add", "AddV2", "Sub") and len(inputs) == 2:
        return _arithmetic(graph, op, inputs, depth)
    return []


def _arithmetic(graph: Graph, op: Any, inputs: list[Any], depth: int) -> list[np.ndarray]:
    """A mask (0 or 1) times a constant takes the constant; an unknown tensor plus a huge constant is huge."""
    left, right = (reached(graph, x, depth + 1) for x in inputs)
    masks = [_is_mask(graph, x) for x in inputs]
    if op.type == "Mul":
        if left and right:
            return [_product(a, b) for a in left for b in right]
        found = left if masks[1] else right if masks[0] else []
    else:
        found = [*left, *(-v if op.type == "Sub" else v for v in right)]
    return [v for v in found if v.size and np.nanmax(np.abs(v)) > LOW["float16"].largest]


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(np.nanmax(np.abs(a)) * b if a.size else b)


def _is_mask(graph: Graph, tensor: Any, depth: int = 0) -> bool:
    """Whether a tensor comes from a comparison or from whole numbers, directly or as 1 minus that."""
    op = graph.source(tensor).op
    if depth > 8:
        return False
    if op.type == "Cast":
        return dtype_of(op.inputs[0]) == "bool" or op.inputs[0].dtype.is_integer or _is_mask(graph, op.inputs[0], depth)
    if op.type in ("Sub", "AddV2", "Mul", "Maximum", "Minimum"):
        return any(_is_mask(graph, x, depth + 1) for x in op.inputs)
    if op.type in MOVES and op.inputs:
        return _is_mask(graph, op.inputs[0], depth + 1)
    return False


def _judge(graph: Graph, op: Any, value: np.ndarray) -> Iterator[Hazard]:
    dtype, uses = dtype_of(op.outputs[0]), _uses(graph, op.outputs[0])
    kept = rounded(value, dtype)
    where = _where(graph, op, uses)
    over = np.isfinite(value) & ~np.isfinite(kept)
    if over.any():
        yield from _too_large(graph, uses, float(value[over].flat[0]), dtype, where)
    elif value.size and np.isinf(value).any():
        types = {use.type for use, _ in uses}
        if types & _MULTIPLY or (np.isinf(value).all() and types & _SHIFT):
            yield _infinite(float(value[np.isinf(value)].flat[0]), dtype, where)
    lost = (value != 0) & (kept == 0)
    if value.size and lost.any() and (value.size <= 64 or lost.all()):
        yield from _too_small(graph, uses, float(value[lost].flat[0]), dtype, where)
    ones = (np.abs(kept) == 1) & (np.abs(value) < 1)
    if value.size == 1 and ones.any():
        yield from _rounded_to_one(graph, uses, float(value.flat[0]), dtype, where)
    small = (value > 0) & (kept > 0) & (1 / np.where(value > 0, value, 1) > LOW[dtype].largest)
    if value.size == 1 and small.any() and any(_guards(graph, use, i) for use, i in uses):
        yield _steep(float(value.flat[0]), dtype, where)


def _uses(graph: Graph, tensor: Any, depth: int = 0) -> list[tuple[Any, int]]:
    """What uses a constant, past operations that only hand it on."""
    found = []
    for op, place in graph.consumers(tensor):
        if op.type in MOVES - {"Pack", "ConcatV2"} and depth < 8 and op.outputs:
            found += _uses(graph, op.outputs[0], depth + 1)
        else:
            found.append((op, place))
    return found


def _where(graph: Graph, op: Any, uses: list[tuple[Any, int]]) -> tuple[str, str]:
    """The layer and the line of code, of the constant or, where libraries made that, of what uses it."""
    used = uses[0][0] if uses else op
    return graph.owner(used) or graph.owner(op) or "step", line_of(op) or line_of(used)


def _at(line: str) -> str:
    return f" ({line})" if line else ""


def _too_large(graph: Graph, uses: list, value: float, dtype: str, where: tuple[str, str]) -> Iterator[Hazard]:
    infinity = "inf" if value > 0 else "-inf"
    serious = [use for use, place in uses if not _harmless_bound(graph, use, place, value)]
    if not serious:
        return
    largest = LOW[dtype].largest
    only_bounds = all(use.type in ("Minimum", "Maximum", "ClipByValue") for use in serious)
    # Inputs are often all zero, as padding is; whole weights, as in a spectral norm, hardly ever.
    mild = "note" if all(graph.of_weights_alone(x) for use in serious for x in use.inputs) else "warning"
    product = any(use.type in ("Mul", "MulNoNan", "BatchMatMulV2", "MatMul") for use in serious)
    why = " and 0 times infinity is NaN" if product else ""
    yield Hazard(
        "constant_out_of_range",
        mild if only_bounds else "error",
        where[0],
        f"The constant {told(value)} becomes {infinity} in {dtype}, whose largest value is {told(largest)}{why}"
        f"{_at(where[1])}.",
        _instead(serious, value),
        value,
    )


def _instead(uses: list[Any], value: float) -> str:
    """A mask needs only a large number; what divides, bounds, is subtracted or makes larger stands for itself."""
    kinds = ("RealDiv", "Div", "Minimum", "Maximum", "ClipByValue", "Sub", *(("Mul",) if value > 0 else ()))
    if all(use.type in kinds for use in uses):
        return f"x = keras.ops.cast(x, 'float32')  # compute with {value:g} in float32, and cast the result back"
    half = f"big = {'-' if value < 0 else ''}0.5 * x.dtype.max"
    return f"{half}  # instead of {value:g}: half of what x's dtype can hold"


def _harmless_bound(graph: Graph, use: Any, place: int, value: float) -> bool:
    """A comparison with infinity, or an upper bound of infinity for numbers that do not grow by themselves."""
    if use.type in _COMPARE:
        return True
    bound = (use.type == "Minimum" and value > 0) or (use.type == "Maximum" and value < 0)
    if use.type == "ClipByValue":
        bound = place > 0
    if not bound:
        return False
    other = graph.source(use.inputs[0 if use.type == "ClipByValue" else 1 - place])
    return other.op.type not in _GROWS


def _infinite(value: float, dtype: str, where: tuple[str, str]) -> Hazard:
    """Infinite already when the graph was made: rounded earlier, or written so."""
    return Hazard(
        "constant_out_of_range",
        "error",
        where[0],
        f"A {dtype} tensor is added to or multiplied by the constant {told(value)}, so that results are infinite, or "
        f"NaN where 0 or another infinity meets it{_at(where[1])}.",
        "scores = tf.where(mask, scores, -0.5 * scores.dtype.max)  # make constants in float32",
        value,
    )


def _too_small(graph: Graph, uses: list, value: float, dtype: str, where: tuple[str, str]) -> Iterator[Hazard]:
    least = LOW[dtype].least_subnormal
    if any(_guards(graph, use, place) for use, place in uses):
        why = "it guards nothing: the logarithm, root or quotient behind it can meet 0"
    elif any(use.type in _MULTIPLY for use, _ in uses):
        why = "what is multiplied or divided by it is lost"
    else:
        return
    yield Hazard(
        "constant_below_format",
        "error",
        where[0],
        f"The constant {told(value)} becomes 0 in {dtype}, whose least positive value is {told(least)}; {why}"
        f"{_at(where[1])}.",
        "x = keras.ops.cast(x, 'float32')  # compute with the small constant in float32, and cast the result back",
        value,
    )


def _rounded_to_one(graph: Graph, uses: list, value: float, dtype: str, where: tuple[str, str]) -> Iterator[Hazard]:
    """`clip(p, e, 1 - e)` before `log(1 - p)`: the upper bound must not become 1."""
    if not any(use.type in ("Minimum", "ClipByValue") for use, _ in uses):
        return
    yield Hazard(
        "constant_below_format",
        "error",
        where[0],
        f"The bound {value!r} becomes {1 if value > 0 else -1} in {dtype}: the distance of {told(1 - abs(value))} is "
        f"less than half a step there, so it bounds nothing{_at(where[1])}.",
        "p = keras.ops.cast(p, 'float32')  # clip probabilities in float32",
        value,
    )


def _steep(value: float, dtype: str, where: tuple[str, str]) -> Hazard:
    return Hazard(
        "constant_below_format",
        "note",
        where[0],
        f"The constant {told(value)} is kept in {dtype}, but 1 / {told(value)} is beyond {told(LOW[dtype].largest)}: "
        f"where it is all that keeps a number from 0, gradients overflow{_at(where[1])}.",
        "x = keras.ops.cast(x, 'float32')  # or an epsilon of 1e-4 and more",
        value,
    )


def _guards(graph: Graph, op: Any, place: int, depth: int = 0) -> bool:
    """Whether a small number that enters an operation keeps a logarithm, root or quotient away from 0."""
    if op.type in _GUARDED:
        return _is_guarded(op, place) and (depth > 0 or op.type not in ("RealDiv", "Div"))
    if op.type not in _CARRIES or depth > 10 or not op.outputs:
        return False
    if op.type in ("SelectV2", "Select") and place == 0:
        return False
    return any(_guards(graph, use, i, depth + 1) for x in op.outputs for use, i in graph.consumers(x))


def _is_guarded(op: Any, place: int) -> bool:
    return place == 1 if op.type in ("RealDiv", "Div", "Xdivy", "Xlogy") else place == 0
