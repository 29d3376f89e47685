"""Optimizers and training steps: what is dropped, wrapped wrongly, not scaled, or clipped too early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ampcourse.amp import audit

keras = pytest.importorskip("keras")
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402
from keras.optimizers import SGD, Adam, AdamW, LossScaleOptimizer  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 8)).astype("float32"), RNG.integers(0, 4, 16)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def model(policy: str = "mixed_float16") -> Any:
    parts = [keras.Input((8,)), layers.Dense(8, activation="relu", dtype=policy), layers.Dense(4, dtype="float32")]
    return keras.Sequential(parts)


def narrow(dtype: str) -> Any:
    return keras.Sequential([keras.Input((8,)), layers.Dense(8, dtype=dtype), layers.Dense(4, dtype=dtype)])


def alarms(*args: Any, **kwargs: Any) -> set[str]:
    return {h.kind for h in audit(*args, **kwargs).alarms}


def test_wrapped_or_not() -> None:
    assert alarms(model(), Adam()) == {"optimizer_not_wrapped"}
    assert alarms(model(), "adam") == {"optimizer_not_wrapped"}
    assert not audit(model(), LossScaleOptimizer(Adam()))
    assert not audit(model("mixed_bfloat16"), Adam())
    assert not audit(model("float32"), Adam())
    assert alarms(model(), LossScaleOptimizer(LossScaleOptimizer(Adam()))) == {"optimizer_wrapped_twice"}


def test_what_the_model_was_compiled_with_is_looked_at() -> None:
    made = model()  # its own policy is float32, so compile() wraps nothing
    made.compile("adam", LOSS)
    (hazard,) = audit(made).alarms
    assert hazard.kind == "optimizer_not_wrapped" and "float32" in hazard.evidence
    made.compile(LossScaleOptimizer(Adam()), LOSS)
    assert not audit(made)


SETTINGS = {
    "clipnorm": 1.0,
    "clipvalue": 0.5,
    "global_clipnorm": 2.0,
    "weight_decay": 1e-4,
    "use_ema": True,
    "gradient_accumulation_steps": 4,
    "loss_scale_factor": 64.0,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_on_the_wrapper_are_ignored_by_it(name: str) -> None:
    wrapper = LossScaleOptimizer(SGD(0.1))
    setattr(wrapper, name, SETTINGS[name])
    (hazard,) = audit(model(), wrapper).alarms
    assert hazard.kind == "optimizer_setting_dropped" and name in hazard.evidence and name in hazard.fix
    assert not audit(model(), LossScaleOptimizer(SGD(0.1, **{name: SETTINGS[name]})))


def test_more_that_the_wrapper_drops() -> None:
    wrapper = LossScaleOptimizer(SGD(0.1))
    wrapper.inner_optimizer.loss_scale_factor = 1024.0
    assert alarms(model(), wrapper) == {"optimizer_setting_dropped"}
    wrapper = LossScaleOptimizer(AdamW())
    wrapper.exclude_from_weight_decay(var_names=["bias"])
    assert alarms(model(), wrapper) == {"optimizer_setting_dropped"}
    wrapper = LossScaleOptimizer(AdamW())
    wrapper.inner_optimizer.exclude_from_weight_decay(var_names=["bias"])
    assert not audit(model(), wrapper)


def test_a_fixed_factor_that_compile_would_drop() -> None:
    made = keras.Sequential([keras.Input((8,)), layers.Dense(4, dtype="mixed_float16")])
    made.dtype_policy = "mixed_float16"
    assert alarms(made, SGD(0.1, loss_scale_factor=1024.0)) == {"optimizer_setting_dropped"}
    made.compile(SGD(0.1, loss_scale_factor=1024.0), "mse", auto_scale_loss=False)
    assert not audit(made)


def test_a_scale_that_cannot_work() -> None:
    made, wrapper = model(), LossScaleOptimizer(SGD(0.1))
    wrapper.build(made.trainable_variables)
    wrapper.dynamic_scale.assign(0.0)
    (hazard,) = audit(made, wrapper).alarms
    assert (hazard.kind, hazard.severity) == ("loss_scale_unusable", "error")
    assert alarms(made, LossScaleOptimizer(SGD(0.1), dynamic_growth_steps=0)) == {"loss_scale_unusable"}


def test_constants_that_round_in_the_dtype_of_the_weights() -> None:
    report = audit(narrow("bfloat16"), Adam())
    assert [h.value for h in report.alarms] == [0.999] and report.kinds >= {"optimizer_constant_rounds"}
    assert "optimizer_constant_rounds" in alarms(narrow("float16"), LossScaleOptimizer(Adam(epsilon=1e-8)))
    assert "optimizer_constant_rounds" in alarms(narrow("bfloat16"), SGD(0.1, momentum=0.999))
    assert not audit(narrow("bfloat16"), SGD(0.1))
    assert not audit(model("mixed_bfloat16"), Adam())


def step_of(made: Any, optimizer: Any, change: str = "", graph: bool = True) -> Callable:
    """A training step with one thing done wrong, or right in another way."""

    def step(x: Any, y: Any) -> Any:
        variables = made.trainable_variables
        with tf.GradientTape(persistent=True) as tape:
            loss = LOSS(y, made(x, training=True))
            penalty = 0.01 * sum(tf.reduce_sum(tf.square(v)) for v in variables)
            total = loss + penalty if change == "penalty inside" else loss
            if change == "narrow loss":
                total = tf.cast(total, tf.float16)
            total = total * 1024.0 if change == "by hand" else total
            total = total if change in ("forgotten", "by hand") else optimizer.scale_loss(total)
        gradients = tape.gradient(total, variables)
        if change == "penalty apart":
            gradients = [a + b for a, b in zip(gradients, tape.gradient(penalty, variables), strict=True)]
        if change == "clipped":
            gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        if change == "by hand":
            gradients = [g / 1024.0 for g in gradients]
        (optimizer.inner_optimizer if change == "inner" else optimizer).apply(gradients, variables)
        return loss

    return tf.function(step) if graph else step


STEPS = {
    "": set(),
    "penalty inside": set(),
    "forgotten": {"unscaled_loss_term"},
    "penalty apart": {"unscaled_loss_term"},
    "clipped": {"scaled_gradients_clipped"},
    "inner": {"scaled_gradients_not_unscaled"},
    "narrow loss": {"low_precision_loss"},
}


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("change", STEPS)
def test_a_step_of_ones_own(change: str, built: bool) -> None:
    made, optimizer = model(), LossScaleOptimizer(SGD(0.1))
    if built:
        optimizer.build(made.trainable_variables)
    assert alarms(made, optimizer, (X, Y), step=step_of(made, optimizer, change, graph=built)) == STEPS[change]
    assert optimizer.built == built and int(optimizer.iterations.numpy()) == 0


def test_a_step_that_scales_by_hand_needs_no_wrapper() -> None:
    made, optimizer = model(), SGD(0.1)
    assert not audit(made, optimizer, (X, Y), step=step_of(made, optimizer, "by hand"))
    assert alarms(made, optimizer, (X, Y), step=step_of(made, optimizer)) == {"optimizer_not_wrapped"}


class Trains(keras.Model):
    """A model with a training step of its own."""

    def __init__(self, scales: bool) -> None:
        super().__init__()
        self.hidden, self.head, self.scales = layers.Dense(8), layers.Dense(4, dtype="float32"), scales

    def call(self, x: Any) -> Any:
        return self.head(self.hidden(x))

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x))
            loss = self.optimizer.scale_loss(loss) if self.scales else loss
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {m.name: m.result() for m in self.metrics}


@pytest.mark.parametrize("scales", [True, False])
def test_a_train_step_of_the_models_own(scales: bool) -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        made = Trains(scales)
    finally:
        keras.config.set_dtype_policy(before)
    assert audit(made, sample=(X, Y)).not_checked  # not compiled: said, not guessed
    made.compile("sgd", LOSS, metrics=["accuracy"])
    report = audit(made, sample=(X, Y))
    assert {h.kind for h in report.alarms} == (set() if scales else {"unscaled_loss_term"})
    assert not report.not_checked


def test_a_loss_computed_in_float16_by_the_model() -> None:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__(dtype="mixed_float16")
            self.dense = layers.Dense(1, dtype="mixed_float16")

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
            return tf.reduce_mean(tf.square(tf.cast(y, y_pred.dtype) - y_pred))

    made = Own()
    made.compile("sgd")
    assert alarms(made, sample=(X, X[:, :1])) == {"low_precision_loss"}
