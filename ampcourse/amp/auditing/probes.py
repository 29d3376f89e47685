"""The numbers that a sample leaves in a traced graph: chosen tensors are fetched, nothing else is run.

A session runs the graph as it is, and only what the chosen tensors need: assignments never happen. What variables hold
is read once and fed. Where that is not possible (a function that reads variables itself), TensorFlow's own pruning
does the same, slowly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.amp.auditing.formats import dtype_of, is_low
from ampcourse.amp.auditing.graphs import Graph, size_of

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_AT_ONCE = 2**28  # bytes
# Bits of an infinity, without the sign; what is above is NaN.
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}


@dataclass(frozen=True)
class Seen:
    """What one tensor held.

    Attributes:
        largest: the largest magnitude; infinite or NaN where the tensor is not finite.
        finite: whether all of it was finite.
        nan: whether any of it was NaN.
    """

    largest: float
    finite: bool
    nan: bool


class Probes:
    """Numbers of a trace's outer graph, computed with a sample.

    Args:
        graph: the graph.
        feeds: the sample's flat arrays, one for each input of the trace; None where there is no sample.
    """

    def __init__(self, graph: Graph, feeds: list[Any] | None) -> None:
        self.graph, self.feeds = graph, feeds
        self._seen: dict[int, Seen] = {}
        self._fed = None if feeds is None else _fed(graph, feeds)
        self._session: Any = None

    def __bool__(self) -> bool:
        return self.feeds is not None

    def fetch(self, tensors: list[Any], instead: dict[str, Any] | None = None) -> list[np.ndarray]:
        """The values of tensors of the outer graph.

        Args:
            tensors: what to fetch.
            instead: name of a tensor -> the value that it shall have.
        """
        import tensorflow as tf

        if self._session is None:
            config = tf.compat.v1.ConfigProto()
            # As written: the optimizer would take minutes for hundreds of fetches, and change what is computed.
            config.graph_options.optimizer_options.opt_level = -1
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            self._session = tf.compat.v1.Session(graph=self.graph.trace.graph, config=config)
        try:
            return self._session.run(list(tensors), {**self._fed, **(instead or {})})
        except (tf.errors.OpError, TypeError, ValueError):
            if instead:
                raise
        trace = self.graph.trace
        run = trace.wrapped.prune(trace.inputs, list(tensors))
        values = run(*(tf.convert_to_tensor(x, t.dtype) for x, t in zip(self.feeds, trace.inputs, strict=True)))
        return [np.asarray(x.numpy()) for x in values]

    def close(self) -> None:
        """Let go of the session."""
        if self._session is not None:
            self._session.close()

    def look(self) -> None:
        """Sum up every low-precision tensor, what such tensors are made from, and the outputs."""
        if self.feeds is None:
            return
        outputs = [x for x in self.graph.trace.wrapped.outputs if dtype_of(x) in _FLOATS]
        wanted: dict[int, Any] = {id(x): x for x in outputs}
        for op in self.graph.trace.graph.get_operations():
            if any(is_low(x) for x in (*op.inputs, *op.outputs)):
                wanted |= {id(x): x for x in (*op.inputs, *op.outputs) if dtype_of(x) in _FLOATS}
        for batch in _batches(wanted.values()):
            for tensor, value in zip(batch, self.fetch(batch), strict=True):
                self._seen[id(tensor)] = summary(value)

    def seen(self, tensor: Any) -> Seen | None:
        """What a tensor held; None where nothing was fed, or the tensor lies in a nested function."""
        return self._seen.get(id(tensor))


def summary(value: Any) -> Seen:
    """The largest magnitude of an array, from its bit patterns: without the sign they are in the order of magnitude."""
    array = np.asarray(value)
    if not array.size or array.dtype.name not in _INFINITY:
        return Seen(0.0, True, False)
    unsigned = np.dtype(f"uint{8 * array.dtype.itemsize}")
    mask = unsigned.type(np.iinfo(unsigned).max >> 1)
    top = (np.ascontiguousarray(array).reshape(-1).view(unsigned) & mask).max()
    infinity = _INFINITY[array.dtype.name]
    return Seen(float(np.array([top], unsigned).view(array.dtype)[0]), bool(top < infinity), bool(top > infinity))


def _fed(graph: Graph, feeds: list[Any]) -> dict[str, Any]:
    """The sample, and everything that the graph takes from outside."""
    trace = graph.trace
    external = {inner.name: outer for outer, inner in trace.graph.captures}
    fed = {name: outer.numpy() for name, outer in external.items() if outer.dtype.name not in ("resource", "variant")}
    for op in trace.graph.get_operations():
        if op.type == "ReadVariableOp" and op.inputs[0].name in external:
            fed[op.outputs[0].name] = graph.written_by(op, external[op.inputs[0].name])
    for tensor, value in zip(trace.inputs, feeds, strict=True):
        with contextlib.suppress(TypeError, ValueError):
            fed[tensor.name] = np.asarray(value, dtype=tensor.dtype.as_numpy_dtype)
    return {name: value for name, value in fed.items() if value is not None}


def _batches(tensors: Iterable[Any]) -> Iterable[list[Any]]:
    """Tensors in groups that fit into memory together."""
    group, taken = [], 0
    for tensor in tensors:
        size = size_of(tensor) * tensor.dtype.size
        if group and taken + size > _AT_ONCE:
            yield group
            group, taken = [], 0
        group.append(tensor)
        taken += size
    if group:
        yield group
