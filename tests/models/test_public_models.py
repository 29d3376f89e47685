"""ResNet and ViT: the published sizes, keras-hub's numbers with the same weights, and right under every policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")

from ampcourse.models.resnet import SMALL_DEPTHS, resnet50, small_resnet  # noqa: E402
from ampcourse.models.vit import POOLS, STEMS, vit  # noqa: E402

SMALL: dict[str, Callable[..., Any]] = {
    "resnet8": lambda **settings: small_resnet(8, **settings),
    "vit": lambda **settings: vit("tiny", **settings),
    "vit with convolutions": lambda **settings: vit("tiny", stem="convolutions", pool="mean", **settings),
}
PICTURES = np.random.default_rng(0).normal(size=(8, 28, 28, 1)).astype("float32")


@pytest.fixture(autouse=True)
def _own_policy() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy(before)


@pytest.fixture(scope="module")
def hub() -> Any:
    return pytest.importorskip("keras_hub")


def scattered(model: Any) -> None:
    """Weights of which none is a mere 0 or 1, so that a mix-up of two shows; variances stay positive."""
    draw = np.random.default_rng(1)
    for weight in model.weights:
        size = 0.5 / np.sqrt(max(1, np.prod(weight.shape[:-1])))
        value = draw.normal(0, size, weight.shape) + (weight.name in ("gamma", "moving_variance"))
        weight.assign(value if weight.name != "moving_variance" else np.abs(value) + 0.5)


def copied(source: Any, target: Any, places: Callable[[str], str]) -> None:
    """Copy every weight to where `places` says that it lies in the target; each of the target's exactly once."""
    theirs = {weight.path: weight for weight in target.weights}
    names = [places(weight.path) for weight in source.weights]
    assert sorted(names) == sorted(theirs)
    for weight, name in zip(source.weights, names, strict=True):
        theirs[name].assign(keras.ops.reshape(weight, theirs[name].shape))


def same_outputs(model: Any, other: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).normal(size=(2, *shape)).astype("float32")
    ours, theirs = model(x).numpy(), other(x).numpy()
    assert np.ptp(ours) > 1e-3
    np.testing.assert_allclose(ours, theirs, atol=1e-5 * max(1, np.abs(theirs).max()), rtol=0)


def resnet_place(path: str) -> str:
    """Our name of a weight to keras-hub's."""
    layer, weight = path.split("/")
    if layer == "logits":
        return f"predictions/{weight}"
    kind = "conv" if layer.endswith("_conv") else "bn"
    if match := re.match(r"stage(\d)_block(\d)_(\d|shortcut)_", layer):
        stage, block, place = match.groups()
        return f"stack{int(stage) - 1}_block{int(block) - 1}_{0 if place == 'shortcut' else place}_{kind}/{weight}"
    return f"conv1_{kind}/{weight}"


def vit_place(path: str) -> str:
    """Our name of a weight to keras-hub's."""
    start = "vit_patching_and_embedding"
    path = path.replace("logits/", "predictions/").replace("tokens/token", f"{start}/class_token")
    path = path.replace("tokens/places", f"{start}/position_embedding/embeddings")
    path = re.sub(r"^patches/", f"{start}/patch_embedding/", path)
    path = re.sub(r"^norm/", "vit_encoder/ln/", path)
    inside = {"norm1": "ln_1", "norm2": "ln_2", "attention": "mha", "dense1": "mlp/dense_1", "dense2": "mlp/dense_2"}
    return re.sub(r"^block(\d+)_(\w+?)/", lambda m: f"vit_encoder/transformer_block_{m[1]}/{inside[m[2]]}/", path)


def test_resnet_50_is_the_published_one_with_keras_hubs_numbers(hub: Any) -> None:
    shape = (64, 64, 3)  # the weights do not depend on the picture's size
    model = resnet50(shape)
    backbone = hub.models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[7],
        stackwise_num_filters=[64, 128, 256, 512],
        stackwise_num_blocks=[3, 4, 6, 3],
        stackwise_num_strides=[1, 2, 2, 2],
        block_type="bottleneck_block",
        image_shape=shape,
    )
    other = hub.models.ResNetImageClassifier(backbone, num_classes=1000)
    assert (model.count_params(), other.count_params()) == (25_610_152, 25_610_152)
    scattered(model)
    copied(model, other, resnet_place)
    same_outputs(model, other, shape)


@pytest.mark.parametrize("depth", [d if d < 60 else pytest.param(d, marks=pytest.mark.full) for d in SMALL_DEPTHS])
def test_small_resnets_have_the_depth_that_they_are_named_for(depth: int) -> None:
    model = small_resnet(depth)
    on_the_way = [
        layer for layer in model.layers if layer.name.endswith(("_conv", "logits")) and "shortcut" not in layer.name
    ]
    assert len(on_the_way) == depth


def test_small_resnets_are_stacks_of_keras_hubs_blocks(hub: Any) -> None:
    from keras_hub.src.models.resnet.resnet_backbone import apply_stack

    model = small_resnet(20)
    x = inputs = keras.Input((28, 28, 1))
    x = keras.layers.Conv2D(16, 3, padding="same", use_bias=False, name="conv1_conv")(x)
    x = keras.layers.ReLU()(keras.layers.BatchNormalization(epsilon=1e-5, name="conv1_bn")(x))
    for stage, channels in enumerate((16, 32, 64)):
        stride, shortcut = (1, False) if stage == 0 else (2, True)
        x = apply_stack(x, channels, 3, stride, "basic_block", False, shortcut, name=f"stack{stage}")
    x = keras.layers.Dense(10, name="predictions")(keras.layers.GlobalAveragePooling2D()(x))
    other = keras.Model(inputs, x)
    scattered(model)
    copied(model, other, resnet_place)
    same_outputs(model, other, (28, 28, 1))


def hub_vit(hub: Any, shape: tuple[int, ...], classes: int, *sizes: int) -> Any:
    names = ("patch_size", "hidden_dim", "num_layers", "num_heads", "mlp_dim")
    backbone = hub.models.ViTBackbone(image_shape=shape, **dict(zip(names, sizes, strict=True)))
    return hub.models.ViTImageClassifier(backbone, num_classes=classes)


@pytest.mark.parametrize(
    ("size", "shape", "sizes"),
    [
        ("tiny", (28, 28, 1), (4, 64, 4, 4, 128)),
        pytest.param("s16", (32, 32, 3), (16, 384, 12, 6, 1536), marks=pytest.mark.full),
        pytest.param("b16", (32, 32, 3), (16, 768, 12, 12, 3072), marks=pytest.mark.full),
        pytest.param("l16", (32, 32, 3), (16, 1024, 24, 16, 4096), marks=pytest.mark.full),
    ],
)
def test_vits_give_keras_hubs_numbers(hub: Any, size: str, shape: Any, sizes: tuple[int, ...]) -> None:
    model, other = vit(size, shape, classes=7), hub_vit(hub, shape, 7, *sizes)
    assert model.count_params() == other.count_params()
    scattered(model)
    copied(model, other, vit_place)
    same_outputs(model, other, shape)


@pytest.mark.parametrize(
    ("size", "parameters"),
    [("s16", 22_050_664), pytest.param("b16", 86_567_656, marks=pytest.mark.full)]
    + [pytest.param("l16", 304_326_632, marks=pytest.mark.full)],
)
def test_vits_have_the_published_number_of_parameters(size: str, parameters: int) -> None:
    assert vit(size, (224, 224, 3), classes=1000).count_params() == parameters


@pytest.mark.parametrize("build", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16", "float64"])
def test_they_are_right_under_every_policy(build: Callable[..., Any], policy: str) -> None:
    wide, model = build(dtype="float32"), build(dtype=policy)
    kept = "float64" if policy == "float64" else "float32"
    assert {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights} == {kept}
    assert {layer.compute_dtype for layer in model.layers[1:-1]} == {policy.removeprefix("mixed_")}
    model.set_weights(wide.get_weights())
    logits = model(PICTURES)
    assert keras.backend.standardize_dtype(logits.dtype) == kept
    tolerance = {"mixed_float16": 0.02, "mixed_bfloat16": 0.15}.get(policy, 1e-4)
    np.testing.assert_allclose(logits, wide(PICTURES), atol=tolerance * np.abs(wide(PICTURES)).max(), rtol=0)


@pytest.mark.parametrize("build", SMALL.values(), ids=SMALL)
def test_the_global_policy_is_followed_where_none_is_given(build: Callable[..., Any]) -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = build()
    assert {layer.compute_dtype for layer in model.layers[1:-1]} == {"bfloat16"}
    assert model.layers[-1].compute_dtype == "float32"


@pytest.mark.parametrize("build", SMALL.values(), ids=SMALL)
def test_a_saved_model_comes_back_the_same(build: Callable[..., Any], tmp_path: Path) -> None:
    model = build(dtype="mixed_float16")
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert [layer.dtype_policy.name for layer in again.layers] == [layer.dtype_policy.name for layer in model.layers]
    np.testing.assert_array_equal(again(PICTURES), model(PICTURES))


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("pool", POOLS)
def test_a_vit_learns_where_patches_lie(stem: str, pool: str) -> None:
    """Two pictures with the same patches in another order get other logits: the places are not forgotten."""
    model = vit("tiny", stem=stem, pool=pool)
    scattered(model)
    places = model.get_layer("tokens").places
    places.assign(keras.random.normal(places.shape))
    turned = np.roll(PICTURES, 4, axis=1)
    assert np.abs(model(PICTURES) - model(turned)).max() > 2e-5  # rounding alone makes some 1e-6


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: small_resnet(9), "depth must be one of 8, 20"),
        (lambda: vit("huge"), "size one of tiny, s16, b16, l16"),
        (lambda: vit(stem="glass"), "'glass'"),
        (lambda: vit(pool="deep"), "'deep'"),
        (lambda: vit("s16", (30, 32, 1)), "30 x 32 does not divide into patches of 16 pixels"),
    ],
)
def test_what_does_not_exist_is_one_sentence(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        call()
    assert "\n" not in str(error.value)
