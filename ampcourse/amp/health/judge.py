"""The verdict on a run, and the sentences that give its reasons."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ampcourse.amp.health.facts import Facts

VERDICTS = ("healthy", "settling", "collapsing", "diverged", "underflowing")
LONG_STREAK = 10  # halvings in a row, a factor of a thousand: no scale that had settled needs them
LONG_CLEAN = 20  # good steps in a row after which a scale counts as settled
RATE = 0.05  # skipped steps in recent ones; a healthy scaler loses one in `dynamic_growth_steps`
WINDOW = 200
MOSTLY = 0.5
FEW = 0.2
UNSCALED = 5e-4  # update over weights and learning rate: a network that learns has about 0.01 and more
BEFORE_UNDERFLOW = 10  # clean steps before anything is said on underflow


def judge(facts: Facts) -> tuple[str, list[str]]:
    """One of `VERDICTS`, and sentences, the most important first."""
    if not facts.steps:
        return "settling", ["No step has been recorded yet."]
    for verdict, rule in _RULES:
        if said := rule(facts):
            return verdict, said + _notes(facts)
    return "healthy", _healthy(facts) + _notes(facts)


def count(number: int, unit: str = "step") -> str:
    """A number with its unit, in the singular where it is 1."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def room(facts: Facts) -> int:
    """Halvings left before the scale is 0.0; float32 numbers below 2**-126 count as zero."""
    return max(int(math.log2(facts.scale)) + 127, 0) if 0 < facts.scale < math.inf else 0


def _diverged(facts: Facts) -> list[str]:
    said = []
    if not facts.weights_finite:
        said.append(f"Weights are no longer finite after {count(facts.steps)}: {_first_bad(facts)}.")
    if facts.dynamic and not 0 < facts.scale < math.inf:
        said.append(
            f"The loss scale is {facts.scale:g}: the next step with finite gradients divides by it and makes every "
            "weight NaN. Stop, go back to the last good weights, and find out why gradients are not finite."
        )
    if not facts.dynamic and facts.halted:
        said.append(
            f"The run was halted at step {facts.steps:,}, whose gradients are not finite: without a loss scaler they "
            "would have been applied and made weights NaN."
        )
    if not facts.dynamic and facts.streak >= 3 and not said:
        said.append(
            f"The gradients of the last {facts.streak:,} steps are not finite, and without a loss scaler such steps "
            "are applied: go back to the last good weights."
        )
    return said


def _unskipped(facts: Facts) -> int:
    """Steps with non-finite gradients that were applied."""
    return int((~facts.history["skipped"] & (facts.history["nonfinite"] > 0)).sum())


def _first_bad(facts: Facts) -> str:
    bad = facts.variables["nonfinite_steps"]
    if not facts.nonfinite_steps:
        return "yet no gradient was, so something else wrote them"
    step = facts.history["step"][facts.history["nonfinite"] > 0]
    first = f"the first gradients that were not finite came at step {step[0]:,}, " if step.size else ""
    worst = int(np.argmax(bad))
    return f"{first}and '{facts.watched[worst].name}' had them in {count(int(bad[worst]))}"


def _collapsing(facts: Facts) -> list[str]:
    if not facts.dynamic or not facts.nonfinite_steps:
        return []
    ever_settled = facts.steps > facts.streak
    left = _left(facts)
    if facts.halted:
        return [
            f"The run was halted at step {facts.steps:,} and a loss scale of {facts.scale:g}, before the falling scale "
            "could destroy the weights."
        ]
    if facts.scale < 1 and facts.clean < 5 * LONG_CLEAN:
        return [
            f"The loss scale has fallen to {facts.scale:g} and is not needed that low by any healthy run: {left}. "
            "Overflow here does not come from scaling: look for NaN in the data, a learning rate too high, or an "
            "operation that overflows in the compute dtype."
        ]
    if facts.streak >= LONG_STREAK and ever_settled:
        return [
            f"The last {facts.streak:,} steps in a row had non-finite gradients and the loss scale keeps falling, now "
            f"{facts.scale:g}: {left}. Gradients were finite before at a higher scale, so the scale is not the cause."
        ]
    recent = facts.history["skipped"][-WINDOW:]
    if recent.size >= 2 * LONG_CLEAN and facts.growth_steps * RATE > 1 and _settled(facts):
        late = recent[LONG_CLEAN:]
        if late.mean() > RATE and late.sum() >= LONG_STREAK:
            return [
                f"{int(late.sum()):,} of the last {late.size:,} steps were skipped: the loss scale falls faster than "
                f"it can grow (once in {facts.growth_steps:,} good steps), now {facts.scale:g}; {left}."
            ]
    return []


def _left(facts: Facts) -> str:
    """What comes of it if the scale goes on falling."""
    if facts.floored:
        return "at 1.0 it stops, and while this lasts no step is applied"
    more = count(room(facts), "more non-finite step")
    return f"{more} and it is 0.0, after which the next good step makes all weights NaN"


def _settled(facts: Facts) -> bool:
    """Whether the scale had found its level: there was a long stretch of good steps."""
    return facts.longest >= LONG_CLEAN


def _underflowing(facts: Facts) -> list[str]:
    said = []
    lost = _lost(facts)
    if lost.any() and lost.sum() >= max(1, FEW * _candidates(facts).sum()):
        share = facts.variables["flushed"][lost].mean()
        advice = (
            "raise initial_scale of the LossScaleOptimizer"
            if facts.scaled
            else "wrap the optimizer in keras.optimizers.LossScaleOptimizer and scale the loss, or use mixed_bfloat16"
        )
        worst = facts.watched[int(np.flatnonzero(lost)[0])]
        said.append(
            f"Gradients underflow in {worst.compute}: in {int(lost.sum()):,} of {int(_candidates(facts).sum()):,} "
            f"kernels most are zero or subnormal ({share:.0%} zero on average; the first is '{worst.name}'). "
            f"To mend it, {advice}. Gradients that are still exactly zero then are no underflow: no unit is active."
        )
    stuck = _stuck(facts)
    if stuck.any() and stuck.sum() >= FEW * stuck.size:
        name = facts.watched[int(np.flatnonzero(stuck)[0])]
        said.append(
            f"Updates round away: in {int(stuck.sum()):,} of {stuck.size:,} variables most weights do not move, since "
            f"the updates are below the unit roundoff of {name.dtype} ('{name.name}' is the first). Keep the weights "
            "in float32, as the mixed policies do."
        )
    return said


def _candidates(facts: Facts) -> np.ndarray:
    """Kernels whose gradients can underflow: their compute dtype is float16."""
    known = facts.variables["clean"] >= BEFORE_UNDERFLOW
    return known & np.array([w.kernel and w.compute == "float16" for w in facts.watched], bool)


def _lost(facts: Facts) -> np.ndarray:
    """Kernels of which most gradients are subnormal, or all are zero while others are not."""
    v = facts.variables
    rest = np.maximum(1 - v["flushed"], 1e-9)
    subnormal = (v["subnormal"] / rest > MOSTLY) & (v["subnormal"] > 0)
    silent = (v["flushed"] > 0.999) & bool((v["flushed"] < 0.999).any())
    return _candidates(facts) & (subnormal | silent)


def _stuck(facts: Facts) -> np.ndarray:
    v = facts.variables
    low = np.array([w.dtype in ("float16", "bfloat16") for w in facts.watched], bool)
    return low & (v["updates"] >= BEFORE_UNDERFLOW) & (v["unmoved"] > MOSTLY) & (v["flushed"] < MOSTLY)


def _settling(facts: Facts) -> list[str]:
    if not facts.nonfinite_steps or facts.clean >= LONG_CLEAN:
        return []
    if _settled(facts) and facts.streak <= 1:
        return []
    if not facts.dynamic and not facts.skipped:
        return []
    return [
        f"Healthy skip: dynamic scaling is finding its level, {facts.skipped:,} of {count(facts.steps)} skipped so "
        f"far and the scale is {facts.scale:g}."
    ]


def _healthy(facts: Facts) -> list[str]:
    if not facts.nonfinite_steps:
        kind = f" at a loss scale of {facts.scale:g}" if facts.scaled else ""
        return [f"All gradients of {count(facts.steps)} were finite{kind}."]
    if facts.dynamic:
        return [
            f"Healthy skip: dynamic scaling skipped {facts.skipped:,} of {count(facts.steps)} while it found its "
            f"level, and the scale is {facts.scale:g}."
        ]
    return [
        f"{facts.nonfinite_steps:,} of {count(facts.steps)} had non-finite gradients; the weights are still finite."
    ]


def _notes(facts: Facts) -> list[str]:
    """What should be known whatever the verdict."""
    said = []
    if facts.nonfinite_steps > facts.nan_steps:
        said.append(
            f"{facts.nan_steps:,} of {count(facts.nonfinite_steps, 'non-finite step')} held a NaN: a check by is_nan "
            f"misses the {facts.nonfinite_steps - facts.nan_steps:,} that hold infinities alone."
        )
    if facts.dynamic and not facts.halted and (applied := _unskipped(facts)):
        said.append(
            f"Steps with non-finite gradients that were applied though there is a loss scaler: {applied:,}. With "
            "several replicas Keras looks only at the gradients of the first one; in a loop of your own, see that "
            "monitor.record gets the gradients that optimizer.apply gets, right before it."
        )
    if _unscaled(facts):
        ratio = np.nanmax(facts.history["update_ratio"])
        said.append(
            f"Updates stayed below {ratio:.1g} of the weights at every step: is the loss scaled "
            "(optimizer.scale_loss(loss), inside the tape), and are gradients unscaled before they are clipped? A step "
            f"of unscaled gradients is too short by the loss scale, {facts.scale:g}. If the loss itself is that small, "
            "nothing is wrong."
        )
    if not facts.state_finite:
        said.append(
            "Variables that are not trained (such as a normalization's moving statistics) are not finite: a skipped "
            "step still runs the forward pass and updates them, so predictions will not be finite either."
        )
    if facts.skipped == facts.steps and not facts.nonfinite_steps and facts.steps > 1:
        said.append(
            "No step was applied though all gradients are finite: is optimizer.apply called after monitor.record?"
        )
    return said


def _unscaled(facts: Facts) -> bool:
    """Whether a loop of one's own may have left out the scaling, which Keras's `fit` cannot."""
    ratios = facts.history["update_ratio"]
    known = ratios[np.isfinite(ratios)]
    if not (facts.own_loop and facts.dynamic and facts.scale >= 2.0**10 and known.size >= LONG_CLEAN):
        return False
    if facts.nonfinite_steps or facts.history["step"][0] != 1 or not facts.learning_rate:
        return False
    return 0 < known.max() < UNSCALED * facts.learning_rate


_RULES: tuple[tuple[str, Callable[[Facts], list[str]]], ...] = (
    ("diverged", _diverged),
    ("collapsing", _collapsing),
    ("underflowing", _underflowing),
    ("settling", _settling),
)
