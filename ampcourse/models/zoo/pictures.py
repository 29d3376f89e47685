"""Classifiers of pictures: ResNet and ViT from `ampcourse.models`, Swin from keras-hub."""

from __future__ import annotations

import warnings
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from ampcourse.models.zoo import flops
from ampcourse.models.zoo.workload import Workload, ZooError, keras_hub, pictures

if TYPE_CHECKING:
    import keras

Shape = tuple[int, int, int]
IMAGENET = ((224, 224, 3), 1000)
CIFAR = ((32, 32, 3), 10)
SMALL = ((64, 64, 3), 10)
HE = "He et al. 2015, Deep residual learning for image recognition"
DOSOVITSKIY = "Dosovitskiy et al. 2020, An image is worth 16x16 words, table 1"
TOUVRON = "Touvron et al. 2020, Training data-efficient image transformers, table 1"
LIU = "Liu et al. 2021, Swin transformer, section 3.3; model of keras-hub"

VITS = {
    "vit_tiny": ("ViT-tiny", "this course's own size, after Dosovitskiy et al. 2020", {"cpu": 64, "gpu": 1024}),
    "vit_s16": ("ViT-S/16", TOUVRON, {"cpu": 8, "gpu": 256}),
    "vit_b16": ("ViT-B/16", DOSOVITSKIY, {"cpu": 4, "gpu": 256}),
    "vit_l16": ("ViT-L/16", DOSOVITSKIY, {"cpu": 2, "gpu": 128}),
}
# Cut down: patch, width, depth, heads, hidden; the order of their sizes stays.
SMALL_VITS = {
    "vit_tiny": (4, 32, 2, 2, 64),
    "vit_s16": (8, 48, 2, 3, 192),
    "vit_b16": (8, 64, 2, 4, 256),
    "vit_l16": (8, 96, 4, 4, 384),
}


def _classifier(name: str, scale: str, shape: Shape, classes: int, **rest: Any) -> Workload:
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    samples = pictures(shape, classes)
    return Workload(name=name, scale=scale, unit="pictures", samples=samples, loss=loss, **rest)


def _sgd() -> keras.optimizers.Optimizer:
    import keras

    return keras.optimizers.SGD(0.05, momentum=0.9)


def _adamw() -> keras.optimizers.Optimizer:
    import keras

    return keras.optimizers.AdamW(1e-3, weight_decay=0.05)


def small_resnet(depth: int, scale: str, shape: Shape | None, classes: int | None) -> Workload:
    """ResNet-8, 20 or 56 on pictures as small as CIFAR's; small: half as wide and as high."""
    from ampcourse.models import resnet

    shape, classes = shape or (CIFAR[0] if scale == "full" else (16, 16, 3)), classes or CIFAR[1]
    return _classifier(
        f"resnet{depth}",
        scale,
        shape,
        classes,
        title=f"ResNet-{depth}",
        build=partial(resnet.small_resnet, depth, shape, classes),
        flops=6 * flops.small_resnet(depth, shape, classes),
        batches={"cpu": 64, "gpu": 1024},
        source=f"{HE}, section 4.2",
        make_optimizer=_sgd,
    )


def resnet50(scale: str, shape: Shape | None, classes: int | None) -> Workload:
    """ResNet-50 v1.5; small: a quarter as wide, with one block a stage."""
    from ampcourse.models import resnet

    usual_shape, usual_classes = IMAGENET if scale == "full" else SMALL
    shape, classes = shape or usual_shape, classes or usual_classes
    cut = {} if scale == "full" else {"width": 16, "blocks": (1, 1, 1, 1)}
    return _classifier(
        "resnet50",
        scale,
        shape,
        classes,
        title="ResNet-50",
        build=partial(resnet.resnet50, shape, classes, **cut),
        flops=6 * flops.resnet50(shape, classes, **cut),
        batches={"cpu": 8 if scale == "full" else 32, "gpu": 256},
        source=f"{HE}, table 1; version 1.5, which strides in the 3x3 convolutions",
        make_optimizer=_sgd,
    )


def vit(name: str, scale: str, shape: Shape | None, classes: int | None) -> Workload:
    """A vision transformer; small: narrower, and 2 or 4 blocks on smaller patches."""
    from ampcourse.models import vit as written

    title, source, batches = VITS[name]
    tiny = name == "vit_tiny"
    usual_shape, usual_classes = CIFAR if tiny else IMAGENET if scale == "full" else SMALL
    shape, classes = shape or usual_shape, classes or usual_classes
    size = written.SIZES[name.removeprefix("vit_")] if scale == "full" else written.Size(*SMALL_VITS[name])
    if shape[0] % size.patch or shape[1] % size.patch:
        there = f"pictures of {shape[0]} x {shape[1]}"
        raise ZooError(f"{title} reads patches of {size.patch} pixels, into which {there} do not divide: resize them.")
    patches = (shape[0] // size.patch) * (shape[1] // size.patch)
    work = flops.conv(patches, size.patch, shape[2], size.width) + flops.dense(1, size.width, classes)
    work += size.depth * flops.encoder(patches + 1, size.width, size.hidden)
    return _classifier(
        name,
        scale,
        shape,
        classes,
        title=title,
        build=partial(written.vit, size, shape, classes),
        flops=6 * work,
        batches=batches if scale == "full" else {"cpu": 32, "gpu": batches["gpu"]},
        source=source,
        make_optimizer=_adamw,
        fused_attention=True,
    )


def swin(scale: str, shape: Shape | None, classes: int | None) -> Workload:
    """Swin-T; small: a third as wide, two stages. Windows of 7 by 7 fix which pictures it can read."""
    full = scale == "full"
    usual, usual_classes = IMAGENET if full else ((56, 56, 3), 10)
    if shape not in (None, usual):
        raise ZooError(f"Swin-T reads pictures of {usual[0]} x {usual[1]} x 3 here, not {shape}: resize them.")
    classes = classes or usual_classes
    width, depths, heads = (96, (2, 2, 6, 2), (3, 6, 12, 24)) if full else (32, (2, 2), (2, 4))
    places = prod(usual[:2]) // 16
    work = flops.conv(places, 4, 3, width)
    for stage, depth in enumerate(depths):
        tokens, wide = places >> (2 * stage), width << stage
        if stage:
            work += flops.dense(tokens, 2 * wide, wide)
        work += depth * flops.encoder(tokens, wide, 4 * wide, span=49)
    work += flops.dense(1, width << (len(depths) - 1), classes)
    return _classifier(
        "swin_t",
        scale,
        usual,
        classes,
        title="Swin-T",
        build=partial(_build_swin, usual, classes, width, depths, heads),
        flops=6 * work,
        batches={"cpu": 4 if full else 16, "gpu": 256},
        source=LIU,
        make_optimizer=_adamw,
    )


def _build_swin(shape: Shape, classes: int, width: int, depths: tuple[int, ...], heads: tuple[int, ...]) -> keras.Model:
    import keras

    hub = keras_hub("Swin-T")
    # It hands its attention mask to a layer as `mask`, which Keras takes for another kind; the layer uses it all right.
    warnings.filterwarnings("ignore", "Layer 'attn' .of type WindowAttention. was passed an input with a mask")
    backbone = hub.models.SwinTransformerBackbone(
        image_shape=shape, embed_dim=width, depths=depths, num_heads=heads, window_size=7
    )
    wide = "float64" if keras.config.dtype_policy().compute_dtype == "float64" else "float32"
    task = hub.models.SwinTransformerImageClassifier(backbone, num_classes=classes, head_dtype=wide)
    # A plain model: the task's own `fit` would want TensorFlow or grain to prepare its input, on any backend.
    return keras.Model(task.inputs[0], task.outputs[0], name="swin_t")
