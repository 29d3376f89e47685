"""Lesson 05's rules of painting, counting and refusing are those of TensorFlow's own pass, not ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ampcourse.amp import rewritten_graph
from ampcourse.exercises.answers.graph_amp.casts import count_casts
from ampcourse.exercises.answers.graph_amp.paint import paint
from ampcourse.exercises.answers.graph_amp.settings import OPTIONS, matmul_dtype

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(
    not tf.test.is_built_with_cuda(), reason="the pass asks for GPU kernels, which only TensorFlow's CUDA build has"
)
# An operation of each list, with one input and with two.
OPERATIONS = {
    ("allow", 1): lambda x: tf.matmul(x, x),
    ("allow", 2): tf.matmul,
    ("infer", 1): tf.tanh,
    ("infer", 2): tf.subtract,
    ("clear", 1): tf.nn.relu,
    ("clear", 2): tf.maximum,
    ("deny", 1): tf.exp,
    ("deny", 2): tf.pow,
    ("none", 1): tf.cos,
    ("none", 2): tf.atan2,
}


def built(kinds: list[str], inputs: list[list[int]]) -> Any:
    """The described graph as a function; what reads nothing reads the argument, and what nobody reads is returned."""

    def function(x: Any) -> list:
        values: list = []
        for number, (kind, sources) in enumerate(zip(kinds, inputs, strict=True)):
            with tf.name_scope(f"operation_{number}"):
                values.append(OPERATIONS[kind, max(len(sources), 1)](*([values[a] for a in sources] or [x])))
        read = {a for sources in inputs for a in sources}
        return [value for number, value in enumerate(values) if number not in read]

    return function


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)])
def test_the_rules_of_painting_are_those_of_the_pass(seed: int) -> None:
    groups = paint.inputs(np.random.default_rng(seed))
    rows = [row for (group,) in groups.values() for row in group[: 12 if seed == 0 else None]]
    for kinds, inputs in rows:
        seen = rewritten_graph(built(kinds, inputs), tf.TensorSpec((2, 2)))
        nodes = {n.name.partition("/")[0]: n for n in seen.nodes if n.name.startswith("operation_")}
        nodes = [nodes[f"operation_{i}"] for i in range(len(kinds))]
        assert [n.list or "none" for n in nodes] == kinds
        assert [n.after == "float16" for n in nodes] == list(paint.right(kinds, inputs)), (kinds, inputs)


def test_casts_are_counted_as_the_pass_inserts_them() -> None:
    kinds = ["allow", "none", "clear", "deny", "allow", "none", "none"]
    inputs = [[], [0], [0], [0, 2], [2, 3], [0, 3], [4]]
    seen = rewritten_graph(built(kinds, inputs), tf.TensorSpec((2, 2)))
    # the argument, and the outputs, are nodes that the description does not show
    ends = [i for i in range(len(kinds)) if i not in {a for sources in inputs for a in sources}]
    painted = [*paint.right(kinds, inputs), False, *[False] * len(ends)]
    edges = [[a, b] for b, sources in enumerate(inputs) for a in sources]
    edges += [[len(kinds), b] for b, sources in enumerate(inputs) if not sources]
    edges += [[a, len(kinds) + 1 + number] for number, a in enumerate(ends)]
    assert count_casts.right(painted, edges) == len(seen.casts) > 2


@pytest.mark.parametrize("device", ["sm_62", "sm_70", "sm_100", "cpu"])
def test_settings_are_judged_as_the_pass_does(device: str) -> None:
    for option in filter(None, OPTIONS):
        seen = rewritten_graph(lambda x: x @ x, tf.TensorSpec((2, 2)), device=device, option=option)
        if "oneDNN is off" in seen.reason:
            continue
        assert seen.of("MatMul")[0].after == matmul_dtype.right(device, option, False, False)
