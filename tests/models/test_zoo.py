"""The zoo: published sizes and work, right under every policy, one training step, the same numbers on every backend."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("keras_hub")

import fixed  # noqa: E402

from ampcourse.course import UserError  # noqa: E402
from ampcourse.models import zoo  # noqa: E402

# Each kind every day; the others are the same code in another size.
KINDS = ("resnet8", "resnet50", "vit_tiny", "bert_base", "retinanet_r50", "swin_t", "ncf", "gnmt")
NAMES = [name if name in KINDS else pytest.param(name, marks=pytest.mark.full) for name in zoo.names()]
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
HEADS = {"logits", "logit", "predictions", "pooler", "output_dropout", "found"}


@pytest.fixture(autouse=True)
def _own_policy() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy(before)


# --- sizes and work --------------------------------------------------------------------------------------------------


def neumf() -> int:
    """Embeddings of 64 factors and of half the tower's input, and 256-128-64 dense layers with biases."""
    return (138_493 + 26_744) * (64 + 128) + 257 * 256 + 257 * 128 + 129 * 64 + 129


def lstm(wide_in: int, units: int) -> int:
    return 4 * units * (wide_in + units + 1)


def gnmt() -> int:
    n, words = 1024, 32_320
    reads = 2 * lstm(n, n // 2) + 3 * lstm(n, n)
    return 2 * words * n + reads + lstm(n, n) + 3 * lstm(2 * n, n) + 2 * n * n + n + (n + 1) * words


# Moving averages count as parameters in Keras: 4 numbers a channel of batch normalisation, of which two are trained.
NORMALISED = 26_560  # channels of all batch normalisations of ResNet-50
PARAMETERS = {
    "resnet20": (274_042, "0.27 million: He et al. 2015, table 6"),
    "resnet56": (860_026, "0.85 million: the same"),
    "resnet50": (25_557_032 + 2 * NORMALISED, "torchvision's resnet50, without the averages"),
    "vit_s16": (22_050_664, "timm's vit_small_patch16_224"),
    "vit_b16": (86_567_656, "torchvision's vit_b_16"),
    "vit_l16": (304_326_632, "torchvision's vit_l_16"),
    "bert_base": (109_482_240 + 2 * 769, "Hugging Face's bert-base-uncased, and two logits"),
    # Theirs has 91 classes, and its normalisation is frozen: it has no parameters at all.
    "retinanet_r50": (34_014_999 - 11 * 9 * (256 * 9 + 1) + 4 * NORMALISED, "torchvision's retinanet_resnet50_fpn"),
    "swin_t": (28_288_354, "torchvision's swin_t"),
    "ncf": (neumf(), "from the sizes"),
    "gnmt": (gnmt(), "from the sizes"),
}
SLOW = {"vit_b16", "vit_l16", "bert_base", "swin_t", "gnmt"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.full) if n in SLOW else n for n in PARAMETERS])
def test_full_models_have_the_published_number_of_parameters(name: str) -> None:
    parameters, source = PARAMETERS[name]
    assert zoo.workload(name).build().count_params() == parameters, source


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("resnet20", 0.041),
        ("resnet56", 0.126),
        ("resnet50", 4.09),
        ("vit_s16", 4.6),
        ("vit_b16", 17.56),
        ("vit_l16", 61.55),
        ("swin_t", 4.49),
        ("bert_base", 11.17),  # 85 million weights on 128 tokens, and 2 * 12 * 128 * 128 * 768 for the attention
    ],
)
def test_the_work_is_the_published_one(name: str, billions: float) -> None:
    """Multiply-adds of the forward pass; forward and backward are 3 times that, in operations twice."""
    assert zoo.workload(name).flops / 6e9 == pytest.approx(billions, rel=0.006)


def graph_work(name: str) -> float:
    """Multiply-adds of the products in TensorFlow's graph of the small model, for one sample, loops counted fully."""
    import tensorflow as tf

    work = zoo.workload(name, "small")
    model, (x, _) = work.build(), work.samples(1, 0)
    traced = tf.function(lambda x: model(x, training=False))
    graph = traced.get_concrete_function(tf.nest.map_structure(tf.constant, x)).graph
    # Keras calls each cell once outside of its loop, to see what it returns; nothing reads that.
    total = sum(products(op) for op in graph.get_operations() if "/lstm_cell" not in op.name)
    for function in graph._functions.values():
        if "while_body" in function.name.decode():
            total += x["sentence"].shape[1] * sum(map(products, function.graph.get_operations()))
    return total


def products(op: Any) -> float:
    shapes = [tuple(tensor.shape) for tensor in op.inputs]
    out = tuple(op.outputs[0].shape) if op.outputs else ()
    if op.type == "Conv2D":
        return prod(out) * prod(shapes[1][:3])
    if op.type == "MatMul":
        return prod(out) * shapes[0][0 if op.get_attr("transpose_a") else 1]
    if op.type == "BatchMatMulV2":
        return prod(out) * shapes[0][-2 if op.get_attr("adj_x") else -1]
    if op.type == "Einsum":
        given = op.get_attr("equation").decode().partition("->")[0]
        sizes = {}
        for letters, shape in zip(given.split(","), shapes, strict=True):
            sizes |= dict(zip(letters, shape, strict=True))
        return prod(sizes.values()) if len(shapes) == 2 else 0
    return 0


@pytest.mark.parametrize("name", NAMES)
def test_the_work_is_what_the_graph_holds(name: str) -> None:
    assert zoo.workload(name, "small").flops == 6 * graph_work(name)


# --- numbers, policies, training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_those_of_every_backend(name: str) -> None:
    fixed.compare(name)


EVERY_DAY = [(name, policy) for name in KINDS for policy in ("mixed_float16", "mixed_bfloat16")] + [("gnmt", "float32")]
LONG = [(name, policy) for name in zoo.names() for policy in POLICIES if (name, policy) not in EVERY_DAY]


@pytest.mark.parametrize(("name", "policy"), EVERY_DAY + [pytest.param(*pair, marks=pytest.mark.full) for pair in LONG])
def test_a_model_computes_and_learns_under_every_policy(name: str, policy: str) -> None:
    work = zoo.workload(name, "small")
    keras.config.set_dtype_policy(policy)
    model = work.build()
    narrow = policy.removeprefix("mixed_")
    leaves = [layer for layer in model._flatten_layers(include_self=False) if layer.weights]
    assert {layer.compute_dtype for layer in leaves if layer.name not in HEADS} == {narrow}
    floats = {keras.backend.standardize_dtype(w.dtype) for w in model.weights if "int" not in str(w.dtype)}
    assert floats == {"float32"}
    x, y = work.samples(4, 1)
    optimizer = keras.optimizers.LossScaleOptimizer(work.optimizer(), initial_scale=128.0)
    model.compile(optimizer, work.loss, run_eagerly=True)
    before = [weight.numpy() for weight in model.trainable_variables]
    history = model.fit(x, y, batch_size=4, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert int(optimizer.inner_optimizer.iterations) == 1, "the gradients are not finite"
    moved = [np.any(weight.numpy() != old) for weight, old in zip(model.trainable_variables, before, strict=True)]
    assert np.mean(moved) > 0.7  # a bias before a normalisation may have no gradient at all
    outputs = model(x, training=False)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    assert np.isfinite(outputs).all()


@pytest.mark.parametrize("name", ["resnet8", "ncf", "gnmt", pytest.param("vit_tiny", marks=pytest.mark.full)])
def test_the_audit_finds_nothing(name: str) -> None:
    from ampcourse import amp

    work = zoo.workload(name, "small")
    keras.config.set_dtype_policy("mixed_float16")
    report = amp.audit(
        work.build(), keras.optimizers.LossScaleOptimizer(work.optimizer()), work.samples(4, 0), loss=work.loss
    )
    assert not report, report


def test_the_detectors_loss_is_the_papers() -> None:
    """By hand in float64: one anchor with an object, one of background, one that does not count."""
    offsets = np.array([[0.5, -2.0, 0.0, 0.0], [9, 9, 9, 9], [9, 9, 9, 9]])
    logits = np.array([[1.0, -1.0], [0.5, -3.0], [8.0, 8.0]])
    outputs = np.concatenate([offsets, logits], axis=1)[None]
    targets = np.array([[[0.0, 0, 0, 0, 1], [0, 0, 0, 0, -1], [0, 0, 0, 0, -2]]])
    p = 1 / (1 + np.exp(-logits[:2]))
    is_object = np.array([[0, 1], [0, 0]])
    of = np.where(is_object, p, 1 - p)
    focal = -(np.where(is_object, 0.25, 0.75) * (1 - of) ** 2 * np.log(of)).sum()
    box = 0.5 * 0.5**2 + (2 - 0.5)
    loss = zoo.workload("retinanet_r50", "small").loss(targets.astype("float32"), outputs.astype("float32"))
    assert float(loss) == pytest.approx(focal + box, rel=1e-5)


# --- manners ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", zoo.SCALES)
def test_samples_fit_the_model_and_follow_the_seed(name: str, scale: str) -> None:
    work = zoo.workload(name, scale)
    first, again, other = work.samples(2, 1), work.samples(2, 1), work.samples(2, 2)
    pairs = zip(keras.tree.flatten(first), keras.tree.flatten(again), keras.tree.flatten(other), strict=True)
    same = []
    for a, b, c in pairs:
        assert a.shape[0] == 2 and a.dtype in (np.float32, np.int32)
        np.testing.assert_array_equal(a, b)
        same.append(np.array_equal(a, c))
    assert not all(same)
    assert work.name == name and work.scale == scale and work.title and work.unit and work.source
    assert set(work.batches) == {"cpu", "gpu"} and all(count > 0 for count in work.batches.values())
    assert work.optimizer() is not work.optimizer()


def test_other_pictures_and_classes() -> None:
    work = zoo.workload("resnet8", shape=(28, 28, 1), classes=7)
    x, y = work.samples(2, 0)
    assert work.build()(x).shape == (2, 7) and y.max() < 7
    assert work.flops < zoo.workload("resnet8").flops


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "ResNet-50"}, "There is no model 'ResNet-50': did you mean 'resnet50'"),
        ({"name": "qqqq"}, "choose from: resnet8, resnet20"),
        ({"name": "ncf", "scale": "huge"}, "'full' or 'small', not 'huge'"),
        ({"name": "ncf", "classes": 3}, "no classifier of pictures"),
        ({"name": "vit_s16", "shape": (28, 28, 1)}, "patches of 16 pixels, into which pictures of 28 x 28"),
        ({"name": "swin_t", "shape": (32, 32, 3)}, "reads pictures of 224 x 224 x 3"),
    ],
)
def test_what_there_is_not_is_one_sentence(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(zoo.ZooError, match=words) as error:
        zoo.workload(**arguments)
    assert isinstance(error.value, UserError) and "\n" not in str(error.value)


def test_without_keras_hub_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(zoo.ZooError, match="Swin-T comes from keras-hub, which is not installed: pip install"):
        zoo.workload("swin_t", "small").build()


def test_names_need_no_keras() -> None:
    code = "import sys; from ampcourse.models import zoo; assert len(zoo.names()) == 13; print('keras' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_tensorflow_has_no_obstacle() -> None:
    for name in zoo.names():
        for policy in POLICIES:
            assert zoo.workload(name, "small").obstacle(policy) is None
