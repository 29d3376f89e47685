"""Walking a traced graph: every operation with the layer that made it, across the borders of nested functions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ampcourse.amp.auditing.tracing import Trace

_OURS = str(Path(__file__).parent)
_LIBRARIES = (
    "/tensorflow/",
    "/keras/",
    "/keras_hub/",
    "/autograph/",
    "__autograph_generated",
    "/site-packages/",
    "<frozen",
    "/lib/python",
)
# What hands every number on as it is, or leaves some out.
MOVES = frozenset(
    ("Identity", "IdentityN", "StopGradient", "PreventGradient", "EnsureShape", "PlaceholderWithDefault")
    + ("Reshape", "ExpandDims", "Squeeze", "Transpose", "StridedSlice", "Slice", "Tile", "BroadcastTo", "ReverseV2")
    + ("GatherV2", "GatherNd", "Snapshot", "CheckNumerics", "Pack", "Unpack", "Split", "SplitV", "ConcatV2", "Fill")
)


class Graph:
    """A trace as the checks read it.

    Args:
        trace: what was traced.
        model: the model, whose trainable variables are no constants.
    """

    def __init__(self, trace: Trace, model: Any) -> None:
        self.trace = trace
        self._trainable = {_handle(v) for v in model.trainable_variables}
        self._external = {id(inner): outer for outer, inner in trace.graph.captures}
        self._outer: dict[int, Any] = {}  # placeholder in a nested function -> the tensor that it stands for
        self._inner: dict[int, list[Any]] = {}  # that tensor -> the placeholders
        self._results: dict[int, Any] = {}  # result of a call of a function -> the tensor inside
        self._returns: dict[int, list[Any]] = {}
        self._owners: dict[int, list[str]] = {}
        self._nested_in: dict[int, str] = {}
        self.operations = list(self._enter(trace.graph))

    def _enter(self, graph: Any, seen: frozenset[int] = frozenset()) -> Iterator[Any]:
        for op in graph.get_operations():
            yield op
            for body, arguments in bodies(op):
                if id(body) in seen:
                    continue
                self._nested_in.setdefault(id(body), self.owner(op))
                for inner, outer in zip(body.inputs, arguments, strict=False):
                    self._outer[id(inner)] = outer
                    self._inner.setdefault(id(outer), []).append(inner)
                for inside, result in zip(body.outputs, op.outputs, strict=False):
                    self._results[id(result)] = inside
                    self._returns.setdefault(id(inside), []).append(result)
                yield from self._enter(body, seen | {id(body)})

    def owner(self, op: Any) -> str:
        """Label of the layer that made an operation; "" for what no layer made."""
        graph = op.graph
        if id(graph) not in self._owners:
            owners = [self._nested_in.get(id(graph), "")] * len(graph.get_operations())
            for call in sorted((c for c in self.trace.calls if c.graph is graph), key=lambda c: c.depth):
                owners[call.start : call.end] = [call.label] * (call.end - call.start)
            self._owners[id(graph)] = owners
        owners = self._owners[id(graph)]
        place = self._places(graph).get(op.name, -1)
        return owners[place] if 0 <= place < len(owners) else ""

    def _places(self, graph: Any) -> dict[str, int]:
        if id(graph) not in self._order:
            self._order[id(graph)] = {op.name: i for i, op in enumerate(graph.get_operations())}
        return self._order[id(graph)]

    @cached_property
    def _order(self) -> dict[int, dict[str, int]]:
        return {}

    @cached_property
    def backward(self) -> set[tuple[int, str]]:
        """Operations that a gradient tape made."""
        return {
            (id(tape.graph), op.name)
            for tape in self.trace.tapes
            for op in tape.graph.get_operations()[tape.start : tape.end]
        }

    def forward(self) -> Iterator[Any]:
        """Every operation that no gradient tape made, nested ones included."""
        return (op for op in self.operations if (id(op.graph), op.name) not in self.backward)

    def scale_reads(self) -> list[str]:
        """Names of the tensors that hold a loss scale: of every wrapper that scaled a loss or applied gradients."""
        handles = {id(handle) for handle in self.trace.scales}
        for applied in self.trace.applied:
            scale = getattr(applied.optimizer, "dynamic_scale", None)
            handles |= {_handle(scale)} if scale is not None else set()
        reads = (op for op in self.trace.graph.get_operations() if op.type == "ReadVariableOp")
        return [op.outputs[0].name for op in reads if id(self._external.get(id(op.inputs[0]))) in handles]

    def rests_on(self, tensor: Any, names: list[str]) -> bool:
        """Whether any of the named tensors of the outer graph enters the computation of a tensor."""
        todo, seen, wanted = [tensor], set(), set(names)
        while todo:
            tensor = todo.pop()
            if tensor.name in wanted:
                return True
            if id(tensor) not in seen:
                seen.add(id(tensor))
                todo += list(tensor.op.inputs)
        return False

    def of_weights_alone(self, tensor: Any) -> bool:
        """Whether a tensor is computed from variables and constants only, and so not from any input."""
        todo, seen = [tensor], set()
        while todo:
            tensor = self.source(todo.pop())
            if id(tensor) in seen or id(tensor) in self._external:
                continue
            seen.add(id(tensor))
            if tensor.op.type == "Placeholder":
                return False
            todo += list(tensor.op.inputs)
        return True

    def source(self, tensor: Any) -> Any:
        """The tensor itself, or what it stands for outside or inside of a nested function."""
        for _ in range(20):
            if id(tensor) in self._outer:
                tensor = self._outer[id(tensor)]
            elif id(tensor) in self._results:
                tensor = self._results[id(tensor)]
            else:
                break
        return tensor

    def inputs(self, op: Any) -> list[Any]:
        """An operation's inputs, each followed to its source."""
        return [self.source(x) for x in op.inputs]

    def consumers(self, tensor: Any) -> list[tuple[Any, int]]:
        """(operation, which input) of everything that uses a tensor, inside nested functions, too."""
        found = []
        for op in tensor.consumers():
            if next(bodies(op), None) is None:
                found += [(op, i) for i, x in enumerate(op.inputs) if x is tensor]
        for other in (*self._inner.get(id(tensor), ()), *self._returns.get(id(tensor), ())):
            if other is not tensor:
                found += self.consumers(other)
        return found

    def moved_from(self, tensor: Any) -> Any:
        """Back through operations that only hand numbers on, along their first input."""
        for _ in range(60):
            tensor = self.source(tensor)
            if tensor.op.type not in MOVES or not tensor.op.inputs:
                break
            tensor = tensor.op.inputs[0]
        return tensor

    def written(self, op: Any) -> Any:
        """The number that a constant holds as it was written in Python; None if the operation is no constant.

        An eager tensor or a variable that is not trained counts as a constant.
        """
        if op.type == "Const":
            key = (id(op.graph), op.name)
            return self.trace.constants[key] if key in self.trace.constants else _constant(op)
        if op.type == "ReadVariableOp":
            handle = self._external.get(id(self.source(op.inputs[0])))
            if handle is None or id(handle) in self._trainable:
                return None
            return self.written_by(op, handle)
        external = self._external.get(id(op.outputs[0])) if op.outputs else None
        return external.numpy() if hasattr(external, "numpy") and external.dtype.name != "resource" else None

    def written_by(self, op: Any, handle: Any) -> Any:
        """What a variable holds that an operation reads; None if it holds nothing yet."""
        key = id(handle)
        if key not in self._values:
            self._values[key] = _read(handle, op.get_attr("dtype"))
        return self._values[key]

    @cached_property
    def _values(self) -> dict[int, Any]:
        return {}

    def is_constant(self, op: Any) -> bool:
        """Whether an operation holds a constant."""
        return op.type == "Const" or (bool(op.outputs) and id(op.outputs[0]) in self._external)


def _handle(variable: Any) -> int:
    return id(getattr(getattr(variable, "value", variable), "handle", None))


def _constant(op: Any) -> Any:
    import tensorflow as tf

    return tf.make_ndarray(op.get_attr("value"))


def _read(handle: Any, dtype: Any) -> Any:
    import tensorflow as tf

    try:
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype).numpy()
    except tf.errors.OpError:
        return None


def bodies(op: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The graphs of the functions that an operation calls, each with the tensors that it is given."""
    definition = op.node_def.attr
    for key in definition:
        if definition[key].HasField("func"):
            # TensorFlow has no public way from a function's name to its graph.
            look_up = getattr(op.graph, "_get_function", None)
            body = getattr(look_up and look_up(definition[key].func.name), "graph", None)
            if body is not None:
                skip = 1 if op.type in ("If", "StatelessIf", "Case", "StatelessCase") else 0
                yield body, list(op.inputs)[skip:]


_MACHINERY = ("/tensorflow/", "/keras/src/backend/", "/keras/src/ops/", "/keras/src/utils/", "<frozen")


def is_asked_for(cast: Any) -> bool:
    """Whether a layer's own code calls `cast`, rather than a library where dtypes differ."""
    frames = [frame for frame in cast.traceback or () if not frame.filename.startswith(_OURS)]
    last = max((i for i, f in enumerate(frames) if not any(part in f.filename for part in _MACHINERY)), default=-1)
    wrappers = ("error_handler", "op_dispatch_handler", "wrapper", "new_func", "decorated")
    return next((f.name for f in frames[last + 1 :] if f.name not in wrappers), "") == "cast"


def _is_users(frame: Any) -> bool:
    return not frame.filename.startswith(_OURS) and not any(part in frame.filename for part in _LIBRARIES)


def line_of(op: Any) -> str:
    """Where an operation was written: `"file.py, line 12: x + 1e-8"`; "" where only libraries know."""
    import linecache

    frames = list(op.traceback or ())
    # What called the audit wrote none of the model.
    audited = next((i for i, frame in enumerate(frames) if frame.filename.startswith(_OURS)), 0)
    for frame in reversed(frames[audited:]):
        name = frame.filename
        if not _is_users(frame):
            continue
        code = " ".join((linecache.getline(name, frame.lineno) or frame.line or "").split())[:120]
        place = "this notebook" if "ipykernel" in name or name.startswith("<ipython") else Path(name).name
        return f"{place}, line {frame.lineno}" + (f": {code}" if code else "")
    return ""


def size_of(tensor: Any) -> int:
    """Elements of a tensor as far as its shape is known; unknown dimensions count once."""
    dimensions = tensor.shape.as_list() if tensor.shape.rank is not None else []
    return int(np.prod([n or 1 for n in dimensions])) if dimensions else 1
