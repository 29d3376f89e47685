"""`dtype_table`: what a layer is said to do is what its operations do, for layers known and unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from ampcourse.amp import dtype_table

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")
layers = keras.layers


@pytest.fixture(autouse=True)
def _policy() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(before)


def stack(*parts: Any, shape: tuple = (8, 8, 3), dtype: str | None = None) -> Any:
    return keras.Sequential([keras.Input(shape, dtype=dtype), *parts])


def test_a_stack_of_layers() -> None:
    table = dtype_table(
        stack(
            layers.Conv2D(4, 3, name="conv"), layers.Flatten(name="flat"), layers.Dense(2, dtype="float32", name="head")
        )
    )
    conv, head = table.row("conv"), table.row("head")
    assert (conv.compute, conv.variable, conv.output) == ("float16", "float32", "float16")
    assert (conv.casts, conv.weight_casts, conv.inside) == ("float32 -> float16", "float32 -> float16", "")
    assert (head.compute, head.variable, head.output) == ("float32", "float32", "float32")
    assert (head.casts, head.weight_casts, head.inside) == ("float16 -> float32", "", "")
    assert table.policy == "mixed_float16"
    assert table.row("flat").variable == ""


@pytest.mark.parametrize("policy", ["float32", "float64", "bfloat16"])
def test_where_nothing_is_mixed_nothing_is_cast(policy: str) -> None:
    model = stack(layers.Dense(4, dtype=policy, name="a"), layers.Dense(4, dtype=policy, name="b"), shape=(3,))
    row = dtype_table(model).row("b")
    assert (row.compute, row.variable, row.output, row.casts, row.weight_casts) == (policy, policy, policy, "", "")


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.BatchNormalization(name="n"),
        lambda: layers.LayerNormalization(name="n"),
        lambda: layers.GroupNormalization(groups=1, name="n"),
        lambda: layers.RMSNormalization(name="n"),
    ],
    ids=["batch", "layer", "group", "rms"],
)
def test_normalisation_computes_in_float32_inside_and_answers_in_float16(layer: Any) -> None:
    row = dtype_table(stack(layer())).row("n")
    assert (row.compute, row.variable, row.output) == ("float16", "float32", "float16")
    assert row.inside.startswith("float32: ")
    assert "Mean" in row.inside or "Rsqrt" in row.inside or "more" in row.inside


def test_under_pure_float16_the_statistics_are_float16_as_well() -> None:
    row = dtype_table(stack(layers.BatchNormalization(dtype="float16", name="n"))).row("n")
    assert (row.variable, row.output) == ("float16", "float16")


class HardCoded(layers.Layer):
    """What people write: a constant whose dtype is nailed down."""

    def call(self, x: Any) -> Any:
        return tf.cast(x, tf.float32) * tf.constant([2.0], tf.float32)


class Half(layers.Layer):
    def call(self, x: Any) -> Any:
        return tf.cast(tf.nn.softmax(tf.cast(x, tf.float16)), self.compute_dtype)


class Loop(layers.Layer):
    """A body that no layer is called in, float32 inside a float16 layer."""

    def call(self, x: Any) -> Any:
        total = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, tf.sin(t)), [0, tf.cast(x, tf.float32)])[1]
        return tf.cast(total, self.compute_dtype)


def test_a_layer_nobody_knows_is_read_like_any_other() -> None:
    row = dtype_table(stack(HardCoded(name="mine"))).row("mine")
    assert (row.compute, row.output, row.inside) == ("float16", "float32", "float32: Mul")


def test_what_is_narrower_than_promised_is_told_as_well() -> None:
    assert dtype_table(stack(Half(name="half", dtype="float32"))).row("half").inside == "float16: Softmax"


def test_the_body_of_a_loop_is_read() -> None:
    assert dtype_table(stack(Loop(name="loop"))).row("loop").inside == "float32: Sin"


def test_constants_folded_beforehand_are_no_float32_inside() -> None:
    class Scale(layers.Layer):
        def call(self, x: Any) -> Any:
            return x * tf.cast(tf.sqrt(tf.constant(2.0)), self.compute_dtype)

    assert dtype_table(stack(Scale(name="scale"))).row("scale").inside == ""


def test_integers_are_not_cast_and_images_are() -> None:
    table = dtype_table(stack(layers.Embedding(9, 4, name="e"), shape=(5,), dtype="int32"))
    assert (table.row("e").casts, table.row("e").variable, table.row("e").output) == ("", "float32", "float16")
    images = dtype_table(stack(layers.Rescaling(1 / 255, name="r"), dtype="uint8"))
    assert images.row("r").casts == "uint8 -> float16"  # a class that casts before Keras does


def test_without_autocast_nothing_is_cast_on_the_way_in() -> None:
    class Plain(layers.Layer):
        def __init__(self, **options: Any) -> None:
            super().__init__(autocast=False, **options)

        def call(self, x: Any) -> Any:
            return x + 1

    row = dtype_table(stack(Plain(name="p"))).row("p")
    assert (row.casts, row.output, row.inside) == ("", "float32", "float32: AddV2")


def test_nested_shared_and_unused_layers() -> None:
    shared = layers.Dense(3, name="shared")
    block = keras.Sequential([keras.Input((3,)), layers.Dense(3, name="inner")], name="block")
    x = keras.Input((3,))
    model = keras.Model(x, block(shared(shared(x))) + 1.0)
    table = dtype_table(model)
    assert table.row("shared").calls == 2
    assert "called twice" in str(table)
    assert table.row("block/inner") == table.row("inner")
    assert table.row("block").compute == ""
    assert next(r for r in table if r.kind == "Add").output == "float16"

    class Forgetful(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = layers.Dense(2, name="used"), layers.Dense(2, name="idle")

        def call(self, x: Any) -> Any:
            return self.used(x)

    row = dtype_table(Forgetful(), np.zeros((2, 3), "float32")).row("idle (not called)")
    assert (row.compute, row.output) == ("float16", "")


def test_a_recurrent_cell_is_called_once_however_often_it_is_traced() -> None:
    table = dtype_table(stack(layers.LSTM(4, name="lstm"), shape=(5, 3)))
    assert table.row("lstm/lstm_cell").calls == 1
    assert table.row("lstm/lstm_cell").weight_casts == "float32 -> float16"


def test_quantised_variables_are_mixed() -> None:
    layer = layers.Dense(4, dtype="mixed_bfloat16", name="q")
    layer.build((None, 3))
    layer.quantize("int8")
    row = dtype_table(layer, np.zeros((2, 3), "float32")).row("q")
    assert "int8" in row.variable.split(", ") and "float32" in row.variable.split(", ")
    assert row.compute == "bfloat16"


def test_what_the_data_holds_is_what_a_sample_says() -> None:
    model = stack(layers.Dense(2, name="d"), shape=(3,))
    assert dtype_table(model, np.zeros((2, 3))).row(model.name).casts in {
        "float64 -> float32",
        "float64 -> float16",
        "",
    }
    layer = layers.Dense(2, name="alone")
    assert dtype_table(layer, np.zeros((2, 3))).row("alone").casts == "float64 -> float16"
    assert layer.built


def test_a_built_subclassed_model_needs_no_sample() -> None:
    class Small(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = layers.Dense(2, name="dense")

        def call(self, x: Any) -> Any:
            return self.dense(x)

    model = Small()
    model(np.zeros((2, 3), "float32"))
    assert dtype_table(model).row("dense").output == "float16"


def test_looking_changes_nothing() -> None:
    model = stack(layers.BatchNormalization(), layers.Dropout(0.5))
    before = [v.numpy() for v in model.variables]
    methods = keras.Layer.__call__, keras.Operation.__call__, layers.Rescaling.__call__
    dtype_table(model)
    assert methods == (keras.Layer.__call__, keras.Operation.__call__, layers.Rescaling.__call__)
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, model.variables, strict=True))
    with pytest.raises(ValueError):
        dtype_table(Breaks(), np.zeros((2, 3), "float32"))
    assert methods == (keras.Layer.__call__, keras.Operation.__call__, layers.Rescaling.__call__)


class Breaks(layers.Layer):
    def call(self, x: Any) -> Any:
        if tf.inside_function():
            return float(tf.reduce_sum(x))
        return x


class Headers(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict]] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.seen.append((tag, dict(attrs)))


def test_shown_as_an_accessible_table_and_as_text() -> None:
    table = dtype_table(stack(layers.Dense(2), shape=(3,)))
    table = replace(table, model="<b>")
    parser = Headers()
    parser.feed(table._repr_html_())
    tags = [tag for tag, _ in parser.seen]
    assert tags.count("caption") == 1 and "b" not in tags
    scopes = [attrs["scope"] for tag, attrs in parser.seen if tag == "th"]
    assert scopes.count("row") == len(table) and scopes.count("col") == 7
    assert all(row.name in str(table) for row in table) and str(table) == repr(table)
    assert len(table.only(lambda row: row.kind == "Dense")) == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (3, "needs a Keras 3 model or layer"),
        (None, "needs a Keras 3 model or layer"),
        (layers.Dense, "make an instance"),
        (tf.Module(), "build the model with `import keras`"),
    ],
    ids=["number", "nothing", "class", "tf.Module"],
)
def test_what_is_no_model(wrong: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence) as caught:
        dtype_table(wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "sample", "sentence"),
    [
        (lambda: layers.Dense(2), None, "give a batch as the second argument"),
        (lambda: stack(layers.Dense(2), shape=(3,)), np.zeros((2, 4), "float32"), r"inputs of shape \(None, 3\)"),
        (lambda: stack(layers.Dense(2), shape=(3,)), [np.zeros((2, 3))] * 2, "takes 1 input"),
        (lambda: layers.Dense(2), np.array([{}], object), "not numbers"),
        (lambda: layers.Conv2D(2, 3), np.zeros((2, 3), "float32"), "cannot call"),
        (lambda: Breaks(), np.zeros((2, 3), "float32"), "cannot call"),
    ],
    ids=["unbuilt", "wrong shape", "too many", "objects", "wrong rank", "does not trace"],
)
def test_one_sentence_where_it_cannot_be_done(make: Any, sample: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        dtype_table(make(), sample)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_inside_another_graph() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="outside of tf.Graph"):
        dtype_table(layers.Dense(2))


def test_another_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="KERAS_BACKEND"):
        dtype_table(layers.Dense(2))


def test_a_row_by_name() -> None:
    table = dtype_table(stack(layers.Dense(2, name="d"), shape=(3,)))
    with pytest.raises(ValueError, match="No layer is called 'x'; there are"):
        table.row("x")


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3)),
        lambda: keras.applications.ConvNeXtTiny(weights=None, input_shape=(32, 32, 3)),
    ],
    ids=["MobileNetV2", "ConvNeXt"],
)
@pytest.mark.full
def test_published_models(make: Any) -> None:
    table = dtype_table(make())
    for row in table:
        assert row.output == "float16", row
        assert bool(row.inside) == (row.kind in {"BatchNormalization", "LayerNormalization", "GlobalAveragePooling2D"})


def test_a_language_model() -> None:
    """Tied embeddings: one layer, called twice, in two dtypes."""
    hub = pytest.importorskip("keras_hub").models
    backbone = hub.GPT2Backbone(20, 1, 2, 8, 16, max_sequence_length=6)
    table = dtype_table(hub.GPT2CausalLM(backbone))
    tied = next(row for row in table if row.kind == "ReversibleEmbedding")
    assert (tied.calls, tied.output) == (2, "float16, float32")
    assert tied.inside == "float32: MatMul"
