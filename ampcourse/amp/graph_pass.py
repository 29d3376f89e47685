"""TensorFlow's own graph optimiser (grappler), run on a machine that exists only on paper.

The pass `auto_mixed_precision` asks a cluster of devices what it may do. A cluster can be described instead of owned,
so the rewrite for a GPU can be watched on a machine without one: the pass only edits the graph, nothing is run.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LISTS = ("allow", "infer", "deny", "clear")
OPTIONS = {
    "auto_mixed_precision": "float16",
    "auto_mixed_precision_onednn_bfloat16": "bfloat16",
    "auto_mixed_precision_cpu": "float16",
}
_TUNING = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"
_LOG = f"{_TUNING}LOG_PATH"
_HEADINGS = {f"{name.capitalize()}List:": name for name in LISTS}
# What the pass wants to know of a GPU besides its compute capability: with older libraries its allow list is shorter.
_LIBRARIES = {"cuda": "12050", "cudnn": "90300"}
_known: dict[tuple, dict[str, str]] = {}


def capability(device: str) -> tuple[int, int] | None:
    """`(8, 0)` for `"sm_80"`, None for `"cpu"`.

    Raises:
        ValueError: for anything else.
    """
    if isinstance(device, str):
        if device.lower() == "cpu":
            return None
        if match := re.fullmatch(r"sm_([1-9]|1[0-9])([0-9])", device.lower()):
            return int(match[1]), int(match[2])
    raise ValueError(
        f"The device {device!r} is not known: name a compute capability, such as 'sm_60' (P100), 'sm_70' (V100), "
        "'sm_80' (A100) or 'sm_90' (H100), or 'cpu'."
    )


def check_option(option: str) -> str:
    """The option itself, if there is one of this name.

    Raises:
        ValueError: for anything else.
    """
    if not isinstance(option, str) or option not in OPTIONS:
        known = ", ".join(f"'{name}'" for name in OPTIONS)
        raise ValueError(f"The option {option!r} is not known: the rewriting options of TensorFlow are {known}.")
    return option


def onednn_is_on() -> bool:
    """Whether this process uses oneDNN's kernels, without which the bfloat16 rewrite does nothing."""
    try:
        from tensorflow.python.util import _pywrap_util_port

        return bool(_pywrap_util_port.IsMklEnabled())
    except (ImportError, AttributeError):
        return False


def run(graph: Any, fetches: Sequence[str], passes: Sequence[str], arch: tuple[int, int] | None) -> Any:
    """A `GraphDef` after these passes and no others, as a machine with one such device would get it.

    Args:
        graph: a `tf.compat.v1.GraphDef`.
        fetches: names of tensors that must stay.
        passes: names of grappler's passes, in order.
        arch: the GPU's compute capability; None is a machine without a GPU.
    """
    from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import tf_optimizer

    meta = meta_graph_pb2.MetaGraphDef()
    meta.graph_def.CopyFrom(graph)
    meta.collection_def["train_op"].node_list.value.extend(fetches)
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.optimizers.extend(passes)
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewrite.min_graph_nodes = -1
    return tf_optimizer.OptimizeGraph(config, meta, cluster=_cluster(arch), verbose=False)


def op_lists(option: str) -> Mapping[str, str]:
    """Operation -> the list it is on (`"allow"`, `"infer"`, `"deny"` or `"clear"`), as the pass itself says.

    Environment variables that change the lists count. Empty where the pass cannot be run in this process.
    """
    tuning = tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith(_TUNING) and k != _LOG))
    key = (option, tuning, onednn_is_on())
    if key not in _known:
        _known[key] = _ask(option)
    return _known[key]


def _ask(option: str) -> dict[str, str]:
    """Let the pass rewrite one multiplication, with its debug log switched on: it writes its lists to a file."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2, 2], name="x")
        tf.identity(tf.linalg.matmul(x, x), name="y")
    arch = None if option.endswith("bfloat16") else (8, 0)
    with tempfile.TemporaryDirectory() as folder, _environment(_LOG, folder):
        run(graph.as_graph_def(), ["x:0", "y:0"], [option], arch)
        files = sorted(Path(folder).glob("paintbuckets*.txt"))
        text = files[0].read_text() if files else ""
    found, name = {}, ""
    for line in text.splitlines():
        if line in _HEADINGS:
            name = _HEADINGS[line]
        elif line.strip() and name:
            found[line.strip()] = name
    return found


def _cluster(arch: tuple[int, int] | None) -> Any:
    from tensorflow.core.protobuf import device_properties_pb2
    from tensorflow.python.grappler import cluster

    kind = "GPU" if arch else "CPU"
    properties = device_properties_pb2.DeviceProperties(type=kind, frequency=1000, num_cores=60)
    if arch:
        properties.environment["architecture"] = f"{arch[0]}.{arch[1]}"
        for name, version in _LIBRARIES.items():
            properties.environment[name] = version
    device = device_properties_pb2.NamedDevice(
        name=f"/job:localhost/replica:0/task:0/device:{kind}:0", properties=properties
    )
    return cluster.Cluster(devices=[device])


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
