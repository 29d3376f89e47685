"""Whole numbers that pass through a float too narrow for them: token ids, categories, positions, hashes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ampcourse.amp.auditing.formats import LOW, as_float, dtype_of, is_low, rounded, told
from ampcourse.amp.auditing.graphs import MOVES, Graph, line_of
from ampcourse.amp.auditing.probes import Probes
from ampcourse.amp.auditing.report import Hazard

_FLOATS = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24}
"""Up to here every whole number is kept."""
_FIX = "ids = keras.Input(shape=(n,), dtype='int32')  # identifiers stay integers until the Embedding"
_COUNT_FIX = "p = keras.ops.cast(p, 'float32')  # positions in float32; for a library's layer: dtype='float32'"
_ROUNDS = MOVES | {"Cast", "Round", "Floor", "Ceil", "Rint", "Relu", "Maximum", "Minimum", "AddV2", "Sub", "Mul"}


def identifier_hazards(graph: Graph, probes: Probes, arrays: list[Any] | None) -> Iterator[Hazard]:
    """Floats that become integers again, and integers of many values that become low-precision floats."""
    inputs = dict(zip(map(id, graph.trace.inputs), arrays or [None] * len(graph.trace.inputs), strict=True))
    for op in graph.forward():
        if op.type != "Cast":
            continue
        before, after = op.inputs[0], op.outputs[0]
        if before.dtype.is_floating and (after.dtype.is_integer or after.dtype.name == "string"):
            yield from _to_integer(graph, op, inputs)
        elif before.dtype.is_integer and is_low(after):
            yield from _to_float(graph, op, inputs, probes)


def _to_integer(graph: Graph, op: Any, inputs: dict[int, Any]) -> Iterator[Hazard]:
    """Back from a float to an integer: which was the narrowest float on the way, and what came in?"""
    narrowest, start = _way(graph, op)
    if start is None or narrowest not in _FLOATS:
        return
    exact, limit = _FLOATS[narrowest], _entries(graph, op)
    array = inputs.get(id(start))
    value = as_float(array) if array is not None else None
    if value is not None and value.size:
        whole = _whole_columns(value)
        kept = rounded(whole, narrowest) if narrowest in LOW else whole.astype(np.float32).astype(np.float64)
        if (kept != whole).any():
            changed, i = float(np.mean(kept != whole)), int(np.argmax(kept != whole))
            text = f"{changed:.1%} of the identifiers in the sample change on the way through {narrowest}: "
            yield _hazard(graph, op, "error", f"{text}{told(whole[i])} becomes {told(kept[i])}", changed)
            return
    if limit is not None and limit > exact:
        text = (
            f"Identifiers up to {limit - 1:,} pass through {narrowest}, which keeps whole numbers only up to {exact:,}"
        )
        yield _hazard(graph, op, "error" if narrowest in LOW else "warning", text, float(limit))
    elif limit is None and narrowest in LOW and value is None:
        text = f"Whole numbers pass through {narrowest}, which keeps them only up to {exact:,}"
        yield _hazard(graph, op, "warning", text, float(exact))


def _whole_columns(value: np.ndarray) -> np.ndarray:
    """The numbers of those columns (of the last axis) that hold whole numbers only."""
    columns = value.reshape(-1, value.shape[-1]) if value.ndim > 1 else value.reshape(-1, 1)
    return columns[:, (columns == np.round(columns)).all(axis=0)].ravel()


def _way(graph: Graph, op: Any) -> tuple[str, Any]:
    """The narrowest float between an integer and where it came from, and where that was."""
    tensor, narrowest = graph.source(op.inputs[0]), dtype_of(op.inputs[0])
    for _ in range(40):
        if tensor.op.type not in _ROUNDS or not tensor.op.inputs:
            break
        tensor = graph.source(tensor.op.inputs[0])
        if tensor.dtype.is_integer:
            return narrowest, tensor
        if tensor.dtype.is_floating and _FLOATS.get(dtype_of(tensor), 2**53) < _FLOATS.get(narrowest, 2**53):
            narrowest = dtype_of(tensor)
    from_input = tensor.op.type == "Placeholder" and any(tensor is x for x in graph.trace.inputs)
    return narrowest, tensor if from_input or tensor.dtype.is_integer else None


def _entries(graph: Graph, op: Any, depth: int = 0, tensor: Any = None) -> int | None:
    """How many entries the table has that is looked up with the integers; None if there is none."""
    for use, place in graph.consumers(tensor if tensor is not None else op.outputs[0]):
        if use.type in ("GatherV2", "ResourceGather", "Gather") and place == 1:
            rows = use.inputs[0].shape[0] if use.type != "ResourceGather" and use.inputs[0].shape.rank else None
            return rows
        if use.type == "OneHot" and place == 0:
            size = as_float(graph.written(graph.source(use.inputs[1]).op))
            return int(size.flat[0]) if size is not None and size.size else None
        if (use.type in MOVES or use.type in ("Cast", "Maximum", "Minimum", "AddV2")) and depth < 10 and use.outputs:
            found = _entries(graph, op, depth + 1, use.outputs[0])
            if found is not None:
                return found
    return None


def _to_float(graph: Graph, op: Any, inputs: dict[int, Any], probes: Probes) -> Iterator[Hazard]:
    """Many different integers that become fewer different floats."""
    dtype = dtype_of(op.outputs[0])
    value = _integers(graph, op, inputs, probes)
    if value is None or value.size < 2:
        return
    different = np.unique(value)
    if np.abs(different).max() > LOW[dtype].largest:
        return  # it overflows, which is another hazard
    left = np.unique(rounded(different, dtype)).size
    if left < different.size:
        largest = told(float(np.abs(different).max()))
        text = f"{different.size:,} different whole numbers up to {largest} become {left:,} in {dtype}, which keeps "
        text += f"them only up to {_FLOATS[dtype]:,}"
        counted = graph.moved_from(op.inputs[0]).op.type != "Placeholder"
        yield _hazard(graph, op, "warning", text, float(different.size - left), _COUNT_FIX if counted else _FIX)


def _integers(graph: Graph, op: Any, inputs: dict[int, Any], probes: Probes) -> np.ndarray | None:
    """The integers that are cast: of a constant, a range, or the sample."""
    start = graph.moved_from(op.inputs[0])
    written = graph.written(start.op)
    if written is not None:
        return as_float(written)
    if start.op.type == "Range":
        ends = [as_float(graph.written(x.op)) for x in graph.inputs(start.op)]
        if all(end is not None and end.size == 1 for end in ends):
            return np.arange(*(float(end.flat[0]) for end in ends))
    if probes and op.graph is graph.trace.graph:
        return as_float(probes.fetch([op.inputs[0]])[0])
    return None


def _hazard(graph: Graph, op: Any, severity: str, text: str, value: float, fix: str = _FIX) -> Hazard:
    line = line_of(op)
    where = graph.owner(op) or "inputs"
    return Hazard("identifier_through_float", severity, where, f"{text}{f' ({line})' if line else ''}.", fix, value)
