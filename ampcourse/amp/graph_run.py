"""Running a graph that grappler has rewritten, on whatever is here: float16 rounds alike on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def runner(graph: Any, function: Any) -> Callable[..., Any]:
    """A function that runs a rewritten `GraphDef` in place of the `ConcreteFunction` that it was made from.

    It takes what the ConcreteFunction takes, reads and writes the same variables, and returns the same structure.
    """
    import tensorflow as tf

    wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    inside = wrapped.graph
    feeds = [inside.get_tensor_by_name(t.name) for t in function.inputs]
    writes = [op for op in inside.get_operations() if op.type.startswith("Assign") or op.type.endswith("Variable")]
    pruned = wrapped.prune(feeds, [[inside.get_tensor_by_name(t.name) for t in function.outputs], writes])
    takes = len(function.inputs) - len(function.captured_inputs)

    def run(*args: Any) -> Any:
        flat = [value for value in tf.nest.flatten(args) if tf.is_tensor(value) or hasattr(value, "__array__")]
        if len(flat) != takes:
            arrays = "1 array or tensor" if takes == 1 else f"{takes} arrays or tensors"
            raise ValueError(f"The graph takes {arrays}, and {len(flat)} {'was' if len(flat) == 1 else 'were'} given.")
        for number, (value, t) in enumerate(zip(flat, function.inputs, strict=False), 1):
            if not t.shape.is_compatible_with(value.shape):
                raise ValueError(f"Array {number} has the shape {tuple(value.shape)}, and the graph takes {t.shape}.")
        values = [tf.cast(v, t.dtype) for v, t in zip(flat, function.inputs, strict=False)]
        outputs, _ = pruned(*values, *function.captured_inputs)
        return tf.nest.pack_sequence_as(function.structured_outputs, outputs, expand_composites=True)

    return run
