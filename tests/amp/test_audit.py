"""Every kind of hazard is found in several spellings, and its clean twin is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ampcourse.amp import audit

keras = pytest.importorskip("keras")
import tensorflow as tf  # noqa: E402
from keras import layers, ops  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 8)).astype("float32")
IDS = RNG.integers(0, 5000, (16, 8))


class Does(layers.Layer):
    """A layer of the user's own."""

    def __init__(self, function: Callable, **settings: Any) -> None:
        super().__init__(**settings)
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)


@pytest.fixture(autouse=True)
def _mixed_float16() -> Any:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(before)


def model(*parts: Any, shape: tuple = (8,), dtype: str | None = None, head: bool = True) -> Any:
    """A Functional model of layers or functions, with a float32 head."""
    x = inputs = keras.Input(shape, dtype=dtype)
    for part in parts:
        x = (part if isinstance(part, layers.Layer) else Does(part))(x)
    return keras.Model(inputs, layers.Dense(4, dtype="float32")(x) if head else x)


def alarms(*args: Any, **kwargs: Any) -> set[str]:
    return {h.kind for h in audit(*args, **kwargs).alarms}


NEGATIVE = np.triu(np.full((8, 8), -1e9, "float32"), 1)
EAGER = tf.constant(-1e9)
MASKS = {
    "Python number": lambda x: tf.nn.softmax(x + (1 - tf.cast(x > 0, x.dtype)) * -1e9),
    "keras.ops": lambda x: ops.softmax(ops.where(x > 0, x, -1e9)),
    "tf.where": lambda x: tf.nn.softmax(tf.where(x > 0, x, -1e9)),
    "computed in float32, then cast": lambda x: x + tf.cast((1.0 - tf.cast(x > 0, tf.float32)) * -1e9, x.dtype),
    "array": lambda x: ops.softmax(ops.matmul(x[:, :, None], x[:, None, :]) + ops.cast(NEGATIVE, x.dtype))[:, 0],
    "eager tensor": lambda x: tf.where(x > 0, x, tf.cast(EAGER, x.dtype)),
    "integers": lambda x: x + tf.cast((1 - tf.cast(x > 0, tf.int32)) * -(10**9), x.dtype),
    "smallest float32": lambda x: tf.where(x > 0, x, np.finfo(np.float32).min),
    "ones_like": lambda x: tf.where(x > 0, x, tf.ones_like(x) * -1e9),
    "infinity as a factor": lambda x: x + (1 - tf.cast(x > 0, x.dtype)) * -np.inf,
    "in a nested tf.function": tf.function(lambda x: tf.where(x > 0, x, -1e9)),
    "in a branch": lambda x: tf.cond(tf.reduce_max(x) > 0, lambda: tf.where(x > 0, x, -1e9), lambda: x),
}


@pytest.mark.parametrize("spelling", MASKS)
def test_mask_values_outside_the_format_are_found_however_they_are_written(spelling: str) -> None:
    report = audit(model(MASKS[spelling]))
    (hazard,) = report.of("constant_out_of_range")
    assert hazard.severity == "error" and hazard.layer.startswith("does") and hazard.fix
    assert "test_audit.py, line" in hazard.evidence


MASKS_IN_RANGE = {
    "the format's own minimum": lambda x: tf.nn.softmax(tf.where(x > 0, x, x.dtype.min)),
    "infinity, chosen": lambda x: ops.softmax(ops.where(x > -99, x, -np.inf)),
    "only in float32": lambda x: tf.cast(tf.nn.softmax(tf.cast(x, tf.float32) * -1e9), x.dtype),
    "only compared with": lambda x: tf.where(x > 1e9, x, 2 * x),
    "a bound that nothing reaches": lambda x: tf.clip_by_value(x, -1e9, 1e9),
}


@pytest.mark.parametrize("spelling", MASKS_IN_RANGE)
def test_large_constants_that_do_no_harm_are_no_alarm(spelling: str) -> None:
    assert not audit(model(MASKS_IN_RANGE[spelling]), sample=X)


def test_the_layer_is_named_inside_nested_and_shared_models() -> None:
    inner = keras.Sequential([keras.Input((8,)), Does(MASKS["tf.where"], name="mask"), layers.Dense(8)], name="inner")
    (hazard,) = audit(model(inner, inner)).alarms
    assert hazard.layer == "inner/mask"


def test_a_variable_that_is_not_trained_counts_as_a_constant() -> None:
    class Masked(layers.Layer):
        def build(self, shape: Any) -> None:
            value = keras.initializers.Constant(-1e9)
            self.mask = self.add_weight(shape=(8,), initializer=value, trainable=False)

        def call(self, x: Any) -> Any:
            return ops.softmax(x + self.mask)

    assert alarms(model(Masked())) == {"constant_out_of_range"}


SMALL = {
    "log": lambda x: tf.math.log(tf.abs(x) + 1e-8),
    "keras.ops.log": lambda x: ops.log(ops.abs(x) + 1e-8),
    "quotient": lambda x: x / (tf.norm(x, axis=-1, keepdims=True) + 1e-8),
    "maximum": lambda x: x / ops.maximum(ops.norm(x, axis=-1, keepdims=True), 1e-12),
    "rsqrt": lambda x: x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-12),
    "power": lambda x: (tf.abs(x) + 1e-8) ** -0.5,
    "l2_normalize": lambda x: tf.math.l2_normalize(x, -1),
    "numpy number": lambda x: tf.math.log(tf.abs(x) + np.float32(1e-8)),
    "factor": lambda x: x * 1e-9,
    "upper bound that becomes 1": lambda x: tf.math.log(1 - tf.clip_by_value(x, 1e-3, 1 - 1e-7)),
}


@pytest.mark.parametrize("spelling", SMALL)
def test_constants_below_the_format_are_found(spelling: str) -> None:
    assert alarms(model(SMALL[spelling])) == {"constant_below_format"}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.cast(tf.math.log(tf.abs(tf.cast(x, tf.float32)) + 1e-8), x.dtype),
        lambda x: x + 1e-9,
        lambda x: tf.math.divide_no_nan(x, tf.norm(x, axis=-1, keepdims=True)),
        lambda x: x / (ops.norm(x, axis=-1, keepdims=True) + 1e-3),
    ],
)
def test_small_constants_that_guard_in_float32_or_guard_nothing_are_no_alarm(function: Callable) -> None:
    assert not audit(model(function), sample=X)


def test_inside_the_loop_of_a_recurrent_layer() -> None:
    class Cell(layers.Layer):
        state_size = 8

        def build(self, shape: Any) -> None:
            self.dense = layers.Dense(8)
            self.dense.build(shape)

        def call(self, x: Any, states: Any) -> Any:
            h = tf.math.log(tf.abs(self.dense(x) + states[0]) + 1e-9)
            return h, [h]

    x = RNG.normal(size=(4, 12, 8)).astype("float32")
    assert alarms(model(layers.RNN(Cell()), shape=(12, 8)), sample=x) == {"constant_below_format"}
    assert not audit(model(layers.LSTM(8), shape=(12, 8)), sample=x)


def test_bfloat16_has_the_range_of_float32() -> None:
    def of(function: Callable) -> set[str]:
        parts = [keras.Input((8,)), Does(function, dtype="mixed_bfloat16"), layers.Dense(4, dtype="float32")]
        return alarms(keras.Sequential(parts), sample=X)

    assert of(lambda x: tf.math.log(tf.abs(x) + (1 - tf.cast(x > 0, x.dtype)) * 1e9 + 1e-8)) == set()
    assert "constant_out_of_range" in of(lambda x: tf.where(x > 0, x, np.finfo(np.float32).min))


def compiled(last: Any, loss: Any) -> Any:
    made = model(last, head=False)
    made.compile("adam", loss)
    return made


HEADS = {
    "softmax": (lambda: layers.Dense(4, activation="softmax"), "sparse_categorical_crossentropy"),
    "Softmax layer": (lambda: layers.Softmax(), keras.losses.CategoricalCrossentropy()),
    "written out": (
        lambda: Does(lambda x: tf.exp(x) / tf.reduce_sum(tf.exp(x), -1, keepdims=True)),
        "categorical_crossentropy",
    ),
}


@pytest.mark.parametrize("head", HEADS)
def test_a_low_precision_softmax_whose_loss_takes_probabilities(head: str) -> None:
    last, loss = HEADS[head]
    (hazard,) = audit(compiled(last(), loss)).alarms
    assert (hazard.kind, hazard.severity) == ("low_precision_softmax", "error")


def test_a_softmax_that_is_only_cast_to_float32_afterwards_ran_in_float16() -> None:
    made = model(layers.Dense(4, activation="softmax"), layers.Activation("linear", dtype="float32"), head=False)
    assert alarms(made, loss="categorical_crossentropy") == {"low_precision_softmax"}


def test_outputs_that_their_loss_does_not_mind() -> None:
    logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert not audit(compiled(layers.Dense(4), logits), sample=(X, RNG.integers(0, 4, 16)))
    assert not audit(compiled(layers.Dense(1), keras.losses.MeanSquaredError()), sample=(X, X[:, :1]))
    assert not audit(compiled(layers.Dense(4, activation="softmax", dtype="float32"), "categorical_crossentropy"))
    assert not audit(model(layers.Dense(4, activation="softmax"), head=False))  # no loss is known


def test_sigmoids_targets_and_losses_in_low_precision() -> None:
    assert alarms(compiled(layers.Dense(1, activation="sigmoid"), "binary_crossentropy")) == {"low_precision_output"}
    assert alarms(compiled(layers.Dense(1), "mse"), sample=(X, X[:, :1] * 1e5)) == {"low_precision_output"}
    narrow = keras.losses.MeanSquaredError(dtype="float16")
    assert alarms(compiled(layers.Dense(1), narrow)) == {"low_precision_loss"}


def test_the_outputs_of_a_model_with_several_losses_are_told_apart() -> None:
    inputs = keras.Input((8,))
    outputs = {"kind": layers.Dense(4, activation="softmax", name="kind")(inputs), "size": layers.Dense(1)(inputs)}
    made = keras.Model(inputs, outputs)
    made.compile("adam", {"kind": "sparse_categorical_crossentropy", "size": "mse"})
    (hazard,) = audit(made).alarms
    assert hazard.layer == "kind"


def test_a_very_wide_softmax_anywhere() -> None:
    wide = model(layers.Dense(9000), layers.Softmax())
    assert alarms(wide) == {"low_precision_softmax"}


def test_inputs_that_leave_the_range_or_lose_their_differences() -> None:
    made = model(layers.Dense(8))
    assert "input_out_of_range" in alarms(made, sample=X * 1e6)
    assert "input_out_of_range" in alarms(made, sample=X * 1e-9)
    assert "input_out_of_range" in alarms(made, sample=X / 2 + 60000)
    assert not audit(made, sample=X)
    assert not audit(made, sample=X * 100)


def test_preprocessing_belongs_in_float32() -> None:
    x = X * 1e5
    for dtype, expected in (("mixed_float16", {"input_out_of_range"}), ("float32", set())):
        normalization = layers.Normalization(dtype=dtype)
        normalization.adapt(x)
        assert alarms(model(normalization, layers.Dense(8)), sample=x) == expected
    assert alarms(model(layers.Rescaling(1000.0)), sample=X * 100) == {"input_out_of_range"}
    pixels = (RNG.random((4, 16, 16, 3)) * 255).astype("float32")
    seen = model(layers.Rescaling(1 / 255), layers.Conv2D(8, 3), layers.GlobalMaxPooling2D(), shape=(16, 16, 3))
    assert not audit(seen, sample=pixels)


IDENTIFIERS = {
    "through a layer that casts": (layers.Flatten, lambda: layers.Embedding(5000, 8)),
    "one-hot": (layers.Flatten, lambda: Does(lambda x: tf.one_hot(tf.cast(x, tf.int32), 5000, dtype=tf.float16))),
    "hashed": (layers.Flatten, lambda: Does(lambda x: tf.cast(tf.cast(x, tf.int32) * 31 % 97, tf.float16))),
}


@pytest.mark.parametrize("way", IDENTIFIERS)
def test_identifiers_that_pass_through_float16(way: str) -> None:
    first, second = IDENTIFIERS[way]
    made = model(first(), second(), layers.Flatten())
    hazard = audit(made, sample=IDS.astype("float32")).of("identifier_through_float")[0]
    assert hazard.severity == "error" and 0 < hazard.value < 1


def test_identifiers_beside_other_columns_and_without_a_sample() -> None:
    made = model(Does(lambda row: tf.cast(row[:, 0], tf.int32)), layers.Embedding(9001, 4), shape=(2,))
    row = np.stack([RNG.integers(2048, 9000, 16), RNG.uniform(5, 50, 16)], 1).astype("float32")
    assert alarms(made, sample=row) == {"identifier_through_float"}
    assert alarms(made) == {"identifier_through_float"}


def test_identifiers_of_a_subclassed_model_are_cast_at_its_door() -> None:
    class Recommender(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = layers.Embedding(5000, 8), layers.Dense(4, dtype="float32")

        def call(self, x: Any) -> Any:
            return self.head(ops.mean(self.embedding(x), axis=1))

    assert alarms(Recommender(), sample=IDS.astype("float32")) == {"identifier_through_float"}
    assert not audit(Recommender(), sample=IDS)


def test_identifiers_that_stay_whole() -> None:
    embedding = lambda entries: (layers.Embedding(entries, 8), layers.Flatten())  # noqa: E731
    assert not audit(model(*embedding(5000), dtype="int32"), sample=IDS)
    assert not audit(model(*embedding(5000)), sample=IDS.astype("float32"))  # float32 all the way
    assert not audit(model(layers.Flatten(), *embedding(2000)), sample=IDS.astype("float32") % 2000)
    lookup = layers.StringLookup(vocabulary=["a", "b"])
    words = np.array([["a", "b", "?"]] * 4, dtype=object)
    assert not audit(model(lookup, *embedding(4), shape=(3,), dtype="string"), sample=words)


def test_positions_counted_in_float16() -> None:
    assert alarms(model(lambda x: x + tf.sin(tf.cast(tf.range(5000), x.dtype))[:8])) == {"identifier_through_float"}
    assert not audit(model(lambda x: x + tf.cast(tf.sin(tf.range(5000.0)), x.dtype)[:8]))


MANY = np.full((2, 256, 256, 4), 3.0, "float32")
REDUCTIONS = {
    "tf.reduce_mean": lambda x: tf.reduce_mean(x, (1, 2)),
    "keras.ops.sum": lambda x: ops.sum(x, (1, 2)),
    "tf.math.reduce_variance": lambda x: tf.math.reduce_variance(x, (1, 2)),
    "norm": lambda x: tf.norm(tf.reshape(x, (-1, 262144)), axis=-1, keepdims=True),
    "einsum": lambda x: tf.einsum("bijc->bc", x),
    "cumsum": lambda x: tf.ensure_shape(tf.cumsum(tf.reshape(x, (-1, 262144)), 1)[:, -4:], (None, 4)),
}


@pytest.mark.parametrize("spelling", REDUCTIONS)
def test_reductions_in_float16(spelling: str) -> None:
    (hazard,) = audit(model(REDUCTIONS[spelling], shape=(256, 256, 4)), sample=MANY).alarms[:1]
    assert hazard.kind == "low_precision_reduction" and hazard.value > 0


def test_a_long_mean_is_a_warning_without_a_sample() -> None:
    (hazard,) = audit(model(REDUCTIONS["tf.reduce_mean"], shape=(300, 300, 8))).alarms
    assert (hazard.kind, hazard.severity) == ("low_precision_reduction", "warning") and "90,000" in hazard.evidence


@pytest.mark.parametrize(
    "part",
    [
        lambda x: ops.mean(x, (1, 2)),
        lambda x: ops.var(x, (1, 2)),
        lambda x: tf.cast(tf.reduce_mean(tf.cast(x, tf.float32), (1, 2)), x.dtype),
        lambda x: tf.reduce_max(x, (1, 2)),
        lambda x: tf.reduce_sum(x[:, 0, :16], 1),
    ],
)
def test_reductions_in_float32_and_short_ones_are_no_alarm(part: Callable) -> None:
    assert not audit(model(part, shape=(256, 256, 4)), sample=MANY)


def test_overflow_inside_names_the_first_layer() -> None:
    hundred = keras.initializers.Constant(100.0)
    parts = [layers.Dense(8, kernel_initializer=hundred, name=name) for name in ("first", "second", "third")]
    report = audit(model(*parts), sample=np.abs(X))
    (hazard,) = report.of("overflow_inside")
    assert hazard.layer == "second" and hazard.severity == "error" and hazard.value < 65504
    assert "overflow_inside" in alarms(model(lambda x: tf.exp(x * 20)), sample=X)
    assert not audit(model(lambda x: tf.exp(x)), sample=X)


def test_losses_added_in_float16() -> None:
    class Adds(layers.Layer):
        def __init__(self, dtype: str) -> None:
            super().__init__()
            self.computes = dtype

        def call(self, x: Any) -> Any:
            self.add_loss(0.01 * ops.mean(ops.square(ops.cast(x, self.computes))))
            return x

    assert alarms(model(Adds("float16")), sample=X) == {"low_precision_loss"}
    assert not audit(model(Adds("float32")), sample=X)
    assert alarms(model(layers.Dense(8, activity_regularizer="l2")), sample=X) == {"low_precision_loss"}
    assert not audit(model(layers.Dense(8, kernel_regularizer="l2")), sample=X)


def test_layers_promoted_to_float32() -> None:
    assert alarms(model(lambda x: ops.multiply(x, tf.constant(2.0)))) == {"promoted_to_float32"}
    assert alarms(model(lambda x: ops.matmul(x, np.eye(8, dtype="float32")))) == {"promoted_to_float32"}
    assert not audit(model(lambda x: ops.cast(x, "float32") * 2.0))  # asked for
    assert not audit(model(lambda x: ops.multiply(x, ops.cast(tf.constant(2.0), x.dtype))))
    wide = [layers.Dense(64, dtype="float32") for _ in range(2)]
    assert alarms(model(*wide, layers.Dense(8))) == {"promoted_to_float32"}


def test_notes_do_not_make_a_report_true() -> None:
    report = audit(model(layers.Dense(1001), layers.Dense(1003)))
    assert "idle_tensor_cores" in report.kinds and not report and not report.alarms
    assert "idle_tensor_cores" not in audit(model(layers.Dense(1024), layers.Dense(1024))).kinds


@pytest.mark.parametrize("layer", [layers.BatchNormalization, layers.LayerNormalization, layers.GroupNormalization])
def test_normalization_layers_are_clean(layer: type) -> None:
    settings = {"groups": 4} if layer is layers.GroupNormalization else {}
    assert not audit(model(layers.Dense(16), layer(**settings)), sample=X)


def test_attention_is_clean_with_and_without_masks() -> None:
    class Attends(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.head = layers.MultiHeadAttention(2, 16), layers.Dense(4, dtype="float32")

        def call(self, x: Any) -> Any:
            return self.head(self.attention(x["x"], x["x"], attention_mask=x["mask"][:, None, :], use_causal_mask=True))

    x = {
        "x": RNG.normal(size=(4, 6, 32)).astype("float32"),
        "mask": np.arange(6)[None] < np.array([[6], [6], [3], [1]]),
    }
    assert not audit(Attends(), sample=x)
