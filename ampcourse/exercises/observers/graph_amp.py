"""Observers of lesson 05: a function or a training step, rewritten as for a GPU and run here in float16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_PRODUCTS = ("MatMul", "BatchMatMulV2", "Einsum")


def rewrite_and_sum(energy: Callable, x: Any, w: Any) -> dict[str, Any]:
    """Rewrite `energy(x, w)` for compute capability 8.0, run it, and say what came out and how it was multiplied."""
    import tensorflow as tf

    specs = [tf.TensorSpec(x.shape, tf.float32), tf.TensorSpec(w.shape, tf.float32)]
    function = tf.function(energy).get_concrete_function(*specs)
    graph = _rewritten(function)
    products = {tf.dtypes.as_dtype(n.attr["T"].type).name for n in graph.node if n.op in _PRODUCTS}
    outputs = _runner(graph, function)(tf.constant(x), tf.constant(w))
    value = outputs[0] if len(outputs) == 1 else [output.numpy() for output in outputs] or None
    return {
        "value": value,
        "dtype of the value": getattr(getattr(value, "dtype", None), "name", ""),
        "x @ w is in float16": "float16" in products,
    }


def train_rewritten(step: Callable, start: Any, batches: list[tuple], loss_scale: float) -> dict[str, Any]:
    """Rewrite `step(w, x, y, loss_scale)` for compute capability 8.0 and train with it, batch after batch.

    Reports after each batch how far the weights have moved, as a multiple of the largest movement of all that are
    finite, and the binary logarithm of that movement.
    """
    import numpy as np
    import tensorflow as tf

    w = tf.Variable(start)
    specs = [tf.TensorSpec(a.shape, tf.float32) for a in batches[0]]
    function = tf.function(lambda x, y: step(w, x, y, float(loss_scale))).get_concrete_function(*specs)
    run, moved = _runner(_rewritten(function), function), []
    for x, y in batches:
        run(tf.constant(x), tf.constant(y))
        moved.append(w.numpy() - start)
    finite = np.abs(moved)[np.isfinite(moved)]
    largest = float(finite.max(initial=0.0))
    return {"movement": np.array(moved) / (largest or 1.0), "size": np.log2(largest or 2.0**-149)}


def _rewritten(function: Any) -> Any:
    """The graph after grappler's auto_mixed_precision, for a GPU that need not be here."""
    from tensorflow.core.protobuf import config_pb2, device_properties_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import cluster, tf_optimizer

    gpu = device_properties_pb2.DeviceProperties(type="GPU", frequency=1000, num_cores=100)
    for name, value in {"architecture": "8.0", "cuda": "12050", "cudnn": "90300"}.items():
        gpu.environment[name] = value
    device = device_properties_pb2.NamedDevice(name="/job:localhost/replica:0/task:0/device:GPU:0", properties=gpu)
    graph = function.graph.as_graph_def()
    for name in ("function", "auto_mixed_precision"):  # inline what is nested, then rewrite
        meta = meta_graph_pb2.MetaGraphDef()
        meta.graph_def.CopyFrom(graph)
        meta.collection_def["train_op"].node_list.value.extend(t.name for t in (*function.inputs, *function.outputs))
        config = config_pb2.ConfigProto()
        rewrite = config.graph_options.rewrite_options
        rewrite.optimizers.append(name)
        rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
        rewrite.min_graph_nodes = -1
        graph = tf_optimizer.OptimizeGraph(config, meta, cluster=cluster.Cluster(devices=[device]), verbose=False)
    return graph


def _runner(graph: Any, function: Any) -> Callable[..., list]:
    """Runs the graph on the function's arguments and variables: its outputs, and whatever it writes."""
    import tensorflow as tf

    wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    inside = wrapped.graph
    feeds = [inside.get_tensor_by_name(t.name) for t in function.inputs]
    writes = [op for op in inside.get_operations() if op.type.startswith("Assign")]
    pruned = wrapped.prune(feeds, [[inside.get_tensor_by_name(t.name) for t in function.outputs], writes])
    return lambda *args: pruned(*args, *function.captured_inputs)[0]
