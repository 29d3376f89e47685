"""Values that leave the range: on the way in, in preprocessing, and inside; which layer is the first, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ampcourse.amp.auditing.constants import reached
from ampcourse.amp.auditing.formats import LOW, as_float, dtype_of, is_low, rounded, told
from ampcourse.amp.auditing.graphs import MOVES, Graph, line_of
from ampcourse.amp.auditing.probes import Probes
from ampcourse.amp.auditing.reductions import REDUCES
from ampcourse.amp.auditing.report import Hazard

_CONTRACTS = frozenset(
    ("MatMul", "BatchMatMulV2", "BatchMatMul", "Conv1D", "Conv2D", "Conv3D", "Einsum", "DepthwiseConv2dNative")
)
# A pole, not the format, makes these infinite: log(0), 1/0. They count only where the damage comes out.
_POLES = frozenset(("Log", "RealDiv", "Div", "Reciprocal", "Inv", "Rsqrt", "Pow", "Atanh", "Xlogy", "Xdivy"))
_ELEMENTWISE = frozenset(("Mul", "Sub", "AddV2", "Add", "RealDiv", "BiasAdd", "Maximum", "Minimum", "Sqrt", "Square"))
# Fewer numbers than that lie close together by chance, in one of many columns.
_FEWEST_ROWS = 8
# Others make no numbers of their own, or are looked at more closely elsewhere.
_NOT_HERE = REDUCES | {"Const", "Placeholder", "ReadVariableOp", "Select", "SelectV2"}


def range_hazards(graph: Graph, probes: Probes, arrays: list[Any], outputs: list[Any]) -> Iterator[Hazard]:
    """What the sample shows: inputs that do not fit, and the first layers whose numbers leave the range."""
    if arrays:
        yield from _inputs(graph, arrays)
    blamed: set[str] = set()
    spoiled = any((seen := probes.seen(x)) and not seen.finite for x in outputs)
    for op in graph.trace.graph.get_operations():
        if (id(op.graph), op.name) in graph.backward or op.type in _NOT_HERE:
            continue
        hazard = _first_overflow(graph, probes, op, spoiled)
        layer = graph.owner(op)
        if hazard is not None and layer not in blamed:
            blamed.add(layer)
            yield hazard
    if not blamed:
        yield from _close(graph, probes)


def _inputs(graph: Graph, arrays: list[Any]) -> Iterator[Hazard]:
    """Inputs that are cast to a low-precision dtype: what the cast makes of the sample."""
    for number, (tensor, array) in enumerate(zip(graph.trace.inputs, arrays, strict=True)):
        value = as_float(array)
        if value is None or not value.size:
            continue
        if np.isnan(value).any():
            yield _nan(number, float(np.isnan(value).sum()))
            continue
        for op in _casts(graph, tensor):
            if np.asarray(array).dtype.kind == "f" or _overflows(value, dtype_of(op.outputs[0])):
                yield from _cast_input(graph, op, number, value)
                break


def _overflows(value: np.ndarray, dtype: str) -> bool:
    return not np.isfinite(rounded(np.abs(value).max(), dtype))


def _casts(graph: Graph, tensor: Any, depth: int = 0) -> Iterator[Any]:
    """Where a tensor, handed on as it is, becomes low precision."""
    for op, _ in graph.consumers(tensor):
        if op.type == "Cast" and is_low(op.outputs[0]):
            yield op
        elif (op.type in MOVES or op.type == "Cast") and depth < 12 and op.outputs:
            yield from _casts(graph, op.outputs[0], depth + 1)


def _nan(number: int, count: float) -> Hazard:
    text = f"Input {number} of the sample holds {count:g} NaN: everything that follows from them is NaN in any dtype."
    return Hazard("input_out_of_range", "error", "inputs", text, "x = x[~np.isnan(x).any(axis=-1)]", count)


def _cast_input(graph: Graph, op: Any, number: int, value: np.ndarray) -> Iterator[Hazard]:
    dtype = dtype_of(op.outputs[0])
    largest, layer = float(np.abs(value).max()), graph.owner(op) or "inputs"
    if _overflows(value[np.isfinite(value)], dtype) if np.isfinite(value).any() else False:
        share = float(np.mean(np.abs(value) > LOW[dtype].largest))
        yield Hazard(
            "input_out_of_range",
            "error",
            layer,
            f"Input {number} reaches {told(largest)} in the sample and is cast to {dtype}, whose largest value is "
            f"{told(LOW[dtype].largest)}: {share:.1%} of the values become infinite.",
            "x = (x - mean) / std  # in float32, in the data pipeline or in a layer with dtype='float32'",
            largest,
        )
        return
    nonzero = value[value != 0]
    lost = float(np.mean(rounded(nonzero, dtype) == 0)) if nonzero.size else 0.0
    if lost > 0.01:
        least = LOW[dtype].least_subnormal
        text = (
            f"{lost:.1%} of the values of input {number} that are not 0 become 0 in {dtype} (below {told(least / 2)})."
        )
        yield Hazard("input_out_of_range", "error", layer, text, "x = x / np.abs(x).max()  # in float32", lost)
    yield from _coarse(value, dtype, number, layer)


def _coarse(value: np.ndarray, dtype: str, number: int, layer: str) -> Iterator[Hazard]:
    """A column far from 0 whose spread is less than a few steps of the format: timestamps, years, prices."""
    if value.ndim > 2 or len(value) < _FEWEST_ROWS:
        return
    columns = value.reshape(len(value), -1)
    spread, far = columns.std(axis=0), np.abs(columns).max(axis=0)
    step = np.asarray(LOW[dtype].ulp(far))
    bad = np.flatnonzero((spread > 0) & (step > spread / 4))
    if bad.size:
        worst = int(bad[np.argmax(step[bad] / spread[bad])])
        yield Hazard(
            "input_out_of_range",
            "warning",
            layer,
            f"Column {worst} of input {number} lies near {told(float(far[worst]))} with a spread of "
            f"{told(float(spread[worst]))}; {dtype} numbers there are {told(float(step[worst]))} apart, so the "
            "differences are rounded away.",
            "x = (x - mean) / std  # in float32, before the cast",
            float(step[worst]),
        )


def _first_overflow(graph: Graph, probes: Probes, op: Any, spoiled: bool) -> Hazard | None:
    """A hazard if all that enters an operation is finite and what leaves it, in low precision, is not."""
    low = [x for x in op.outputs if is_low(x)]
    after = [s for x in low if (s := probes.seen(x)) is not None]
    before = [s for x in op.inputs if (s := probes.seen(x)) is not None]
    if not before or all(s.finite for s in after) or not all(s.finite for s in before):
        return None
    if op.type == "Cast" and (reached(graph, op.inputs[0]) or graph.moved_from(op.inputs[0]).op.type == "Placeholder"):
        return None  # a constant or an input, which other checks name
    if op.type in _POLES and not spoiled:
        return None
    entered, dtype = max(s.largest for s in before), dtype_of(low[0])
    layer, line = graph.owner(op) or "step", line_of(op)
    became = "NaN" if any(s.nan for s in after) else "infinite"
    came_in = _preprocessing(graph, op)
    reaches = "the outputs are not finite" if spoiled else "the outputs stay finite this time"
    return Hazard(
        "input_out_of_range" if came_in else "overflow_inside",
        "error" if spoiled else "warning",
        layer,
        f"With the sample, {op.type} in {layer} is the first to become {became} in {dtype}: what enters it reaches "
        f"{told(entered)} and is finite, the largest {dtype} value is {told(LOW[dtype].largest)}; {reaches}"
        + (f" ({line})." if line else "."),
        "keras.layers.Rescaling(1 / 255, dtype='float32')  # preprocessing belongs in float32"
        if came_in
        else "x = keras.ops.cast(x, 'float32')  # this step in float32, or smaller inputs",
        entered,
    )


def _preprocessing(graph: Graph, op: Any, depth: int = 0) -> bool:
    """Whether an operation is elementwise arithmetic of the inputs and constants only."""
    if op.type in ("Const", "Placeholder"):
        return True
    if op.type == "ReadVariableOp":
        return graph.written(op) is not None
    if depth > 12 or not (op.type in _ELEMENTWISE or op.type in MOVES or op.type == "Cast"):
        return False
    return all(_preprocessing(graph, x.op, depth + 1) for x in graph.inputs(op) if x.dtype.is_floating)


def _close(graph: Graph, probes: Probes) -> Iterator[Hazard]:
    """Nothing overflowed; say so if products came near."""
    worst: tuple[float, Any] | None = None
    for op in graph.trace.graph.get_operations():
        if op.type in _CONTRACTS and (id(op.graph), op.name) not in graph.backward and is_low(op.outputs[0]):
            seen = probes.seen(op.outputs[0])
            known = seen is not None and seen.finite  # what is infinite has a hazard of its own
            share = seen.largest / LOW[dtype_of(op.outputs[0])].largest if known else 0.0
            if share > (worst[0] if worst else 1 / 8):
                worst = (share, op)
    if worst is not None:
        share, op = worst
        dtype = dtype_of(op.outputs[0])
        yield Hazard(
            "overflow_inside",
            "warning" if share > 0.5 else "note",
            graph.owner(op) or "step",
            f"With the sample, {op.type} reaches {told(share * LOW[dtype].largest)}, {share:.0%} of the largest "
            f"{dtype} value.",
            "x = keras.layers.LayerNormalization()(x)  # or smaller inputs",
            share,
        )
