"""The optimizer: wrapped or not, what its wrapper ignores, and constants that the weights' dtype rounds away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ampcourse.amp.auditing.formats import LOW, dtype_of, rounded, told
from ampcourse.amp.auditing.report import Hazard

# Settings that LossScaleOptimizer refuses in its constructor and ignores when they are set on it afterwards; with the
# value that each has when nobody has touched it.
_IGNORED = {
    "weight_decay": None,
    "clipnorm": None,
    "global_clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}
_NO_CONSTANTS = frozenset(("ema_momentum", "ema_overwrite_frequency", "clipnorm", "clipvalue", "global_clipnorm"))
_WRAP = "optimizer = keras.optimizers.LossScaleOptimizer(optimizer)"


def is_wrapper(optimizer: Any) -> bool:
    """Whether an optimizer is Keras's loss scaling wrapper."""
    import keras

    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def optimizer_hazards(optimizer: Any, model: Any, scaled_by_hand: bool = False) -> Iterator[Hazard]:
    """Hazards of an optimizer for a model.

    Args:
        optimizer: the optimizer.
        model: the model whose variables it updates.
        scaled_by_hand: whether the training step scales the loss itself.
    """
    layers = [layer for layer in model._flatten_layers() if layer._trainable_variables]
    narrow = [layer for layer in layers if layer.compute_dtype == "float16"]
    if is_wrapper(optimizer):
        yield from _wrapper(optimizer)
    elif narrow and not scaled_by_hand:
        yield from _unwrapped(optimizer, model, narrow)
    while is_wrapper(optimizer):
        optimizer = optimizer.inner_optimizer
    yield from _constants(optimizer, model)


def _unwrapped(optimizer: Any, model: Any, narrow: list[Any]) -> Iterator[Hazard]:
    factor = getattr(optimizer, "loss_scale_factor", None)
    name = type(optimizer).__name__
    if factor is not None:
        if model.dtype_policy.name == "mixed_float16" and getattr(model, "optimizer", None) is not optimizer:
            yield Hazard(
                "optimizer_setting_dropped",
                "warning",
                "optimizer",
                f"loss_scale_factor={factor:g} of {name}: compile() wraps the optimizer of a mixed_float16 model in a "
                "LossScaleOptimizer, which sets loss_scale_factor to None without a word and starts at 32,768.",
                "model.compile(optimizer, loss, auto_scale_loss=False)  # keeps the fixed factor",
                float(factor),
            )
        return
    extra = ""
    if model.dtype_policy.name != "mixed_float16":
        extra = f" compile() wraps only where the model's own policy is mixed_float16; it is {model.dtype_policy.name}."
    yield Hazard(
        "optimizer_not_wrapped",
        "error",
        "optimizer",
        f"{_told_layers(narrow)} in float16, but {name} is not wrapped in a LossScaleOptimizer: gradients below 3e-8 "
        f"become 0.{extra}",
        _WRAP,
        float(len(narrow)),
    )


def _told_layers(layers: list[Any]) -> str:
    """`"1 layer with weights (dense) computes"`, `"3 layers with weights (dense, ...) compute"`."""
    if len(layers) == 1:
        return f"1 layer with weights ({layers[0].name}) computes"
    return f"{len(layers)} layers with weights ({layers[0].name}, ...) compute"


def _wrapper(optimizer: Any) -> Iterator[Hazard]:
    inner = optimizer.inner_optimizer
    if is_wrapper(inner):
        scale = scale_of(inner)
        yield Hazard(
            "optimizer_wrapped_twice",
            "error",
            "optimizer",
            "A LossScaleOptimizer inside a LossScaleOptimizer: the loss is scaled once and the gradients are unscaled "
            f"twice, so every update is {told(scale)} times too small.",
            "optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())  # one wrapper",
            scale,
        )
        yield from _wrapper(inner)
    yield from _ignored(optimizer)
    factor = getattr(inner, "loss_scale_factor", None)
    if factor is not None:
        yield Hazard(
            "optimizer_setting_dropped",
            "error",
            "optimizer",
            f"loss_scale_factor={factor:g} was set on the inner {type(inner).__name__} after it was wrapped: the loss "
            f"is not multiplied by it, but the gradients are divided by it, so updates are {factor:g} times too small.",
            "optimizer.inner_optimizer.loss_scale_factor = None",
            float(factor),
        )
    yield from _scale(optimizer)


def _ignored(optimizer: Any) -> Iterator[Hazard]:
    inner = optimizer.inner_optimizer
    for name, untouched in _IGNORED.items():
        value = getattr(optimizer, name, untouched)
        if value != untouched:
            yield Hazard(
                "optimizer_setting_dropped",
                "error",
                "optimizer",
                f"{name}={value!r} is set on the LossScaleOptimizer, which ignores it: only the inner "
                f"{type(inner).__name__} acts, and there {name} is {getattr(inner, name, None)!r}.",
                f"inner = keras.optimizers.{type(inner).__name__}({name}={value!r})  # set it there, then wrap",
                float(value) if isinstance(value, int | float) else None,
            )
    left_out = getattr(optimizer, "_exclude_from_weight_decay", None) or getattr(
        optimizer, "_exclude_from_weight_decay_pattern", None
    )
    if left_out:
        yield Hazard(
            "optimizer_setting_dropped",
            "error" if getattr(inner, "weight_decay", None) else "warning",
            "optimizer",
            "exclude_from_weight_decay was called on the LossScaleOptimizer, which ignores it: the inner "
            f"{type(inner).__name__} (weight_decay={getattr(inner, 'weight_decay', None)}) decays every variable.",
            "optimizer.inner_optimizer.exclude_from_weight_decay(var_names=['bias'])",
        )


def _scale(optimizer: Any) -> Iterator[Hazard]:
    """A scale or a growth interval that cannot work."""
    scale = scale_of(optimizer)
    if not np.isfinite(scale) or scale < 1:
        ruin = "the next finite gradients are divided by it" if scale == 0 else "it no longer lifts any gradient"
        yield Hazard(
            "loss_scale_unusable",
            "error" if not np.isfinite(scale) or scale <= 0 else "warning",
            "optimizer",
            f"The loss scale is {told(scale)}: {ruin}. Keras has no floor below which it would not fall.",
            "optimizer.dynamic_scale.assign(2.0**15)  # and find out which step was not finite",
            scale,
        )
    if not optimizer.dynamic_growth_steps or optimizer.dynamic_growth_steps < 1:
        yield Hazard(
            "loss_scale_unusable",
            "warning",
            "optimizer",
            f"dynamic_growth_steps={optimizer.dynamic_growth_steps}: the scale can only fall.",
            "keras.optimizers.LossScaleOptimizer(inner, dynamic_growth_steps=2000)",
        )


def scale_of(wrapper: Any) -> float:
    """The present loss scale of a `LossScaleOptimizer`."""
    return float(np.asarray(wrapper.dynamic_scale) if wrapper.built else wrapper.initial_scale)


def _constants(optimizer: Any, model: Any) -> Iterator[Hazard]:
    """Optimizers compute in the dtype of each variable: their constants are rounded to it."""
    low = {dtype_of(v.dtype) for v in model.trainable_variables} & set(LOW)
    try:
        settings = optimizer.get_config()
    except Exception:  # an optimizer of the user's own may have none
        return
    for dtype in sorted(low):
        for name, value in settings.items():
            if name in _NO_CONSTANTS or isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
                continue
            trouble = _rounds(float(value), dtype)
            if trouble:
                yield Hazard(
                    "optimizer_constant_rounds",
                    "error" if "becomes" in trouble else "warning",
                    "optimizer",
                    f"{type(optimizer).__name__}({name}={value:g}) {trouble} in {dtype}, the dtype of the weights.",
                    f"keras.config.set_dtype_policy('mixed_{dtype}')  # float32 weights, {dtype} computation",
                    float(value),
                )


def _rounds(value: float, dtype: str) -> str:
    """How a constant fails in a format; "" if it does not."""
    kept = float(rounded(np.asarray(value), dtype))
    if kept == 0:
        return "becomes 0"
    if not np.isfinite(kept):
        return "becomes infinite"
    if kept == 1 and value != 1:
        return "becomes 1"
    if abs(kept / value - 1) > 0.05:
        return f"is rounded to {told(kept)}, {abs(kept / value - 1):.0%} off,"
    if 0.5 < value < 1 and abs((1 - kept) / (1 - value) - 1) > 0.2:
        return f"is rounded to {kept:g}, so that 1 - {value:g} is {abs((1 - kept) / (1 - value) - 1):.0%} off,"
    return ""
