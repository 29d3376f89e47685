"""Sums and means that run in low precision: how many numbers, how large, and what they came to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ampcourse.amp.auditing.formats import LOW, dtype_of, is_low, told
from ampcourse.amp.auditing.graphs import Graph, line_of, size_of
from ampcourse.amp.auditing.probes import Probes
from ampcourse.amp.auditing.report import Hazard

REDUCES = frozenset(("Sum", "Mean", "Cumsum", "L2Loss", "EuclideanNorm", "SegmentSum", "UnsortedSegmentSum"))
_MANY = {"float16": 2048, "bfloat16": 65536}  # without a sample: so many equal terms stall a running float16 sum
_OFF = {"float16": 0.01, "bfloat16": 0.03}
_FIX = "m = keras.ops.mean(x)  # adds up in float32; or tf.reduce_mean(tf.cast(x, tf.float32))"


def reduction_hazards(graph: Graph, probes: Probes) -> Iterator[Hazard]:
    """Reductions in low precision over many numbers, or over numbers whose sum leaves the range."""
    found = [op for op in graph.forward() if _reduces(op) and is_low(op.inputs[0])]
    outer = [op for op in found if op.graph is graph.trace.graph] if probes else []
    values = probes.fetch([x for op in outer for x in _ends(op)]) if outer else []
    measured = {id(op): values[3 * i : 3 * i + 3] for i, op in enumerate(outer)}
    for op in found:
        if id(op) in measured:
            yield from _measured(graph, op, *measured[id(op)])
        else:
            yield from _counted(graph, op)


def _reduces(op: Any) -> bool:
    """Also an einsum of one operand is a sum."""
    return op.type in REDUCES or (op.type == "Einsum" and len(op.inputs) == 1)


def _ends(op: Any) -> list[Any]:
    """What is added up, along which axes, and what it came to."""
    axes = op.inputs[1] if len(op.inputs) > 1 else op.inputs[0]
    return [op.inputs[0], axes, op.outputs[0]]


def _measured(graph: Graph, op: Any, terms: Any, axes: Any, result: Any) -> Iterator[Hazard]:
    """Compare with the same in float64."""
    dtype = dtype_of(op.inputs[0])
    wide = np.asarray(terms).astype(np.float64)
    if not wide.size or not np.isfinite(wide).all():
        return
    right, total, count = _in_float64(op, wide, axes)
    got = np.asarray(result).astype(np.float64).reshape(right.shape)
    largest = LOW[dtype].largest
    what = f"{op.type} of {count:,} {dtype} numbers of up to {told(float(np.abs(wide).max()))}"
    if not np.isfinite(got).all() or total > largest:
        bad = ~np.isfinite(got)
        came = float(got[bad].flat[0]) if bad.any() else float(got.flat[0])
        should = float(right[bad].flat[0]) if bad.any() else float(right.flat[0])
        text = f"{what}: their sum reaches {told(total)}, beyond {told(largest)}; it came to {told(came)}, "
        severity = "error" if bad.any() or abs(came - should) > 0.1 * abs(should) else "warning"
        yield _hazard(graph, op, severity, f"{text}right is {told(should)}", total)
        return
    scale = np.abs(wide).mean() * (1 if op.type == "Mean" else count)
    off = float(np.abs(got - right).max() / scale) if scale > 0 else 0.0
    if count >= 64 and off > _OFF[dtype]:
        yield _hazard(graph, op, "warning", f"{what} is {off:.1%} off the sum in float64", off)


def _in_float64(op: Any, wide: np.ndarray, axes: Any) -> tuple[np.ndarray, float, int]:
    """The right result, the largest sum of magnitudes, and how many numbers go into one result."""
    if op.type in ("L2Loss", "EuclideanNorm"):
        total = float((wide**2).sum())
        return np.asarray(total / 2 if op.type == "L2Loss" else np.sqrt(total)), total, wide.size
    if op.type == "Cumsum":
        axis = int(np.asarray(axes))
        return np.cumsum(wide, axis), float(np.abs(wide).sum(axis).max()), wide.shape[axis]
    if op.type == "Einsum":
        right, total = (np.einsum(op.get_attr("equation").decode(), x) for x in (wide, np.abs(wide)))
        return np.asarray(right), float(np.max(total, initial=0.0)), wide.size // max(np.size(right), 1)
    if op.type.endswith("SegmentSum"):
        right, total = (_by_segment(x, np.asarray(axes), op.outputs[0]) for x in (wide, np.abs(wide)))
        return right, float(np.max(total, initial=0.0)), int(np.bincount(np.ravel(axes).clip(0)).max())
    axis = tuple(int(a) % max(wide.ndim, 1) for a in np.atleast_1d(np.asarray(axes)).ravel())
    total = np.abs(wide).sum(axis)
    right = wide.mean(axis) if op.type == "Mean" else wide.sum(axis)
    return np.asarray(right), float(np.max(total, initial=0.0)), wide.size // max(np.size(right), 1)


def _by_segment(x: np.ndarray, segments: np.ndarray, result: Any) -> np.ndarray:
    """What a sum by segments comes to; negative segments are left out, as TensorFlow does."""
    flat = x.reshape(segments.size, -1)
    rows = result.shape[0] or int(segments.max(initial=0)) + 1
    total, kept = np.zeros((rows, flat.shape[1])), segments.ravel() >= 0
    np.add.at(total, segments.ravel()[kept], flat[kept])
    return total.reshape(rows, *x.shape[segments.ndim :])


def _counted(graph: Graph, op: Any) -> Iterator[Hazard]:
    """Without values: how many numbers go into one result, as far as the shapes tell."""
    dtype = dtype_of(op.inputs[0])
    count = size_of(op.inputs[0]) // max(size_of(op.outputs[0]), 1)
    if count >= _MANY[dtype]:
        average = LOW[dtype].largest / count
        text = (
            f"{op.type} of {count:,} {dtype} numbers: beyond an average magnitude of {told(average)} it overflows, and "
        )
        yield _hazard(
            graph, op, "warning", f"{text}a running sum loses terms below 1/{2 * 2 ** LOW[dtype].fraction_bits}", count
        )


def _hazard(graph: Graph, op: Any, severity: str, text: str, value: float) -> Hazard:
    line = line_of(op)
    where = graph.owner(op) or "step"
    return Hazard(
        "low_precision_reduction", severity, where, f"{text}{f' ({line})' if line else ''}.", _FIX, float(value)
    )
