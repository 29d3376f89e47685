"""Matrix products and convolutions: their size, and which of their dimensions the hardware cares for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ampcourse.amp.auditing.graphs import size_of

PRODUCTS = frozenset(
    ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Conv1D", "Conv2D", "Conv3D")
)


def shape_of(tensor: Any) -> list[int | None]:
    """Dimensions, None where unknown."""
    return tensor.shape.as_list() if tensor.shape.rank is not None else []


def multiplications(op: Any) -> float:
    """Multiply-adds of one product; unknown dimensions (the batch) count once."""
    left, right = shape_of(op.inputs[0]), shape_of(op.inputs[-1])
    if not left or not right or len(op.inputs) < 2:
        return 0.0
    if op.type == "Einsum":
        return float(np.prod([n or 1 for n in _labels(op).values()]))
    if op.type.startswith("Conv"):
        return float(size_of(op.outputs[0])) * float(np.prod([n or 1 for n in right[:-1]]))
    return float(size_of(op.outputs[0])) * (_inner(op, left) or 1)


def channels(op: Any) -> list[int]:
    """The dimensions that Tensor Cores want to be multiples of 8: what is summed over, and what comes out."""
    left, right = shape_of(op.inputs[0]), shape_of(op.inputs[-1])
    if not left or not right or len(op.inputs) < 2:
        return []
    if op.type == "Einsum":
        sides, out = op.get_attr("equation").decode().split("->")
        summed = [c for c in sides.split(",")[0] if c not in out and c.isalpha()]
        last = [c for c in out[-1:] if c.isalpha()]
        labels = _labels(op)
        found = [int(np.prod([labels[c] or 0 for c in summed])) if summed else None, *(labels.get(c) for c in last)]
    elif op.type.startswith("Conv"):
        found = [right[-2] if (right[-2] or 0) > 4 else None, right[-1]]  # images of few channels are padded
    else:
        found = [_inner(op, left), shape_of(op.outputs[0])[-1]]
    return [n for n in found if n]


def _inner(op: Any, left: list[int | None]) -> int | None:
    flag = "transpose_a" if op.type == "MatMul" else "adj_x"
    return left[-2] if op.get_attr(flag) else left[-1]


def _labels(op: Any) -> dict[str, int | None]:
    """einsum's letters with the sizes that they stand for."""
    sides = op.get_attr("equation").decode().split("->")[0].split(",")
    sizes: dict[str, int | None] = {}
    for side, tensor in zip(sides, op.inputs, strict=True):
        letters = [c for c in side if c.isalpha()]
        if "." not in side and len(letters) == len(shape_of(tensor)):
            sizes |= {c: n if n is not None else sizes.get(c) for c, n in zip(letters, shape_of(tensor), strict=True)}
    return sizes
