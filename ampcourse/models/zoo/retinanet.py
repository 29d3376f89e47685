"""RetinaNet on a ResNet-50 with a feature pyramid, from keras-hub: the detector known elsewhere as SSD-RN50-FPN.

Lin et al., "Focal loss for dense object detection" (2017). keras-hub's detector finds its targets (which anchor should
say which box) inside `compute_loss`, from dicts that Keras's `fit` cannot carry on every backend. Here its model is a
plain one with one output, the samples hold the targets ready made, and the loss is a plain Keras loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from ampcourse.models.zoo import flops
from ampcourse.models.zoo.workload import Samples, Workload, keras_hub

if TYPE_CHECKING:
    from collections.abc import Iterator

LEVELS = range(3, 8)
ANCHORS, PYRAMID = 9, 256
BACKGROUND, IGNORED = -1, -2
OBJECTS = 7
"""Objects in a made-up picture; the mean of COCO's pictures is 7."""


@dataclass(frozen=True)
class Size:
    """Pixels of a square picture, classes, channels and blocks of the ResNet's stages, convolutions in each head."""

    pixels: int
    classes: int
    channels: tuple[int, ...]
    blocks: tuple[int, ...]
    convolutions: int


FULL = Size(640, 80, (64, 128, 256, 512), (3, 4, 6, 3), 4)
SMALL = Size(64, 5, (64, 32, 32, 32), (1, 1, 1, 1), 1)  # keras-hub's ResNets begin with 64
STEM = 64


def workload(scale: str) -> Workload:
    """RetinaNet on pictures of 640 pixels; small: 64 pixels, a narrow ResNet, shallow heads."""
    size = FULL if scale == "full" else SMALL
    return Workload(
        name="retinanet_r50",
        scale=scale,
        title="RetinaNet-R50-FPN",
        unit="pictures",
        build=lambda: build(size),
        samples=lambda batch, seed=0: samples(size, batch, seed),
        loss=DetectionLoss(),
        flops=6 * _work(size),
        batches={"cpu": 1 if scale == "full" else 8, "gpu": 32},
        source="Lin et al. 2017, Focal loss for dense object detection, section 4; model of keras-hub",
        make_optimizer=lambda: keras.optimizers.SGD(0.01, momentum=0.9),
    )


def build(size: Size) -> keras.Model:
    """From pictures, (batch, pixels, pixels, 3), to float32 (batch, anchors, 4 + classes): box offsets, then logits."""
    hub = keras_hub("RetinaNet")
    shape = (size.pixels, size.pixels, 3)
    encoder = hub.models.ResNetBackbone(
        input_conv_filters=[STEM],
        input_conv_kernel_sizes=[7],
        stackwise_num_filters=size.channels,
        stackwise_num_blocks=size.blocks,
        stackwise_num_strides=[1, 2, 2, 2],
        block_type="bottleneck_block",
        image_shape=shape,
    )
    backbone = hub.models.RetinaNetBackbone(
        encoder, min_level=LEVELS[0], max_level=LEVELS[-1], use_p5=False, image_shape=shape
    )
    task = hub.models.RetinaNetObjectDetector(
        backbone, size.classes, "xyxy", pre_logits_num_conv_layers=size.convolutions
    )
    _start(task.box_head, 0.0)
    _start(task.classification_head, -log(99))
    # The heads are half of the work: in the compute dtype, and cast afterwards.
    wide = "float64" if keras.config.dtype_policy().compute_dtype == "float64" else "float32"
    parts = [task.output["bbox_regression"], task.output["cls_logits"]]
    outputs = keras.layers.Activation("linear", dtype=wide, name="found")(keras.layers.Concatenate(name="both")(parts))
    return keras.Model(task.inputs[0], outputs, name="retinanet_r50")


def _start(head: Any, bias: float) -> None:
    """Section 4.1: kernels of deviation 0.01, and a bias after which each anchor finds an object with probability 0.01.

    keras-hub's kernels are five times as large, which overflows float16, and it gives that bias to the boxes.
    """
    small = keras.initializers.RandomNormal(stddev=0.01)
    for layer in (*head.conv_layers, head.prediction_layer):
        layer.kernel.assign(small(layer.kernel.shape))
    head.prediction_layer.bias.assign(np.full(head.prediction_layer.bias.shape, bias))


def samples(size: Size, batch: int, seed: int = 0) -> Samples:
    """Made-up pictures, float32 (batch, pixels, pixels, 3), and what each anchor should find.

    That is float32 (batch, anchors, 5): the offsets of the box that the anchor was matched with, and its class, which
    is 0 or above, -1 for background, -2 for anchors that do not count.
    """
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((batch, size.pixels, size.pixels, 3), dtype=np.float32)
    sides = rng.uniform(0.1, 0.6, (batch, OBJECTS, 2)) * size.pixels
    corners = rng.uniform(0, size.pixels - sides)
    boxes = np.concatenate([corners, corners + sides], axis=-1).astype(np.float32)
    classes = rng.integers(size.classes, size=(batch, OBJECTS)).astype(np.float32)
    pairs = [_targets(size, *one) for one in zip(boxes, classes, strict=True)]
    return images, np.stack(pairs)


def _targets(size: Size, boxes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """keras-hub's own matching of anchors with the boxes of one picture, in float32 whatever the policy is."""
    blank = np.zeros((1, size.pixels, size.pixels, 3), np.float32)
    offsets, found = _encoder()(images=blank, gt_boxes=boxes[None], gt_classes=classes[None])
    arrays = [keras.ops.convert_to_numpy(part) for part in (offsets, found)]
    return np.concatenate([arrays[0][0], arrays[1][0][:, None]], axis=-1).astype(np.float32)


@lru_cache
def _encoder() -> Any:
    hub = keras_hub("RetinaNet")
    from keras_hub.src.models.retinanet.retinanet_label_encoder import RetinaNetLabelEncoder

    anchors = hub.layers.AnchorGenerator(
        "xyxy", min_level=LEVELS[0], max_level=LEVELS[-1], num_scales=3, aspect_ratios=[0.5, 1.0, 2.0], anchor_size=4
    )
    return RetinaNetLabelEncoder(anchors, "xyxy", encoding_format="center_xywh", dtype="float32")


@keras.saving.register_keras_serializable(package="ampcourse")
class DetectionLoss(keras.losses.Loss):
    """Focal loss of the classes plus smooth L1 loss of the boxes, both over the number of anchors with an object.

    Sections 3.2 and 4 of the paper, alpha 0.25 and gamma 2. Targets (batch, anchors, 5) as `samples` makes them,
    outputs (batch, anchors, 4 + classes) as `build` makes them; the mean over the pictures.
    """

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each picture, shape (batch,)."""
        ops = keras.ops
        which = ops.cast(y_true[..., 4], "int32")
        positive = ops.cast(which >= 0, y_pred.dtype)
        counted = ops.cast(which != IGNORED, y_pred.dtype)
        logits = y_pred[..., 4:]
        target = ops.one_hot(which, logits.shape[-1], dtype=y_pred.dtype)  # background is a row of zeros
        # Cross-entropy from the logit, written out so that no large logit overflows.
        entropy = ops.maximum(logits, 0) - logits * target + ops.log1p(ops.exp(-ops.abs(logits)))
        weight = 0.25 * target + 0.75 * (1 - target)
        focal = ops.sum(weight * ops.square(1 - ops.exp(-entropy)) * entropy, axis=-1)
        off = ops.abs(y_pred[..., :4] - y_true[..., :4])
        box = ops.sum(ops.where(off < 1, 0.5 * ops.square(off), off - 0.5), axis=-1)
        total = ops.sum(counted * focal + positive * box, axis=-1)
        return total / ops.maximum(ops.sum(positive, axis=-1), 1)


def _maps(pixels: int) -> Iterator[int]:
    """Places on each level of the pyramid."""
    for level in LEVELS:
        yield ceil(pixels / 2**level) ** 2


def _work(size: Size) -> int:
    """Multiply-adds of one picture: the ResNet, the pyramid, and both heads on every level."""
    total, sizes = flops.bottlenecks((size.pixels, size.pixels, 3), STEM, size.channels, size.blocks)
    places = list(_maps(size.pixels))
    for (rows, columns), channels in zip(sizes[1:], size.channels[1:], strict=True):
        total += flops.conv(rows * columns, 1, 4 * channels, PYRAMID)
        total += flops.conv(rows * columns, 3, PYRAMID, PYRAMID)
    total += sum(flops.conv(count, 3, PYRAMID, PYRAMID) for count in places[3:])
    for count in places:
        total += 2 * size.convolutions * flops.conv(count, 3, PYRAMID, PYRAMID)
        total += flops.conv(count, 3, PYRAMID, ANCHORS * (4 + size.classes))
    return total
