"""Vision transformers, written out: tiny, S/16, B/16 and L/16.

Dosovitskiy et al., "An image is worth 16x16 words" (2020), section 3.1 and table 1; S/16 from Touvron et al., "Training
data-efficient image transformers" (2020), table 1; the stem of convolutions from Xiao et al., "Early convolutions help
transformers see better" (2021). Logits come out in float32 (float64 under that policy).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
from keras import layers

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Size:
    """How large: patches of `patch` pixels, `width` features a patch, `depth` blocks, `heads` heads."""

    patch: int
    width: int
    depth: int
    heads: int
    hidden: int


SIZES = {
    "tiny": Size(patch=4, width=64, depth=4, heads=4, hidden=128),
    "s16": Size(patch=16, width=384, depth=12, heads=6, hidden=1536),
    "b16": Size(patch=16, width=768, depth=12, heads=12, hidden=3072),
    "l16": Size(patch=16, width=1024, depth=24, heads=16, hidden=4096),
}
STEMS, POOLS = ("patches", "convolutions"), ("token", "mean")


def vit(
    size: str | Size = "tiny",
    shape: Shape = (28, 28, 1),
    classes: int = 10,
    dtype: Any = None,
    *,
    stem: str = "patches",
    pool: str = "token",
) -> keras.Model:
    """A vision transformer that reads the class from a token of its own, or from the mean over all patches.

    Args:
        size: "tiny", "s16", "b16" or "l16"; or a `Size` of your own.
        shape: height, width and channels of a picture; the first two are multiples of the patch.
        classes: how many logits.
        dtype: the dtype policy of every layer but the last; the global one if None.
        stem: "patches", one convolution as large as a patch; or "convolutions", small ones that halve the picture.
        pool: "token" or "mean".

    Returns:
        A model from pictures, shape (batch, *shape), to float32 logits, shape (batch, classes).

    Raises:
        ValueError: for a size, stem or pool that does not exist, or a picture that does not divide into patches.
    """
    if not (isinstance(size, Size) or size in SIZES) or stem not in STEMS or pool not in POOLS:
        names = f"size one of {', '.join(SIZES)}, stem one of {', '.join(STEMS)}, pool one of {', '.join(POOLS)}"
        raise ValueError(f"A vit has {names}; not {size!r}, {stem!r}, {pool!r}.")
    sizes, name = (size, "vit") if isinstance(size, Size) else (SIZES[size], f"vit_{size}")
    if shape[0] % sizes.patch or shape[1] % sizes.patch:
        raise ValueError(f"A picture of {shape[0]} x {shape[1]} does not divide into patches of {sizes.patch} pixels.")
    dtype = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
    inputs = keras.Input(shape)
    x = _stem(inputs, sizes, stem, dtype)
    x = Tokens(pool == "token", dtype=dtype, name="tokens")(x)
    for place in range(1, sizes.depth + 1):
        x = encoder_block(x, sizes, dtype, f"block{place}")
    x = _norm(dtype, "norm")(x)
    x = x[:, 0] if pool == "token" else layers.GlobalAveragePooling1D(dtype=dtype, name="pool")(x)
    wide = "float64" if dtype.compute_dtype == "float64" else "float32"
    return keras.Model(inputs, layers.Dense(classes, dtype=wide, name="logits")(x), name=name)


def encoder_block(x: Any, size: Size, dtype: Any, name: str) -> Any:
    """Self-attention, then two dense layers; each normalised before, and added to what came in."""
    y = _norm(dtype, f"{name}_norm1")(x)
    width = size.width // size.heads
    x = layers.Add(dtype=dtype, name=f"{name}_add1")(
        [x, layers.MultiHeadAttention(size.heads, width, dtype=dtype, name=f"{name}_attention")(y, y)]
    )
    y = _norm(dtype, f"{name}_norm2")(x)
    y = layers.Dense(size.hidden, activation="gelu", dtype=dtype, name=f"{name}_dense1")(y)
    y = layers.Dense(size.width, dtype=dtype, name=f"{name}_dense2")(y)
    return layers.Add(dtype=dtype, name=f"{name}_add2")([x, y])


def _norm(dtype: Any, name: str) -> Any:
    """Layer normalisation: float32 inside, whatever the policy computes in."""
    return layers.LayerNormalization(epsilon=1e-6, dtype=dtype, name=name)


def _stem(x: Any, size: Size, stem: str, dtype: Any) -> Any:
    """From pictures to one row of features a patch, shape (batch, patches, width)."""
    if stem == "convolutions":
        steps = size.patch.bit_length() - 1  # each halves the picture: patches are powers of two
        for step in range(steps):
            channels = max(8, size.width >> (steps - step))
            settings = {"strides": 2, "padding": "same", "use_bias": False, "dtype": dtype}
            x = layers.Conv2D(channels, 3, name=f"stem{step + 1}_conv", **settings)(x)
            x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5, dtype=dtype, name=f"stem{step + 1}_norm")(x)
            x = layers.ReLU(dtype=dtype, name=f"stem{step + 1}_relu")(x)
        x = layers.Conv2D(size.width, 1, dtype=dtype, name="patches")(x)
    else:
        x = layers.Conv2D(size.width, size.patch, strides=size.patch, dtype=dtype, name="patches")(x)
    return layers.Reshape((-1, size.width), dtype=dtype, name="rows")(x)


@keras.saving.register_keras_serializable(package="ampcourse")
class Tokens(layers.Layer):
    """Adds what says where a patch lies, and puts the token for the class in front if asked for.

    From shape (batch, patches, width) to (batch, patches or patches + 1, width).
    """

    def __init__(self, token: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.token = token

    def build(self, shape: tuple[int, ...]) -> None:
        """Weights for the places, and for the token: float32 under every mixed policy."""
        small = keras.initializers.TruncatedNormal(stddev=0.02)
        self.places = self.add_weight((1, shape[1] + self.token, shape[2]), small, name="places")
        if self.token:
            self.first = self.add_weight((1, 1, shape[2]), "zeros", name="token")

    def call(self, x: Any) -> Any:
        """The weights arrive in the compute dtype here: Keras casts them for the length of this call."""
        if self.token:
            first = keras.ops.broadcast_to(self.first, (keras.ops.shape(x)[0], 1, x.shape[-1]))
            x = keras.ops.concatenate([first, x], axis=1)
        return x + self.places

    def compute_output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One row more if there is a token."""
        return (shape[0], shape[1] + self.token, shape[2])

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        return super().get_config() | {"token": self.token}
