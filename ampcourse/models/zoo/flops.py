"""Multiply-adds of matrix products and convolutions in a forward pass of one sample, computed from shapes alone.

What is added up are the products that a processor's matrix units take; normalisation, activations, additions, pooling
and the look-up of embeddings are left out, as is usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, prod


def conv(pixels: int, size: int, wide_in: int, wide_out: int) -> int:
    """A convolution of `size` by `size` that makes `pixels` places."""
    return pixels * size * size * wide_in * wide_out


def dense(rows: int, *widths: int) -> int:
    """Dense layers one after the other on `rows` rows; each of `widths` is one layer's outputs, the first the input."""
    return rows * sum(a * b for a, b in pairwise(widths))


def attention(queries: int, keys: int, width: int) -> int:
    """Scores of all heads together, and the weighted sums: `width` is that of all heads."""
    return 2 * queries * keys * width


def encoder(tokens: int, width: int, hidden: int, span: int | None = None) -> int:
    """A transformer block: four projections, attention to `span` tokens (all if None), two dense layers."""
    around = attention(tokens, span or tokens, width)
    return 4 * dense(tokens, width, width) + around + dense(tokens, width, hidden, width)


def lstm(steps: int, wide_in: int, units: int) -> int:
    """Four gates that read the input and the last output."""
    return steps * 4 * units * (wide_in + units)


def stages(
    size: tuple[int, int], wide: int, channels: Sequence[int], blocks: Sequence[int], bottleneck: bool
) -> tuple[int, list[tuple[int, int]]]:
    """Residual stages on a map of `size` and `wide` channels: multiply-adds, and the size that each stage leaves."""
    total, sizes = 0, []
    for stage, (narrow, count) in enumerate(zip(channels, blocks, strict=True)):
        out = 4 * narrow if bottleneck else narrow
        for place in range(count):
            before, stride = prod(size), 2 if stage and not place else 1
            size = (ceil(size[0] / stride), ceil(size[1] / stride))
            pixels = prod(size)
            if bottleneck:  # version 1.5: the 3x3 convolution strides
                total += conv(before, 1, wide, narrow) + conv(pixels, 3, narrow, narrow) + conv(pixels, 1, narrow, out)
            else:
                total += conv(pixels, 3, wide, narrow) + conv(pixels, 3, narrow, narrow)
            if stride > 1 or wide != out:
                total += conv(pixels, 1, wide, out)
            wide = out
        sizes.append(size)
    return total, sizes


def small_resnet(depth: int, shape: tuple[int, int, int], classes: int) -> int:
    """A ResNet for small pictures."""
    blocks = ((depth - 2) // 6,) * 3
    return (
        conv(prod(shape[:2]), 3, shape[2], 16)
        + stages(shape[:2], 16, (16, 32, 64), blocks, bottleneck=False)[0]
        + dense(1, 64, classes)
    )


def bottlenecks(
    shape: tuple[int, int, int], stem: int, channels: Sequence[int], blocks: Sequence[int]
) -> tuple[int, list[tuple[int, int]]]:
    """A ResNet-50 v1.5 without its logits: multiply-adds, and the sizes of its stages."""
    size = (ceil(shape[0] / 2), ceil(shape[1] / 2))
    pooled = (ceil(size[0] / 2), ceil(size[1] / 2))
    inside, sizes = stages(pooled, stem, channels, blocks, bottleneck=True)
    return conv(prod(size), 7, shape[2], stem) + inside, sizes


def resnet50(shape: tuple[int, int, int], classes: int, width: int = 64, blocks: Sequence[int] = (3, 4, 6, 3)) -> int:
    """ResNet-50 v1.5, whose channels double from stage to stage."""
    channels = [width << stage for stage in range(len(blocks))]
    return bottlenecks(shape, width, channels, blocks)[0] + dense(1, 4 * channels[-1], classes)
