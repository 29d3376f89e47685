"""What both loops are made of: the model under its policy, the schedule, the loss and the optimizer."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from ampcourse.training.config import Config
from ampcourse.training.errors import TrainingError
from ampcourse.training.optimizers import agreeing, averaging

# An attention's biases have one row a head; a transformer's learned places and class token multiply nothing.
UNDECAYED = ("bias", "places", "token")


@keras.saving.register_keras_serializable(package="ampcourse")
class WarmupCosine(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate grows in a straight line, then falls along half a cosine to 0 (or stays).

    Goyal et al., "Accurate, Large Minibatch SGD" (2017), section 2.2 for the warm-up; Loshchilov and Hutter, "SGDR"
    (2016), equation 5 for the cosine.

    Args:
        peak: the highest rate, reached by the last update of the warm-up.
        warmup: updates that the growth takes.
        total: updates in the whole run.
        every: calls of the optimizer for one update: Keras counts each accumulated batch as a step.
        constant: stay at the peak after the warm-up.
    """

    def __init__(self, peak: float, warmup: int, total: int, every: int = 1, constant: bool = False) -> None:
        self.peak, self.warmup, self.total, self.every, self.constant = peak, warmup, total, every, constant

    def __call__(self, step: Any) -> Any:
        """The rate, float32, for the update with this number (from 0)."""
        update = ops.cast(step // self.every, "float32")
        rising = (update + 1) / max(1, self.warmup)
        share = ops.clip((update - self.warmup) / max(1, self.total - self.warmup), 0.0, 1.0)
        falling = ops.ones_like(share) if self.constant else (1 + ops.cos(math.pi * share)) / 2
        return self.peak * ops.where(update < self.warmup, rising, falling)

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        names = ("peak", "warmup", "total", "every", "constant")
        return {name: getattr(self, name) for name in names}


@keras.saving.register_keras_serializable(package="ampcourse")
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy of float32 logits (batch, classes) and whole labels (batch,), with label smoothing.

    Szegedy et al., "Rethinking the Inception Architecture" (2015), section 7.
    """

    def __init__(self, smoothing: float = 0.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.smoothing = smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One loss a picture, shape (batch,). Keras hands the labels over as float32."""
        classes = y_pred.shape[-1]
        target = ops.one_hot(ops.cast(y_true, "int32"), classes, dtype=y_pred.dtype)
        target = target * (1 - self.smoothing) + self.smoothing / classes
        return ops.categorical_crossentropy(target, y_pred, from_logits=True)

    def get_config(self) -> dict[str, Any]:
        """For saving."""
        return super().get_config() | {"smoothing": self.smoothing}


def build_model(config: Config, shape: tuple[int, int, int], classes: int) -> Any:
    """The model under the configured policy, which it is then asserted to have.

    Raises:
        TrainingError: if the model cannot be built for pictures of this shape.
    """
    from ampcourse.training.catalogue import entry

    keras.config.set_dtype_policy(config.keras_policy)
    keras.utils.set_random_seed(config.seed)
    try:
        model = entry(config.model).build(shape, classes)
    except ValueError as error:
        sentence = " ".join(str(error).split())
        raise TrainingError(f"{config.model} cannot be built for pictures of {shape}: {sentence}") from None
    _assert_policy(model, config.keras_policy)
    return model


def _assert_policy(model: Any, policy: str) -> None:
    """A benchmark or a parity run is worthless if the model silently computes in another dtype than was asked for."""
    expected = keras.dtype_policies.get(policy).compute_dtype
    layers = [layer for layer in model.layers if layer.weights]
    inner = [layer for layer in layers if layer.compute_dtype != expected]
    if layers and [layer.name for layer in inner] not in ([], [layers[-1].name]):
        raise AssertionError(f"{inner[0].name} computes in {inner[0].compute_dtype}, not in {expected}")
    if wrong := [v.path for v in model.trainable_variables if v.dtype != "float32"]:
        raise AssertionError(f"{wrong[0]} is not stored in float32")


def build_loss(config: Config) -> Any:
    """The loss of both loops: a mean over the batch."""
    return SmoothedCrossentropy(config.label_smoothing, name="crossentropy")


def build_schedule(config: Config, per_epoch: int, total: int, *, every: int = 1) -> WarmupCosine:
    """The schedule of a run of `total` updates with `per_epoch` in each epoch."""
    warmup = min(round(config.warmup * per_epoch), total // 2)
    return WarmupCosine(config.peak, warmup, total, every, config.schedule == "constant")


def build_optimizer(config: Config, schedule: WarmupCosine, model: Any, *, keras_does_all: bool) -> Any:
    """SGD or AdamW with decoupled weight decay, with a loss scale around it under mixed_float16.

    Args:
        config: the run.
        schedule: of the learning rate.
        model: built.
        keras_does_all: clipping, accumulation and averaging are the optimizer's (for `fit`); else the loop's.
    """
    kind = {"sgd": keras.optimizers.SGD, "adamw": keras.optimizers.AdamW}[config.optimizer]
    first = "momentum" if config.optimizer == "sgd" else "beta_1"
    settings: dict[str, Any] = {first: config.momentum, "weight_decay": config.weight_decay or None}
    if config.optimizer == "adamw" and not config.weight_decay:
        kind = keras.optimizers.Adam  # AdamW refuses to do without
    if keras_does_all and config.clip:
        settings["global_clipnorm"] = config.clip
    if keras_does_all and config.accumulate > 1:
        settings["gradient_accumulation_steps"] = config.accumulate
    if keras_does_all and config.ema:
        optimizer = averaging(kind)(schedule, decay=config.ema, **settings)
    else:
        optimizer = kind(schedule, **settings)
    if config.weight_decay:
        optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if not decays(v)])
    if config.keras_policy == "mixed_float16":
        optimizer = agreeing()(optimizer, initial_scale=config.loss_scale)
    optimizer.build(model.trainable_variables)
    return optimizer


def decays(variable: Any) -> bool:
    """Whether weight decay acts on a variable: on matrices and filters, not on biases, normalizations and places."""
    return len(variable.shape) > 1 and variable.name not in UNDECAYED
