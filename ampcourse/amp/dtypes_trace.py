"""What a model's layers really do: its graph is traced once, and every operation is booked to the layer that made it.

A list of "layers that run in float32" would be out of date with the next release, and would know nothing of anybody's
own layers. So the model is called on symbolic inputs, as `fit` does, and two methods through which every call in
Keras goes are watched while that happens: `Layer.__call__` sees the arguments as they were given, `Operation.__call__`
sees them after the layer has cast them.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

FLOATS = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "float32", "float64")
# Operations that hand values on, or know only of their shape: they round nothing, so their dtype says nothing of how a
# layer computes.
_MOVES = frozenset(
    ("Cast", "Const", "Identity", "IdentityN", "StopGradient", "PreventGradient", "Placeholder", "EnsureShape")
    + ("PlaceholderWithDefault", "ReadVariableOp", "AssignVariableOp", "CheckNumerics", "Range")
    + ("Reshape", "ExpandDims", "Squeeze", "Transpose", "StridedSlice", "Slice", "ConcatV2", "Pack", "Unpack")
    + ("Split", "SplitV", "GatherV2", "ResourceGather", "GatherNd", "Tile", "BroadcastTo", "ReverseV2", "Pad", "PadV2")
    + ("ZerosLike", "OnesLike", "Fill", "SpaceToBatchND", "BatchToSpaceND")
    + ("If", "StatelessIf", "While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall")
    + ("TensorListStack", "TensorListGetItem", "TensorListFromTensor", "TensorListReserve", "TensorListSetItem")
)
_OF_SHAPE = frozenset(("Shape", "ShapeN", "Size", "Rank"))
_SOURCES = frozenset(("ReadVariableOp", "ResourceGather", "Placeholder"))
_one_at_a_time = threading.RLock()


@dataclass(eq=False)
class Use:
    """One call of one layer or operation while the model was traced."""

    layer: Any
    graph: Any
    start: int
    given: list[tuple[str, Any]] = field(default_factory=list)  # where an argument stands, and its tensor
    seen: dict[str, Any] = field(default_factory=dict)  # the same after the layer's casts
    outputs: list[Any] = field(default_factory=list)
    end: int = 0
    children: list[Use] = field(default_factory=list)
    parent: Use | None = None

    def casts(self) -> list[str]:
        """`"float32 -> float16"` for every argument that the layer cast before its `call`."""
        pairs = ((dtype_name(x), dtype_name(self.seen.get(place, x))) for place, x in self.given)
        return [f"{old} -> {new}" for old, new in pairs if old != new]

    def own_operations(self) -> list[Any]:
        """The operations of the layer itself: not those of the layers that it calls."""
        taken = [range(c.start, c.end) for c in self.children if c.graph is self.graph]
        operations = self.graph.get_operations()
        places = (i for i in range(self.start, self.end) if not any(i in r for r in taken))
        return [operations[i] for i in places]


def dtype_name(x: Any) -> str:
    """`"float16"` for a tensor, array, variable or dtype, of any library."""
    dtype = getattr(x, "dtype", x)
    return str(getattr(dtype, "name", dtype))


def trace(model: Any, arguments: Any, training: bool = True) -> list[Use]:
    """Call the model once on symbolic inputs and say which calls were made, in order.

    Args:
        model: a built Keras layer or model.
        arguments: its inputs as `tf.TensorSpec`s, in the structure in which the model takes them.
        training: trace what runs in training, or what runs at inference.
    """
    import tensorflow as tf

    uses: list[Use] = []

    def call(inputs: Any) -> Any:
        with _watched(model, uses):
            return model(inputs, training=training)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras says it again when the user calls the model
        # Keras keeps autograph out of its own training step, too.
        tf.function(call, autograph=False).get_concrete_function(arguments)
    return uses


@contextlib.contextmanager
def _watched(model: Any, uses: list[Use]) -> Iterator[None]:
    """Keras's two ways into a layer, and what classes put before them, watched in this thread while the block runs."""
    import keras

    thread, stack = threading.get_ident(), []
    layers = {c for layer in model._flatten_layers() for c in type(layer).__mro__ if "__call__" in vars(c)}
    layers = {c for c in layers | {keras.Layer} if issubclass(c, keras.Layer)}
    with _one_at_a_time:
        originals = {c: c.__call__ for c in (*layers, keras.Operation)}
        for c, original in originals.items():
            c.__call__ = _watching(original, uses, stack, thread, inner=c is keras.Operation)
        try:
            yield
        finally:
            for c, original in originals.items():
                c.__call__ = original


def _watching(original: Callable, uses: list[Use], stack: list[Use], thread: int, inner: bool) -> Callable:
    """A `__call__` that opens a `Use`; further in, that of the same call notes what the layer's `call` is given."""

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return original(self, *args, **kwargs)
        if stack and stack[-1].layer is self:
            if inner:
                stack[-1].seen = dict(_tensors((args, kwargs)))
            return original(self, *args, **kwargs)
        with _use(self, uses, stack, args, kwargs) as use:
            outputs = original(self, *args, **kwargs)
            use.outputs = [x for _, x in _tensors(outputs)]
        return outputs

    return __call__


@contextlib.contextmanager
def _use(layer: Any, uses: list[Use], stack: list[Use], args: Any, kwargs: Any) -> Iterator[Use]:
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    use = Use(layer, graph, _size(graph), _tensors((args, kwargs)))
    if stack:
        stack[-1].children.append(use)
        use.parent = stack[-1]
    uses.append(use)
    stack.append(use)
    try:
        yield use
    finally:
        stack.pop()
        use.end = _size(graph)


def _size(graph: Any) -> int:
    return len(graph.get_operations())


def _tensors(structure: Any) -> list[tuple[str, Any]]:
    """Every tensor or array of a structure, with a name for its place."""
    import keras

    flat = keras.tree.flatten(structure)
    paths = _places(structure)
    return [(place, x) for place, x in zip(paths, flat, strict=True) if hasattr(x, "dtype") and hasattr(x, "shape")]


def _places(structure: Any) -> list[str]:
    import tensorflow as tf

    with contextlib.suppress(Exception):
        return ["/".join(map(str, path)) for path, _ in tf.nest.flatten_with_joined_string_paths(structure)]
    import keras

    return [str(i) for i in range(len(keras.tree.flatten(structure)))]


def runs_inside(use: Use) -> dict[str, list[str]]:
    """Float dtype -> types of the operations that a layer itself computes in it, most frequent first.

    Only what depends on the layer's arguments or variables counts: constants that are folded beforehand do not.
    """
    found: dict[str, dict[str, int]] = {}
    live = {id(x) for _, x in use.given} | {id(x) for x in use.seen.values()}
    live |= {id(x) for child in use.children for x in child.outputs}
    elsewhere: dict[str, set[str]] = {}  # what layers called in the body of a loop or branch do there is theirs
    for child in use.children:
        if child.graph is not use.graph:
            names = (op.name for op in child.graph.get_operations()[child.start : child.end])
            elsewhere.setdefault(child.graph.name, set()).update(names)
    for operation in use.own_operations():
        _book(operation, live, found, elsewhere)
    return {dtype: sorted(types, key=lambda t: -types[t]) for dtype, types in found.items()}


def _book(operation: Any, live: set[int], found: dict[str, dict[str, int]], elsewhere: dict[str, set[str]]) -> None:
    """Book one operation, and what runs in the functions that it calls."""
    for body in _bodies(operation):
        inner: set[int] = set()
        for op in body.get_operations():
            if op.name not in elsewhere.get(body.name, ()):
                _book(op, inner, found, elsewhere)
    if operation.type in _OF_SHAPE:
        return
    if operation.type not in _SOURCES and not any(id(x) in live for x in operation.inputs):
        return
    live.update(id(x) for x in operation.outputs)
    if operation.type not in _MOVES:
        for dtype in {dtype_name(x) for x in operation.outputs} & set(FLOATS):
            types = found.setdefault(dtype, {})
            types[operation.type] = types.get(operation.type, 0) + 1


def _bodies(operation: Any) -> Iterator[Any]:
    """The graphs of the functions that an operation calls: the body of a loop, the arms of a branch."""
    definition = operation.node_def
    for key in definition.attr:
        if definition.attr[key].HasField("func"):
            # TensorFlow has no public way from a function's name to its graph. Without this one, a loop's body that
            # calls no layer stays unseen.
            look_up = getattr(operation.graph, "_get_function", None)
            body = getattr(look_up and look_up(definition.attr[key].func.name), "graph", None)
            if body is not None:
                yield body


def weight_casts(use: Use) -> list[str]:
    """`"float32 -> float16"` for each cast of a variable that the layer itself reads."""
    read = {id(x) for op in use.own_operations() if op.type == "ReadVariableOp" for x in op.outputs}
    return [cast for cast, x in _casts_of(use) if id(x) in read]


def input_casts(use: Use) -> list[str]:
    """The casts that a Functional or Sequential model makes of what it is given: it makes them inside its `call`."""
    given = {id(x) for _, x in use.given}
    return [cast for cast, x in _casts_of(use) if id(x) in given]


def _casts_of(use: Use) -> list[tuple[str, Any]]:
    casts = (op for op in use.own_operations() if op.type == "Cast")
    return [(f"{dtype_name(op.inputs[0])} -> {dtype_name(op.outputs[0])}", op.inputs[0]) for op in casts]
