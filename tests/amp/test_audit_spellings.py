"""More ways to write the same hazards, what a fix says, and where it points; each with its clean twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ampcourse.amp import audit

keras = pytest.importorskip("keras")
import tensorflow as tf  # noqa: E402
from keras import layers, ops  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 8)).astype("float32")
Y = np.eye(4, dtype="float32")[RNG.integers(0, 4, 16)]
LOSS = keras.losses.MeanSquaredError()


@pytest.fixture(autouse=True)
def _mixed_float16() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(before)


def model(*parts: Any, shape: tuple = (8,)) -> Any:
    """A Sequential model of layers or functions."""
    return keras.Sequential(
        [keras.Input(shape), *(p if isinstance(p, layers.Layer) else layers.Lambda(p) for p in parts)]
    )


def alarms(*args: Any, **kwargs: Any) -> set[str]:
    report = audit(*args, **kwargs)
    assert not report.not_checked
    return {h.kind for h in report.alarms}


def _sum(x: Any) -> Any:
    return ops.sum(ops.exp(x), -1, keepdims=True)


WRITTEN_OUT = {
    "exp of log_softmax": (lambda x: ops.exp(ops.log_softmax(x)), {"low_precision_softmax"}),
    "softmax with an epsilon": (lambda x: ops.exp(x) / (_sum(x) + 1e-3), {"low_precision_softmax"}),
    "softmax with an epsilon in front": (lambda x: ops.exp(x) / (1e-3 + _sum(x)), {"low_precision_softmax"}),
    "softmax with a lower bound": (
        lambda x: ops.exp(x) / ops.maximum(_sum(x), 1e-3),
        {"low_precision_softmax"},
    ),
    "softmax with an epsilon above, too": (
        lambda x: (ops.exp(x) + 1e-3) / (_sum(x) + 1e-3),
        {"low_precision_softmax"},
    ),
    "softmax as a product": (lambda x: ops.exp(x) * (1 / _sum(x)), {"low_precision_softmax"}),
    "softmax with a reciprocal": (lambda x: ops.reciprocal(_sum(x) + 1e-3) * ops.exp(x), {"low_precision_softmax"}),
    "softmax that divides no NaN": (lambda x: tf.math.divide_no_nan(ops.exp(x), _sum(x)), {"low_precision_softmax"}),
    "a share that is no softmax": (lambda x: ops.relu(x) / (ops.sum(ops.relu(x), -1, keepdims=True) + 1e-3), set()),
    "exp over the sum of others": (lambda x: ops.exp(x) / (ops.sum(ops.abs(x), -1, keepdims=True) + 1), set()),
    "1 / (1 + exp(-x))": (lambda x: 1 / (1 + ops.exp(-x)), {"low_precision_output"}),
    "exp(x) / (1 + exp(x))": (lambda x: ops.exp(x) / (1 + ops.exp(x)), {"low_precision_output"}),
    "(1 + tanh(x / 2)) / 2": (lambda x: (1 + ops.tanh(x / 2)) / 2, {"low_precision_output"}),
    "swish, which is no probability": (lambda x: x / (1 + ops.exp(-x)), set()),
    "GELU, which is none either": (lambda x: x * (1 + ops.tanh(x)), set()),
}


@pytest.mark.parametrize("way", WRITTEN_OUT)
def test_heads_that_are_written_out(way: str) -> None:
    function, kinds = WRITTEN_OUT[way]
    assert alarms(model(layers.Dense(4), function), sample=(X, Y), loss="binary_crossentropy") == kinds
    wide = model(layers.Dense(4), lambda x: function(ops.cast(x, "float32")))
    assert alarms(wide, sample=(X, Y), loss="binary_crossentropy") == set()


def test_a_fix_fits_what_the_constant_is_for() -> None:
    mask = model(lambda x: tf.nn.softmax(tf.where(x > 0, x, -1e9))), "dtype.max"
    shift = model(lambda x: x - 1.7e9), "'float32'"
    for made, said in (mask, shift, (model(lambda x: x / 1e6), "'float32'")):
        (hazard,) = audit(made).of("constant_out_of_range")
        assert said in hazard.fix
    assert not audit(model(lambda x: tf.nn.softmax(tf.where(x > 0, x, -0.5 * x.dtype.max))), sample=X)
    assert not audit(model(layers.Lambda(lambda x: (x - 1.7e9) / 1e6, dtype="float32")), sample=X + 1.7e9)


def test_where_only_a_library_wrote_the_constant_no_line_of_the_caller_is_told() -> None:
    (hazard,) = audit(model(layers.UnitNormalization())).alarms
    assert "1e+12" in hazard.evidence and "line" not in hazard.evidence
    assert np.isnan(np.asarray(layers.UnitNormalization()(np.zeros((1, 4), "float32")))).all()
    assert not audit(model(layers.UnitNormalization(dtype="float32")))


def test_positions_belong_in_float32() -> None:
    def positions(x: Any, dtype: str) -> Any:
        return x + ops.cast(ops.sin(ops.cast(ops.arange(4096), dtype))[:, None], x.dtype)

    (hazard,) = audit(model(lambda x: positions(x, "float16"), shape=(4096, 2))).of("identifier_through_float")
    assert "positions" in hazard.fix
    assert not audit(model(lambda x: positions(x, "float32"), shape=(4096, 2)))


def test_a_few_rows_that_lie_close_together_by_chance_are_no_alarm() -> None:
    wide = RNG.normal(100, 30, (8, 20000)).astype("float32")
    made = model(layers.Dense(4), shape=(20000,))
    assert alarms(made, sample=wide[:2]) == alarms(made, sample=wide) == set()
    wide[:, 7] = 20000 + wide[:, 7] / 100
    assert alarms(made, sample=wide) == {"input_out_of_range"}


def test_what_is_infinite_already_is_not_called_close_to_the_limit() -> None:
    assert alarms(model(layers.Dense(4)), sample=X * 1e9) == {"input_out_of_range"}
    near = audit(model(layers.Dense(4, kernel_initializer="ones")), sample=np.full((8, 8), 6000, "float32"))
    assert "73%" in near.of("overflow_inside")[0].evidence


def test_notes_that_say_the_same_are_said_once() -> None:
    def scale(x: Any) -> Any:
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, keepdims=True) + 1e-6)

    one, three = (audit(model(*[scale] * n, layers.Dense(4))).of("constant_below_format") for n in (1, 3))
    assert len(one) == len(three) == 1 and "more layer" not in one[0].evidence
    assert "The same in 2 more layers." in three[0].evidence
    twice = [layers.Lambda(lambda x: tf.where(x > 0, x, -1e9), name=name) for name in "ab"]
    assert {h.layer for h in audit(model(*twice)).alarms} == {"a", "b"}  # every error keeps its place


def wrapper(**settings: Any) -> Any:
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), **settings)


def trained() -> Any:
    return model(layers.Dense(8, activation="relu"), layers.Dense(4, dtype="float32"))


def collects(made: Any, optimizer: Any, scales: bool, way: str) -> Callable:
    """A step that adds gradients up in variables and applies what they hold."""
    kept = [tf.Variable(tf.zeros(v.shape)) for v in made.trainable_variables]
    count = tf.Variable(0)

    def apply() -> None:
        optimizer.apply([k.read_value() / 4 for k in kept], made.trainable_variables)

    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = LOSS(y, made(x, training=True))
            loss = optimizer.scale_loss(loss) if scales else loss
        for variable, gradient in zip(kept, tape.gradient(loss, made.trainable_variables), strict=True):
            variable.assign_add(gradient) if way == "assign_add" else variable.assign(variable + gradient)
        count.assign_add(1)
        tf.cond(count % 4 == 0, apply, lambda: None) if way == "in a branch" else apply()

    return step


@pytest.mark.parametrize("way", ["assign_add", "assign", "in a branch"])
def test_gradients_added_up_in_variables(way: str) -> None:
    for scales, kinds in ((True, set()), (False, {"unscaled_loss_term"})):
        made, optimizer = trained(), wrapper()
        assert alarms(made, optimizer, (X, Y), step=collects(made, optimizer, scales, way)) == kinds


def noisy(made: Any, optimizer: Any, scales: bool) -> Callable:
    """A GAN-like step: random numbers, two models, two optimizers, none of them built."""
    other, second = model(layers.Dense(8)), wrapper()

    def step(x: Any) -> None:
        with tf.GradientTape(persistent=True) as tape:
            invented = other(tf.random.normal((16, 8)), training=True)
            both = tf.reduce_mean(made(x, training=True)), tf.reduce_mean(made(invented, training=True))
            losses = both[1] - both[0], tf.square(both[1])
            scaled = optimizer.scale_loss(losses[0]), second.scale_loss(losses[1])
        first, last = scaled if scales else (losses[0], scaled[1])
        optimizer.apply(tape.gradient(first, made.trainable_variables), made.trainable_variables)
        second.apply(tape.gradient(last, other.trainable_variables), other.trainable_variables)

    return step


def test_random_numbers_and_several_optimizers_in_a_step() -> None:
    for scales, kinds in ((True, set()), (False, {"unscaled_loss_term"})):
        made, optimizer = trained(), wrapper()
        assert alarms(made, optimizer, X, step=noisy(made, optimizer, scales)) == kinds


def test_the_evidence_tells_the_scale_of_the_optimizer() -> None:
    made, optimizer = trained(), wrapper(initial_scale=1024.0)
    report = audit(made, optimizer, (X, Y), step=collects(made, optimizer, False, "assign_add"))
    assert "1,024 times too small" in report.of("unscaled_loss_term")[0].evidence


def test_a_step_whose_gradients_tell_nothing_is_said_to_be_unchecked() -> None:
    made, optimizer = trained(), wrapper()

    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(LOSS(y, made(x, training=True)) * 0.0)
        optimizer.apply(tape.gradient(loss, made.trainable_variables), made.trainable_variables)

    assert "all 0" in audit(made, optimizer, (X, Y), step=step).not_checked[0]


def test_a_bound_that_guards_weights_alone_is_no_alarm() -> None:
    report = audit(model(layers.SpectralNormalization(layers.Dense(4))), sample=X)
    assert not report.alarms
    assert {h.severity for h in report.of("constant_out_of_range")} <= {"note"}
