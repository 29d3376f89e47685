"""Lesson 06: what its exercises call right is what TensorFlow and XLA do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ampcourse import quietly
from ampcourse.amp.xla_module import HloModule
from ampcourse.exercises.answers.xla_fusion import chain_bytes, count_programs, least_time


def traces_of(calls: list[tuple], any_batch: bool) -> int:
    """How often TensorFlow really traces a function that is called like that."""
    import tensorflow as tf

    traces = []

    def fn(x: Any, rate: Any) -> Any:
        traces.append(1)
        return x * tf.cast(rate, x.dtype)

    spec = [tf.TensorSpec([None, 8], calls[0][1]), tf.TensorSpec([], tf.float32)]
    compiled = tf.function(fn, input_signature=spec if any_batch else None)
    for batch, dtype, rate in calls:
        compiled(tf.zeros([batch, 8], dtype), rate)
    return len(traces)


@pytest.mark.parametrize("seed", range(2))
def test_traces_are_counted_as_tensorflow_counts_them(seed: int) -> None:
    for (rows,) in count_programs.inputs(np.random.default_rng(seed)).values():
        calls, any_batch = rows[0]
        with quietly():
            counted = traces_of(calls, any_batch)
        assert counted == count_programs.right(calls, any_batch)[0]


@pytest.mark.parametrize("seed", range(3))
def test_bytes_are_counted_as_the_hlo_tool_counts_them(seed: int) -> None:
    for ops, elements, itemsize in chain_bytes.inputs(np.random.default_rng(seed)).values():
        shape = f"{'f32' if itemsize == 4 else 'f16'}[{elements}]"
        outside = sorted({name for _, inputs in ops for name in inputs} - {result for result, _ in ops})
        lines = [f"{name} = {shape} parameter({number})" for number, name in enumerate(outside)]
        body = [f"{result} = {shape} opcode({', '.join(inputs)})" for result, inputs in ops]
        call = f"ROOT fused = {shape} fusion({', '.join(outside)}), kind=kLoop, calls=inner"
        text = ["HloModule m", "inner {", *lines, *body[:-1], "ROOT " + body[-1], "}", "ENTRY e {", *lines, call, "}"]
        (fusion,) = HloModule.from_text("\n".join(text)).fusions
        assert chain_bytes.right(ops, elements, itemsize) == (fusion.bytes_alone, fusion.bytes_moved)


def test_operations_of_a_product_are_counted_as_the_hlo_tool_counts_them() -> None:
    module = HloModule.from_text(
        "HloModule m\nENTRY e {\na = f16[5,7] parameter(0)\nb = f16[7,3] parameter(1)\n"
        "ROOT d = f16[5,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    )
    (dot,) = module.dots
    intensity, seconds = least_time.right(5, 7, 3, 2, 1e9, 1e18)
    assert intensity == pytest.approx(dot.flops / dot.bytes_moved)
    assert seconds == pytest.approx(dot.flops / 1e9)
