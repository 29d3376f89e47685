"""What an audit leaves alone, how it refuses, how it shows itself, and public models on which it is silent."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ampcourse.amp import audit
from ampcourse.amp.auditing.speed import policy_hazards
from ampcourse.amp.machine import Hardware
from ampcourse.amp.machine_facts import Cpu, Gpu

keras = pytest.importorskip("keras")
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 8)).astype("float32")


@pytest.fixture(autouse=True)
def _mixed_float16() -> Any:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(before)


def softmax_model() -> Any:
    parts = [
        keras.Input((8,)),
        layers.Dense(8, activity_regularizer="l2", dtype="float32"),
        layers.BatchNormalization(),
    ]
    made = keras.Sequential([*parts, layers.Dropout(0.5), layers.Dense(4, activation="softmax")])
    made.compile("adam", "sparse_categorical_crossentropy")
    return made


def test_nothing_is_changed_and_nothing_printed(capfd: pytest.CaptureFixture) -> None:
    made, y = softmax_model(), RNG.integers(0, 4, 8)
    made.fit(X, y, verbose=0)
    capfd.readouterr()
    variables = [*made.variables, *made.optimizer.variables]
    before = [v.numpy().copy() for v in variables]
    losses, policy = len(made.losses), keras.config.dtype_policy().name
    states = random.getstate(), np.random.get_state()[1].tolist(), keras.Layer.__call__, tf.GradientTape.gradient
    assert audit(made, sample=(X, y))
    after = random.getstate(), np.random.get_state()[1].tolist(), keras.Layer.__call__, tf.GradientTape.gradient
    assert states == after and policy == keras.config.dtype_policy().name and losses == len(made.losses)
    assert all(np.array_equal(a, v.numpy()) for a, v in zip(before, variables, strict=True))
    assert len([*made.variables, *made.optimizer.variables]) == len(variables)
    assert capfd.readouterr() == ("", "")


def test_a_report_shows_itself_as_text_and_as_a_table() -> None:
    report = audit(softmax_model())
    text, page = str(report), report._repr_html_()
    assert report and report.headline in text
    for hazard in report.hazards:
        assert hazard.kind in text and hazard.fix in text and hazard.kind in page
    assert "<caption" in page and 'scope="col"' in page and 'scope="row"' in page
    assert [h.severity for h in report.hazards] == sorted(
        (h.severity for h in report.hazards), key=["error", "warning", "note"].index
    )
    assert set(report.alarms) | set(report.notes) == set(report.hazards) and not set(report.alarms) & set(report.notes)


def test_a_clean_report_says_so() -> None:
    report = audit(keras.Sequential([keras.Input((8,)), layers.Dense(4, dtype="float32")]), sample=X)
    assert not report and "no hazards" in str(report) and "no hazards" in report._repr_html_()


class Unbuilt(keras.Model):
    def call(self, x: Any) -> Any:
        return tf.constant(x.numpy())


def in_a_graph(made: Any) -> Any:
    with tf.Graph().as_default():
        return audit(made)


UNBUILT = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
BAD: dict[str, tuple[type, str, Callable]] = {
    "no model": (TypeError, "needs a Keras 3 model", lambda made: audit(3)),
    "a class": (TypeError, "make an instance", lambda made: audit(keras.Model)),
    "not built": (ValueError, "sample", lambda made: audit(Unbuilt())),
    "does not trace": (ValueError, "in a graph", lambda made: audit(Unbuilt(), sample=X)),
    "another graph": (ValueError, "inside another one", in_a_graph),
    "wrong shape": (ValueError, "shape", lambda made: audit(made, sample=np.zeros((4, 7)))),
    "too many inputs": (ValueError, "2", lambda made: audit(made, sample=[X, X])),
    "four parts": (ValueError, "(x, y)", lambda made: audit(made, sample=(X,) * 4)),
    "no example": (ValueError, "empty", lambda made: audit(made, sample=X[:0])),
    "objects": (ValueError, "sample", lambda made: audit(made, sample=np.array([[object()] * 8]))),
    "empty dataset": (
        ValueError,
        "empty",
        lambda made: audit(made, sample=tf.data.Dataset.from_tensor_slices(X[:0]).batch(4)),
    ),
    "optimizer": (TypeError, "optimizer", lambda made: audit(made, 3)),
    "optimizer's name": (ValueError, "'adm'", lambda made: audit(made, "adm")),
    "loss": (TypeError, "loss", lambda made: audit(made, loss=3)),
    "loss's name": (ValueError, "'mze'", lambda made: audit(made, loss="mze")),
    "step": (TypeError, "step", lambda made: audit(made, sample=X, step=3)),
    "step without batch": (ValueError, "sample", lambda made: audit(made, step=print)),
    "step that does not trace": (
        ValueError,
        "cannot trace the step",
        lambda made: audit(made, sample=(X, X), step=lambda x, y: x.numpy()),
    ),
    "step with an optimizer that is not built": (
        ValueError,
        "optimizer.build(model.trainable_variables)",
        lambda made: audit(made, UNBUILT, sample=(X, X), step=lambda x, y: made(x) * UNBUILT.dynamic_scale),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_told_in_one_sentence(case: str) -> None:
    kind, says, act = BAD[case]
    made = keras.Sequential([keras.Input((8,)), layers.Dense(4)])
    with pytest.raises(kind) as caught:
        act(made)
    message = str(caught.value)
    assert says in message and message.endswith(".") and "\n" not in message and message.startswith("audit")


def test_models_of_tf_keras_and_other_backends_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sequential:
        __module__ = "tf_keras.src.engine.sequential"

    with pytest.raises(TypeError, match="tf_keras"):
        audit(Sequential())
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="KERAS_BACKEND"):
        audit(keras.Sequential([keras.Input((8,)), layers.Dense(4)]))


def test_a_sample_may_be_a_dataset_a_dict_or_tensors() -> None:
    made = keras.Sequential([keras.Input((8,)), layers.Dense(4, dtype="float32")])
    for sample in (X, tf.constant(X), (X, X[:, :4]), tf.data.Dataset.from_tensor_slices((X, X[:, :4])).batch(4)):
        assert not audit(made, sample=sample)
    inputs = {"a": keras.Input((8,)), "b": keras.Input((8,))}
    both = keras.Model(inputs, layers.Dense(4, dtype="float32")(layers.Add()([inputs["a"], inputs["b"]])))
    assert {h.kind for h in audit(both, sample={"a": X, "b": X * 1e7}).alarms} >= {"input_out_of_range"}
    assert not audit(layers.Dense(4), sample=X)


def test_a_sample_that_the_model_cannot_run_costs_only_the_numbers() -> None:
    table = [layers.Embedding(50, 8), layers.Flatten(), layers.Lambda(lambda x: x * 1e9)]
    made = keras.Sequential([keras.Input((8,), dtype="int32"), *table, layers.Dense(4, dtype="float32")])
    report = audit(made, sample=np.full((2, 8), 5000))
    assert "constant_out_of_range" in report.kinds
    assert any("sample cannot be run" in said for said in report.not_checked) and "sample cannot be run" in str(report)


def machine(capability: tuple[int, int] | None = None, bfloat16: tuple[str, ...] = ()) -> Hardware:
    gpus = (Gpu("a GPU", capability),) if capability else ()
    return Hardware(cpu=Cpu("a CPU", 2, bfloat16), gpus=gpus, tensorflow="2.21.0")


@pytest.mark.parametrize(
    ("policy", "where", "pays"),
    [
        ("mixed_float16", machine((7, 0)), True),
        ("mixed_float16", machine((8, 0)), True),
        ("mixed_bfloat16", machine((8, 0)), True),
        ("mixed_bfloat16", machine((7, 0)), False),
        ("mixed_float16", machine((6, 0)), False),
        ("mixed_float16", machine(bfloat16=("avx512_bf16",)), False),
        ("mixed_bfloat16", machine(bfloat16=("avx512_bf16",)), True),
        ("mixed_bfloat16", machine(), False),
        ("float32", machine(), True),
    ],
)
def test_a_policy_that_gains_nothing_on_a_machine_is_a_note(policy: str, where: Hardware, pays: bool) -> None:
    made = keras.Sequential([keras.Input((8,)), layers.Dense(4, dtype=policy)])
    found = list(policy_hazards(made, where))
    assert [h.severity for h in found] == ([] if pays else ["note"])
    assert all(re.search("policy that pays", h.evidence) for h in found)


SMALL = {"vocabulary_size": 500, "num_layers": 1, "num_heads": 2, "hidden_dim": 32, "intermediate_dim": 64}
TOKENS = {
    "token_ids": RNG.integers(0, 500, (2, 8)).astype("int32"),
    "padding_mask": np.array([[1] * 8, [1] * 5 + [0] * 3]),
}
PIXELS = (RNG.random((2, 64, 64, 3)) * 255).astype("float32")


def _bert() -> tuple[Any, Any]:
    hub = pytest.importorskip("keras_hub").models
    backbone = hub.BertBackbone(**SMALL, max_sequence_length=8)
    sample = {**TOKENS, "segment_ids": TOKENS["token_ids"] * 0}
    return hub.BertTextClassifier(backbone, num_classes=3, preprocessor=None), (sample, np.array([0, 2]))


def _gpt2() -> tuple[Any, Any]:
    hub = pytest.importorskip("keras_hub").models
    backbone = hub.GPT2Backbone(**SMALL, max_sequence_length=8)
    return hub.GPT2CausalLM(backbone=backbone, preprocessor=None), (TOKENS, TOKENS["token_ids"])


def _distilbert() -> tuple[Any, Any]:
    return pytest.importorskip("keras_hub").models.DistilBertBackbone(**SMALL, max_sequence_length=8), TOKENS


def _gemma() -> tuple[Any, Any]:
    settings = {k: v for k, v in SMALL.items() if k != "num_heads"}
    heads = {"num_query_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    return pytest.importorskip("keras_hub").models.GemmaBackbone(**settings, **heads), TOKENS


def _vit() -> tuple[Any, Any]:
    hub = pytest.importorskip("keras_hub").models
    backbone = hub.ViTBackbone((64, 64, 3), patch_size=16, num_layers=1, num_heads=2, hidden_dim=32, mlp_dim=64)
    return hub.ViTImageClassifier(backbone, num_classes=3, preprocessor=None), (PIXELS / 255, np.array([0, 2]))


LEAST = {"Xception": 71, "InceptionResNetV2": 75}  # pixels a side, where 64 are too few


def _application(name: str) -> Callable:
    def make() -> tuple[Any, Any]:
        side = LEAST.get(name, 64)
        x = np.pad(PIXELS, ((0, 0), (0, side - 64), (0, side - 64), (0, 0)))
        made = getattr(keras.applications, name)
        return made(weights=None, classes=10, classifier_activation=None, input_shape=(side, side, 3)), x

    return make


PUBLIC = {"BERT": _bert, "GPT-2": _gpt2, "DistilBERT": _distilbert, "Gemma": _gemma, "ViT": _vit}
QUICK = {name: _application(name) for name in ("VGG16", "MobileNetV3Small", "ResNet50")}
LONG = ("MobileNetV2", "EfficientNetB0", "DenseNet121", "ConvNeXtTiny", "Xception", "ResNet50V2", "InceptionResNetV2")


def is_silent(make: Callable, policy: str) -> None:
    keras.config.set_dtype_policy(policy)
    made, sample = make()
    report = audit(made, sample=sample)
    assert not report, str(report)
    assert not report.not_checked


@pytest.mark.parametrize("name", [*PUBLIC, *QUICK])
def test_no_alarm_on_public_models(name: str) -> None:
    is_silent({**PUBLIC, **QUICK}[name], "mixed_float16")


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "ViT"])
def test_no_alarm_on_public_models_in_bfloat16(name: str) -> None:
    is_silent(PUBLIC[name], "mixed_bfloat16")


@pytest.mark.full
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", [*PUBLIC, *QUICK, *LONG])
def test_no_alarm_on_more_public_models(name: str, policy: str) -> None:
    make = {**PUBLIC, **QUICK}.get(name) or _application(name)
    is_silent(make, policy)
