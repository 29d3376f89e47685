"""Which tensors the forward pass makes and the backward pass reads: a training step is traced twice, and read.

TensorFlow's tape adds the backward pass to the same graph, behind the forward pass. So a tensor is kept if an
operation in front of the line made it and one behind the line reads it. Tracing for a batch and for one of twice the
size shows which tensors grow with the batch. Nothing is run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# What only looks at another tensor's memory: both are one.
_VIEWS = frozenset(("Reshape", "Identity", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient", "EnsureShape"))
# Kept anyway, and counted elsewhere: variables, the batch itself, constants.
_NOT_MADE = frozenset(("ReadVariableOp", "VarHandleOp", "Placeholder", "PlaceholderWithDefault", "Const", "Shape"))


@dataclass(frozen=True)
class KeptTensor:
    """One tensor that is kept from the forward pass for the backward pass.

    Attributes:
        name: of the operation that makes it, which begins with the names of the layers around it.
        kind: the operation's type, such as `"MatMul"`.
        dtype: such as `"float16"`.
        shape: at the batch size that was asked for.
        bytes: its size at that batch size.
        grows: whether its size is proportional to the batch; if not, it has the same size for every batch.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    grows: bool


@dataclass(frozen=True)
class Traced:
    """A training step, read.

    Attributes:
        tensors: what is kept, in the order in which it is made.
        unknown: how many kept tensors have no size that a graph could tell, such as the lists of a loop.
        uneven: names of kept tensors that grow, but not in proportion to the batch.
        gradients: bytes of the gradients that come out.
    """

    tensors: tuple[KeptTensor, ...]
    unknown: int
    uneven: tuple[str, ...]
    gradients: int


def trace_step(step: Callable[..., Any], specs: Callable[[int], Any], batch: int) -> Traced:
    """Trace `step(arguments, mark)`, which calls `mark()` between forward and backward pass and returns gradients.

    Args:
        step: the training step.
        specs: its arguments as `tf.TensorSpec`s, for a batch size.
        batch: the batch size asked for.
    """
    graph, line, gradients = _graph(step, specs(batch))
    twice = {name: size for name, _, size in _kept(*_graph(step, specs(2 * batch))[:2])}
    tensors, unknown, uneven = [], 0, []
    for name, tensor, size in _kept(graph, line):
        if size is None:
            unknown += 1
            continue
        double = twice.get(name)
        if double not in (size, 2 * size):
            uneven.append(name)
        shape = tuple(tensor.shape)
        tensors.append(KeptTensor(name, tensor.op.type, tensor.dtype.name, shape, size, grows=double != size))
    return Traced(tuple(tensors), unknown, tuple(uneven), sum(_bytes(g) or 0 for g in gradients if g is not None))


def _graph(step: Callable[..., Any], arguments: Any) -> tuple[Any, int, list[Any]]:
    """The graph of a step, the number of operations in its forward pass, and the gradients."""
    import tensorflow as tf

    noted: dict[str, Any] = {}

    def traced(given: Any) -> list[Any]:
        graph = tf.compat.v1.get_default_graph()

        def mark() -> None:
            noted["line"] = len(graph.get_operations())

        noted["graph"], noted["gradients"] = graph, step(given, mark)
        return [g for g in noted["gradients"] if g is not None]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras says it again when the user calls the model
        tf.function(traced, autograph=False).get_concrete_function(arguments)
    return noted["graph"], noted["line"], noted["gradients"]


def _kept(graph: Any, line: int) -> Iterator[tuple[str, Any, int | None]]:
    """Every kept tensor once, as (name, tensor, bytes or None)."""
    import tensorflow as tf

    operations = graph.get_operations()
    forward, seen = set(operations[:line]), set()
    for tensor in (x for op in operations[:line] for x in op.outputs):
        if not (tensor.dtype.is_floating or tensor.dtype == tf.variant):
            continue
        if all(reader in forward for reader in tensor.consumers()):
            continue
        owner = _owner(tensor)
        if owner.ref() in seen or owner.op.type in _NOT_MADE:
            continue
        seen.add(owner.ref())
        yield owner.name, owner, _bytes(owner)


def _owner(tensor: Any) -> Any:
    """The tensor whose memory this one is."""
    while tensor.op.type in _VIEWS:
        tensor = tensor.op.inputs[0]
    return tensor


def _bytes(x: Any) -> int | None:
    """The size of a tensor or of a sparse gradient; None if the graph does not tell it."""
    if hasattr(x, "values") and hasattr(x, "indices"):
        x = x.values
    if not x.dtype.is_floating or not x.shape.is_fully_defined():
        return None
    return int(x.shape.num_elements()) * x.dtype.size
