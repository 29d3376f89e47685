"""Residual networks, written out: the small ones for pictures of 28 or 32 pixels, and ResNet-50 v1.5.

He et al., "Deep residual learning for image recognition" (2015): section 4.2 has the small ones (6n + 2 layers), table
1 has ResNet-50. Version 1.5 strides in the 3x3 convolution of a block instead of the first 1x1. Shortcuts that change
the shape are 1x1 convolutions. Logits come out in float32 (float64 under that policy), whatever the policy is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

Shape = tuple[int, int, int]
Block = Callable[..., Any]

SMALL_DEPTHS = (8, 20, 32, 44, 56, 110)


def small_resnet(depth: int = 20, shape: Shape = (28, 28, 1), classes: int = 10, dtype: Any = None) -> keras.Model:
    """A ResNet for small pictures: 3 stages of `(depth - 2) / 6` basic blocks with 16, 32 and 64 channels.

    Args:
        depth: 8, 20, 32, 44, 56 or 110 layers.
        shape: height, width and channels of a picture.
        classes: how many logits.
        dtype: the dtype policy of every layer but the last; the global one if None.

    Returns:
        A model from pictures, shape (batch, *shape), to float32 logits, shape (batch, classes).

    Raises:
        ValueError: for another depth.
    """
    if depth not in SMALL_DEPTHS:
        raise ValueError(f"depth must be one of {', '.join(map(str, SMALL_DEPTHS))}, not {depth!r}.")
    dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
    inputs = keras.Input(shape)
    x = _conv_norm(inputs, 16, 3, dtype=dtype, name="stem", relu=True)
    x = _stages(x, basic_block, (16, 32, 64), ((depth - 2) // 6,) * 3, dtype)
    return keras.Model(inputs, _head(x, classes, dtype), name=f"resnet{depth}")


def resnet50(
    shape: Shape = (224, 224, 3),
    classes: int = 1000,
    dtype: Any = None,
    *,
    width: int = 64,
    blocks: tuple[int, ...] = (3, 4, 6, 3),
) -> keras.Model:
    """ResNet-50 v1.5; the first arguments and the result as of `small_resnet`.

    Args:
        shape: height, width and channels of a picture.
        classes: how many logits.
        dtype: the dtype policy of every layer but the last; the global one if None.
        width: channels of the stem; fewer make a cut-down model for tests.
        blocks: bottleneck blocks in each stage.
    """
    dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
    inputs = keras.Input(shape)
    x = _conv_norm(inputs, width, 7, stride=2, dtype=dtype, name="stem", relu=True)
    x = layers.ZeroPadding2D(1, dtype=dtype, name="stem_pool_pad")(x)  # after the ReLU, 0 is as good as -infinity
    x = layers.MaxPooling2D(3, strides=2, dtype=dtype, name="stem_pool")(x)
    channels = tuple(width << stage for stage in range(len(blocks)))
    x = _stages(x, bottleneck_block, channels, blocks, dtype)
    return keras.Model(inputs, _head(x, classes, dtype), name="resnet50")


def basic_block(x: Any, channels: int, stride: int, dtype: Any, name: str) -> Any:
    """Two 3x3 convolutions beside a shortcut."""
    y = _conv_norm(x, channels, 3, stride, dtype=dtype, name=f"{name}_1", relu=True)
    y = _conv_norm(y, channels, 3, dtype=dtype, name=f"{name}_2")
    return _join(x, y, channels, stride, dtype, name)


def bottleneck_block(x: Any, channels: int, stride: int, dtype: Any, name: str) -> Any:
    """A 1x1, a 3x3 (which strides: version 1.5) and a 1x1 convolution to 4 times the channels, beside a shortcut."""
    y = _conv_norm(x, channels, 1, dtype=dtype, name=f"{name}_1", relu=True)
    y = _conv_norm(y, channels, 3, stride, dtype=dtype, name=f"{name}_2", relu=True)
    y = _conv_norm(y, 4 * channels, 1, dtype=dtype, name=f"{name}_3")
    return _join(x, y, 4 * channels, stride, dtype, name)


def _stages(x: Any, block: Block, channels: tuple[int, ...], blocks: tuple[int, ...], dtype: Any) -> Any:
    """Stages of blocks; each but the first halves height and width in its first block."""
    for stage, (width, count) in enumerate(zip(channels, blocks, strict=True), 1):
        for place in range(1, count + 1):
            stride = 2 if stage > 1 and place == 1 else 1
            x = block(x, width, stride, dtype=dtype, name=f"stage{stage}_block{place}")
    return x


def _conv_norm(x: Any, channels: int, size: int, stride: int = 1, *, dtype: Any, name: str, relu: bool = False) -> Any:
    """Convolution without bias, batch normalisation (in float32 inside), and a ReLU if asked for."""
    if stride > 1 and size > 1:  # the same on both sides, as other frameworks pad; "same" would put more on one side
        x = layers.ZeroPadding2D(size // 2, dtype=dtype, name=f"{name}_pad")(x)
    padding = "valid" if stride > 1 else "same"
    settings = {"use_bias": False, "kernel_initializer": "he_normal", "dtype": dtype}
    x = layers.Conv2D(channels, size, stride, padding, name=f"{name}_conv", **settings)(x)
    # 0.9, not Keras's 0.99: a run of a few hundred steps would end before slower averages have left their start.
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5, dtype=dtype, name=f"{name}_norm")(x)
    return layers.ReLU(dtype=dtype, name=f"{name}_relu")(x) if relu else x


def _join(x: Any, y: Any, channels: int, stride: int, dtype: Any, name: str) -> Any:
    """The shortcut added to the branch, through a 1x1 convolution where the shapes differ, and a ReLU."""
    if stride > 1 or x.shape[-1] != channels:
        x = _conv_norm(x, channels, 1, stride, dtype=dtype, name=f"{name}_shortcut")
    return layers.ReLU(dtype=dtype, name=f"{name}_out")(layers.Add(dtype=dtype, name=f"{name}_add")([x, y]))


def _head(x: Any, classes: int, dtype: Any) -> Any:
    """The mean over all places, and logits in float32."""
    x = layers.GlobalAveragePooling2D(dtype=dtype, name="pool")(x)
    wide = "float64" if dtype.compute_dtype == "float64" else "float32"
    return layers.Dense(classes, dtype=wide, name="logits")(x)
