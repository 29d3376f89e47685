"""`kept_for_backward`: what the count says is what the tape reads, by dtype, for models of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ampcourse.amp import kept_for_backward

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")
layers = keras.layers
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.fixture(autouse=True)
def _policy() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy(before)


def spec(*shape: int, dtype: str = "float32") -> Any:
    return tf.TensorSpec(shape, dtype)


def square(x: Any) -> Any:
    return tf.square(x)


# By hand, for the mean of (w x)²: backward reads w x (for the square) and x, which the caller holds anyway.
def test_a_function_counted_by_hand() -> None:
    w = tf.Variable(tf.ones((4, 2)))
    kept = kept_for_backward(lambda x: square(tf.matmul(x, w)), np.ones((3, 4), "float32"), optimizer="adam")
    assert [(x.kind, x.shape, x.bytes, x.grows) for x in kept.tensors] == [("MatMul", (3, 2), 24, True)]
    assert (kept.variables, kept.gradients, kept.slots, kept.state) == (32, 32, 64, 128)
    assert (kept.for_each_sample, kept.fixed, kept.at(10)) == (8, 0, 128 + 80)


def test_16_bit_copies_of_weights_are_the_part_that_does_not_grow() -> None:
    def made(policy: str) -> Any:
        dense = [layers.Dense(64, "tanh", dtype=policy) for _ in range(2)]
        return kept_for_backward(keras.Sequential([keras.Input((64,)), *dense]), spec(8, 64))

    assert made("float32").fixed == 0
    mixed = made("mixed_float16")
    copies = [x for x in mixed.tensors if not x.grows and x.dtype == "float16"]
    assert {x.shape for x in copies} == {(64, 64)}
    assert sum(x.bytes for x in copies) == 64 * 64 * 2  # the first layer's is never read: nobody asks for dx
    assert mixed.state == made("float32").state


def test_views_of_one_tensor_count_once() -> None:
    w = tf.Variable(tf.ones((4, 4)))

    def several(x: Any) -> Any:
        y = tf.tanh(tf.matmul(x, w))
        return square(tf.reshape(y, [-1, 2, 2])) + square(tf.identity(tf.expand_dims(y, 1)[:, 0, :2, None]))

    counted = [x.kind for x in kept_for_backward(several, np.ones((3, 4), "float32")).tensors]
    assert counted.count("Tanh") == 1
    assert not {"Reshape", "Identity"} & set(counted)


def mlp() -> tuple[Any, tuple]:
    inputs = x = keras.Input((64,))
    for _ in range(6):
        x = layers.Dense(64, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x)), (4096, 64)


def cnn() -> tuple[Any, tuple]:
    inputs = x = keras.Input((16, 16, 3))
    for filters in (16, 16, 32, 32):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same")(x)))
    x = layers.GlobalAveragePooling2D()(layers.MaxPooling2D()(x))
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x)), (64, 16, 16, 3)


def transformer(length: int = 64, width: int = 64, blocks: int = 2, heads: int = 4) -> tuple[Any, tuple]:
    inputs = x = keras.Input((length, width))
    for _ in range(blocks):
        a = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(a, a)])
        f = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(width)(f)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x)), (16, length, width)


def counted(make: Callable, policy: str, **options: Any) -> Any:
    keras.config.set_dtype_policy(policy)
    model, shape = make(**options)
    return kept_for_backward(model, (spec(*shape), spec(shape[0], dtype="int32")), LOSS, optimizer="adam")


@pytest.mark.parametrize("make", [mlp, cnn, transformer])
def test_mixed_keeps_two_thirds_to_three_quarters_not_a_half(make: Callable) -> None:
    plain, half, brain = (counted(make, policy) for policy in ("float32", "mixed_float16", "mixed_bfloat16"))
    assert 0.66 < half.total / plain.total < 0.78
    assert list(plain.by_dtype) == ["float32"]
    assert list(half.by_dtype) == ["float16", "float32"]
    assert list(half.by_dtype.values()) == list(brain.by_dtype.values())
    assert plain.state == half.state == brain.state
    assert half.largest_batch(512e6) > plain.largest_batch(512e6) > 0


@pytest.mark.parametrize("make", [mlp, cnn, transformer])
def test_another_batch_is_predicted_exactly(make: Callable) -> None:
    model, shape = make()
    small, large = (kept_for_backward(model, spec(n, *shape[1:])) for n in (3, 7))
    assert small.at(7) == large.at(7)
    assert not small.uneven
    fits = small.largest_batch(large.at(7))
    assert fits == 7
    assert small.largest_batch(large.at(7) - 1) == 6


def test_functional_sequential_and_subclassed_models_count_alike() -> None:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = layers.Dense(8, "tanh"), layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.head(self.body(x))

    inputs = keras.Input((4,))
    functional = keras.Model(inputs, layers.Dense(2)(layers.Dense(8, "tanh")(inputs)))
    unbuilt = keras.Sequential([layers.Dense(8, "tanh"), layers.Dense(2)])
    counts = [kept_for_backward(m, spec(5, 4)) for m in (functional, unbuilt, Own(), functional.layers[1])]
    assert len({k.total for k in counts[:3]}) == 1
    assert len({k.state for k in counts[:3]}) == 1
    assert (counts[3].total, counts[3].variables) == (5 * 8 * 4, 40 * 4)  # a layer by itself: tanh keeps its result


def test_several_inputs_in_a_dict() -> None:
    inputs = {name: keras.Input((3,), name=name) for name in "ab"}
    model = keras.Model(inputs, layers.Dense(2)(layers.Add()([inputs["a"], inputs["b"]])))
    kept = kept_for_backward(model, {"a": np.ones((6, 3)), "b": np.ones((6, 3))})
    assert (kept.batch, [x.shape for x in kept.tensors if x.grows]) == (6, [(6, 3)])


def test_nothing_runs_and_nothing_changes() -> None:
    model = keras.Sequential([keras.Input((4,)), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(2)])
    before = [w.copy() for w in model.get_weights()]
    first, second = (kept_for_backward(model, np.full((4, 4), np.nan)) for _ in range(2))
    assert first.tensors == second.tensors
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


# Slots for each parameter, in float32 numbers.
@pytest.mark.parametrize(
    ("optimizer", "slots"),
    [
        (lambda: "sgd", 0),
        (lambda: keras.optimizers.SGD(momentum=0.9), 1),
        (lambda: "adam", 2),
        (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), 2),
        (lambda: keras.optimizers.Adam(amsgrad=True), 3),
        (lambda: keras.optimizers.AdamW(use_ema=True), 3),
        (lambda: keras.optimizers.Adam(gradient_accumulation_steps=4), 3),
    ],
)
def test_what_optimizers_remember(optimizer: Callable, slots: int) -> None:
    model = keras.Sequential([keras.Input((30,)), layers.Dense(20)])
    assert kept_for_backward(model, spec(2, 30), optimizer=optimizer()).slots == slots * 4 * 620
    built = keras.optimizers.get(optimizer())
    built.build(model.trainable_variables)
    assert kept_for_backward(model, spec(2, 30), optimizer=built).slots == slots * 4 * 620


def test_the_optimizer_of_a_compiled_model_is_counted() -> None:
    model = keras.Sequential([keras.Input((30,)), layers.Dense(20)])
    assert kept_for_backward(model, spec(2, 30)).optimizer == ""
    model.compile("adam", "mse")
    kept = kept_for_backward(model, (np.ones((2, 30)), np.ones((2, 20))), keras.losses.MeanSquaredError())
    assert (kept.optimizer, kept.slots) == ("Adam", 8 * 620)


def test_penalties_and_frozen_layers() -> None:
    frozen = layers.Dense(8)
    frozen.trainable = False
    model = keras.Sequential([keras.Input((4,)), frozen, layers.Dense(2, kernel_regularizer="l2")])
    kept = kept_for_backward(model, spec(3, 4))
    assert (kept.variables, kept.gradients) == (4 * (40 + 18), 4 * 18)


def test_what_cannot_be_counted_is_told() -> None:
    loop = keras.Sequential([keras.Input((5, 3)), layers.LSTM(4), layers.Dense(2)])
    assert "not counted" in kept_for_backward(loop, spec(3, 5, 3)).caption
    unrolled = keras.Sequential([keras.Input((5, 3)), layers.LSTM(4, unroll=True), layers.Dense(2)])
    assert kept_for_backward(unrolled, spec(3, 5, 3)).unknown == 0
    w = tf.Variable(tf.ones((4, 4)))
    pairs = kept_for_backward(lambda x: tf.tanh(tf.matmul(x @ w, x, transpose_b=True)), spec(3, 4))
    assert pairs.uneven and "not proportional" in pairs.caption  # each with each: contrastive losses do this


def test_it_prints_and_shows_as_a_table() -> None:
    kept = counted(mlp, "mixed_float16")
    text, table = str(kept), kept._repr_html_()
    assert text.startswith("Memory of a training step of '")
    assert "mixed_float16, for a batch of 4,096" in text
    for row in kept.rows:
        assert all(cell in text and cell in table for cell in row)
    sums = [re.search(r"([\d.,]+) \w+$", " ".join(row).strip())[0] for row in kept.rows]
    assert len(sums) == 7
    assert [x.bytes for x in kept.largest(3)] == sorted((x.bytes for x in kept.tensors), reverse=True)[:3]


def dense() -> Any:
    return keras.Sequential([keras.Input((4,)), layers.Dense(2)], name="mine")


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: kept_for_backward(3, spec(2, 4)), TypeError, "needs a Keras 3 model or layer, not an object of"),
        (lambda: kept_for_backward(layers.Dense, spec(2, 4)), TypeError, "not the class Dense"),
        (lambda: kept_for_backward(dense(), spec(2, 5)), ValueError, "takes inputs of shape"),
        (lambda: kept_for_backward(dense(), tf.TensorSpec((None, 4))), ValueError, "fixed shape, batch included"),
        (lambda: kept_for_backward(dense(), np.float32(1)), ValueError, "batch first, of one size; found: none"),
        (lambda: kept_for_backward(dense(), spec(2, 4), LOSS), ValueError, "needs a pair"),
        (lambda: kept_for_backward(dense(), (spec(2, 4), spec(3)), LOSS), ValueError, "one size; found: 2 and 3"),
        (lambda: kept_for_backward(dense(), spec(2, 4), optimizer="adem"), ValueError, "knows no optimizer 'adem'"),
        (lambda: kept_for_backward(square, spec(2, 4)), ValueError, "uses no trainable variable"),
        (lambda: kept_for_backward(lambda x: x @ x, spec(2, 4)), ValueError, "cannot trace"),
        (lambda: kept_for_backward(dense(), spec(2, 4)).largest_batch(-1), ValueError, "positive number of bytes"),
        (lambda: kept_for_backward(dense(), spec(2, 4)).largest_batch("16"), ValueError, "positive number of bytes"),
    ],
)
def test_what_does_not_fit_gets_one_sentence(call: Callable, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


GIB = 2**30


# What TensorFlow 2.21 and Keras 3.15 keep; other versions may differ a little. Traced only, nothing is allocated.
@pytest.mark.full
@pytest.mark.parametrize(("policy", "gib"), [("float32", 9.9), ("mixed_float16", 7.5)])
def test_resnet_50_at_batch_128(policy: str, gib: float) -> None:
    keras.config.set_dtype_policy(policy)
    model = keras.applications.ResNet50(weights=None, classifier_activation=None)
    kept = kept_for_backward(model, (spec(128, 224, 224, 3), spec(128, dtype="int32")), LOSS)
    assert kept.total / GIB == pytest.approx(gib, rel=0.03)


@pytest.mark.full
@pytest.mark.parametrize(("policy", "gib"), [("float32", 34.0), ("mixed_float16", 23.3)])
def test_a_vision_transformer_of_size_large_at_batch_64(policy: str, gib: float) -> None:
    keras.config.set_dtype_policy(policy)
    model, shape = transformer(length=197, width=1024, blocks=24, heads=16)
    kept = kept_for_backward(model, (spec(64, *shape[1:]), spec(64, dtype="int32")), LOSS)
    assert kept.total / GIB == pytest.approx(gib, rel=0.03)
