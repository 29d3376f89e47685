"""The numbers that a sample leaves in a traced graph: chosen tensors are summed up and fetched, nothing else is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.amp.auditing.formats import dtype_of, is_low
from ampcourse.amp.auditing.graphs import Graph

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_UNSEEN = frozenset(("Const", "Placeholder", "ReadVariableOp"))


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
    """Summaries of tensors of a trace's outer graph, computed with a sample.

    Args:
        graph: the graph.
        feeds: the sample's flat arrays, one for each input of the trace.
    """

    def __init__(self, graph: Graph, feeds: list[Any] | None) -> None:
        self.graph, self.feeds = graph, feeds
        self._seen: dict[int, Seen] = {}

    def __bool__(self) -> bool:
        return self.feeds is not None

    def fetch(self, tensors: list[Any]) -> list[np.ndarray]:
        """The values of tensors of the outer graph."""
        import tensorflow as tf

        trace = self.graph.trace
        run = trace.wrapped.prune(trace.inputs, list(tensors))
        values = run(*(tf.convert_to_tensor(x, t.dtype) for x, t in zip(self.feeds, trace.inputs, strict=True)))
        return [np.asarray(x) for x in values]

    def look(self) -> None:
        """Sum up every low-precision tensor, and what such tensors are made from."""
        import tensorflow as tf

        if self.feeds is None:
            return
        outer, wanted = self.graph.trace.graph, []
        for op in outer.get_operations():
            if op.type in _UNSEEN or not any(is_low(x) for x in (*op.inputs, *op.outputs)):
                continue
            wanted += [x for x in (*op.inputs, *op.outputs) if dtype_of(x) in _FLOATS]
        wanted = list({id(x): x for x in wanted}.values())
        if not wanted:
            return
        with outer.as_default():
            rows = [_summary(x) for x in wanted]
            stacked = tf.stack(rows)
        for tensor, (largest, finite, nan) in zip(wanted, self.fetch([stacked])[0], strict=True):
            self._seen[id(tensor)] = Seen(float(largest), bool(finite), bool(nan))

    def seen(self, tensor: Any) -> Seen | None:
        """What a tensor held; None where nothing was fed, or the tensor lies in a nested function."""
        return self._seen.get(id(tensor))


def _summary(tensor: Any) -> Any:
    """Largest magnitude (in float32), whether all is finite, whether any is NaN: three numbers."""
    import tensorflow as tf

    wide = tf.cast(tensor, tf.float32)
    finite = tf.reduce_all(tf.math.is_finite(tensor))
    nan = tf.reduce_any(tf.math.is_nan(tensor))
    largest = tf.reduce_max(tf.abs(wide)) if tensor.shape.rank != 0 else tf.abs(wide)
    return tf.stack([largest, tf.cast(finite, tf.float32), tf.cast(nan, tf.float32)])
