"""A training step: is every part of every gradient scaled, and nothing done to gradients while they are?

What is applied must be proportional to the loss scale, since the wrapper divides all of it by the scale. So the step is
traced with `apply` held back, and its gradients are computed at several scales. A part that does not grow with the
scale is a loss term that was not scaled; a gradient that does not grow at all was clipped, or never scaled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.amp.auditing.accumulating import accumulated
from ampcourse.amp.auditing.formats import LOW, dtype_of, is_low, told
from ampcourse.amp.auditing.graphs import Graph
from ampcourse.amp.auditing.optimizers import is_wrapper, scale_of
from ampcourse.amp.auditing.probes import Probes
from ampcourse.amp.auditing.report import Hazard

_HIGH = tuple(2.0**k for k in (15, 12, 9, 6, 3, 1))
_RANDOM = frozenset(("RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal", "RandomShuffle"))
_RANDOM |= {"Multinomial", "RandomGamma", "RandomPoissonV2", "ParameterizedTruncatedNormal"}
_SHOWN = 2**14
"""Numbers of one gradient that are compared."""


@dataclass(frozen=True)
class Growth:
    """How one variable's gradient answers to the scale.

    Attributes:
        scale: the largest scale at which all gradients are finite.
        ratio: how much it grows when the scale doubles up to there; 2 is right.
        scaled: whether the scale enters its computation at all.
        alien: the share of it, at scale 1, that does not grow with the scale.
    """

    name: str
    scale: float
    ratio: float
    scaled: bool
    alien: float


def step_hazards(graph: Graph, probes: Probes, model: Any, missed: list[str]) -> Iterator[Hazard]:
    """Hazards of a traced step: loss terms that are not scaled, clipped or never unscaled gradients, a narrow loss.

    What could not be compared is told to `missed`, in a sentence.
    """
    yield from _narrow_losses(graph, probes)
    narrow = any(layer.compute_dtype == "float16" for layer in model._flatten_layers() if layer._trainable_variables)
    for applied in graph.trace.applied:
        pairs = [(g, v) for g, v in zip(applied.gradients, applied.variables, strict=False) if g is not None]
        if not pairs:
            continue
        wrapped = is_wrapper(applied.optimizer)
        if not wrapped and not (narrow and graph.trace.scales):
            continue
        pairs = [(accumulated(graph, _dense(g)), v) for g, v in pairs]
        if any(g.graph is not graph.trace.graph for g, _ in pairs):
            missed.append("gradients of the step: they are applied inside a branch or a loop (tf.cond, tf.while_loop).")
            continue
        grown = _growth(graph, probes, pairs)
        if not grown:
            missed.append("gradients of the step: with the sample they are all 0 or not finite, whatever the scale.")
        yield from (_wrapped(grown, scale_of(applied.optimizer)) if wrapped else _bare(grown, applied.optimizer))


def scaled_by_hand(graph: Graph, probes: Probes) -> bool:
    """Whether the step divides its gradients by one factor before it applies them: a loss scale of its own."""
    for applied in graph.trace.applied:
        raw = {id(v): g for tape in graph.trace.tapes for v, g in zip(tape.sources, tape.gradients, strict=False)}
        pairs = [
            (raw.get(id(v), raw.get(id(getattr(v, "value", v)))), g)
            for g, v in zip(applied.gradients, applied.variables, strict=False)
        ]
        pairs = [(_dense(a), _dense(b)) for a, b in pairs if a is not None and b is not None]
        pairs = [pair for pair in pairs if all(x.graph is graph.trace.graph for x in pair)]
        values = probes.fetch([x for pair in pairs for x in pair]) if pairs else []
        norms = [float(np.linalg.norm(np.asarray(x).astype(np.float64))) for x in values]
        ratios = [a / b for a, b in zip(norms[::2], norms[1::2], strict=True) if b > 0 and np.isfinite(a)]
        if ratios and min(ratios) > 4 and max(ratios) < 1.1 * min(ratios):
            return True
    return False


def _dense(gradient: Any) -> Any:
    """The numbers of a gradient; of one with few rows (of an Embedding) those rows."""
    return getattr(gradient, "values", gradient)


def _growth(graph: Graph, probes: Probes, pairs: list[tuple[Any, Any]]) -> list[Growth]:
    tensors = [g for g, _ in pairs]
    drawn = _drawn(graph, probes)

    def at(scale: float) -> list[np.ndarray]:
        fed = {**drawn, **{name: np.float32(scale) for name in graph.scale_reads()}}
        return [_some(x) for x in probes.fetch(tensors, fed)]

    high = next((s for s in _HIGH if all(np.isfinite(g).all() for g in at(s))), None)
    if high is None:
        return []
    top, half, one, two, eight, sixteen = (at(s) for s in (high, high / 2, 1.0, 2.0, 8.0, 16.0))
    grown = []
    for i, (_, variable) in enumerate(pairs):
        if np.any(top[i]):
            first, second = 2 * one[i] - two[i], 2 * eight[i] - sixteen[i]
            alien = _share(first, second, two[i] - one[i])
            name = getattr(variable, "path", getattr(variable, "name", "variable"))
            scaled = graph.rests_on(tensors[i], graph.scale_reads())
            grown.append(Growth(name, high, _ratio(top[i], half[i]), scaled, alien))
    return grown


def _drawn(graph: Graph, probes: Probes) -> dict[str, np.ndarray]:
    """Random numbers of one run, to be fed to all others: at each scale the same step is to be compared."""
    draws = [op.outputs[0] for op in graph.trace.graph.get_operations() if op.type in _RANDOM]
    return {x.name: value for x, value in zip(draws, probes.fetch(draws), strict=True)} if draws else {}


def _some(x: Any) -> np.ndarray:
    flat = np.asarray(x).astype(np.float64).reshape(-1)
    return flat[:: max(1, len(flat) // _SHOWN)]


def _ratio(more: np.ndarray, less: np.ndarray) -> float:
    """By how much one gradient is larger, along the other; NaN for nothing to compare."""
    below = float(less @ less)
    return float(more @ less) / below if below else float("nan")


def _share(first: np.ndarray, second: np.ndarray, growing: np.ndarray) -> float:
    """The part of a gradient that does not grow, where two estimates of it agree; else 0: that is rounding."""
    a, b = float(np.linalg.norm(first)), float(np.linalg.norm(growing))
    agree = float(np.linalg.norm(first - second)) < 0.2 * a
    return a / (a + b) if agree and a else 0.0


def _wrapped(grown: list[Growth], scale: float) -> Iterator[Hazard]:
    clipped = [g for g in grown if g.ratio < 1.5 and g.scaled]
    still = [g for g in grown if g.ratio < 1.5 and g not in clipped]
    partly = [g for g in grown if g.alien > 0.02 and g not in clipped and g not in still]
    if clipped:
        g = clipped[0]
        yield Hazard(
            "scaled_gradients_clipped",
            "error",
            "step",
            f"The gradients of {len(clipped)} of {len(grown)} variables ({g.name}, ...) come from a scaled loss, but "
            f"at a loss scale of {told(g.scale)} they do not grow with it: doubling it gives {g.ratio:.2f} times as "
            "much, right is 2. They are clipped while they are scaled, and only then divided by the scale.",
            "keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, global_clipnorm=1.0))  # clips unscaled",
            g.ratio,
        )
    if still:
        g = still[0]
        yield Hazard(
            "unscaled_loss_term",
            "error",
            "step",
            f"Doubling the loss scale leaves the gradients of {len(still)} of {len(grown)} variables ({g.name}, ...) "
            f"as they are (ratio {g.ratio:.2f}, right is 2.00), but LossScaleOptimizer divides them by the scale all "
            f"the same: the updates are {told(scale)} times too small.",
            "loss = optimizer.scale_loss(loss)  # inside the tape, before tape.gradient",
            g.ratio,
        )
    if partly:
        g = max(partly, key=lambda g: g.alien)
        yield Hazard(
            "unscaled_loss_term",
            "error",
            "step",
            f"{g.alien:.0%} of the gradient of {g.name} (and parts of {len(partly) - 1} others) does not grow with the "
            "loss scale: a loss term is differentiated without it, and then divided by the scale with the rest.",
            "loss = optimizer.scale_loss(loss + sum(model.losses))  # one loss, scaled as a whole",
            g.alien,
        )


def _bare(grown: list[Growth], optimizer: Any) -> Iterator[Hazard]:
    """Gradients of a scaled loss that reach an optimizer which does not unscale them."""
    scaled = [g for g in grown if g.ratio > 1.5]
    if scaled:
        yield Hazard(
            "scaled_gradients_not_unscaled",
            "error",
            "step",
            f"The gradients given to {type(optimizer).__name__} grow with the loss scale (ratio {scaled[0].ratio:.2f} "
            "when it doubles), and nothing divides them by it again.",
            "optimizer.apply(gradients, variables)  # of the LossScaleOptimizer, not of its inner optimizer",
            scaled[0].ratio,
        )


def _narrow_losses(graph: Graph, probes: Probes) -> Iterator[Hazard]:
    """A loss in low precision, also one that is cast to float32 when it is scaled: by then it has lost its digits."""
    for tape in graph.trace.tapes:
        narrow = _narrow_part(graph, tape.target) if hasattr(tape.target, "op") else None
        if narrow is None:
            continue
        dtype = dtype_of(narrow)
        value = float(np.asarray(probes.fetch([narrow])[0]).astype(np.float64).max())
        scaled = dtype == "float16" and is_low(tape.target)
        ends = ", which a loss of 2 reaches at the loss scale 32,768" if scaled else ""
        yield Hazard(
            "low_precision_loss",
            "error" if scaled or not np.isfinite(value) else "warning",
            "step",
            f"The loss is computed in {dtype}, {LOW[dtype].precision} bits, and its sums end at "
            f"{told(LOW[dtype].largest)}{ends}; with the sample it is {told(value)}.",
            "y_pred = keras.ops.cast(model(x, training=True), 'float32')  # and the loss from that",
            value,
        )


def _narrow_part(graph: Graph, target: Any) -> Any:
    """The low-precision number that a loss is, or is a sum or multiple of; None if there is none."""
    todo, seen = [target], set()
    while todo:
        tensor = graph.source(todo.pop())
        if id(tensor) in seen or not tensor.dtype.is_floating:
            continue
        seen.add(id(tensor))
        if is_low(tensor) and tensor.shape.rank == 0 and not graph.is_constant(tensor.op):
            return tensor
        if tensor.op.type in ("Cast", "Mul", "AddV2", "AddN", "Identity", "Pack", "Squeeze", "Reshape", "RealDiv"):
            todo += list(tensor.op.inputs)
        elif tensor.op.type == "Sum" and graph.source(tensor.op.inputs[0]).op.type == "Pack":
            todo.append(tensor.op.inputs[0])
    return None


def added_losses(graph: Graph, probes: Probes) -> Iterator[Hazard]:
    """`add_loss` and activity regularizers in low precision."""
    for layer, tensor in graph.trace.losses:
        if not is_low(tensor):
            continue
        dtype, seen = dtype_of(tensor), ""
        value = None
        if probes and tensor.graph is graph.trace.graph:
            value = float(np.asarray(probes.fetch([tensor])[0]).astype(np.float64).max())
            seen = f" With the sample it is {told(value)}."
        yield Hazard(
            "low_precision_loss",
            "error" if value is not None and not np.isfinite(value) else "warning",
            graph.owner(tensor.op) or layer.name,
            f"A loss that {layer.name} adds is computed in {dtype}, {LOW[dtype].precision} bits, and its sum grows "
            f"with the batch up to {told(LOW[dtype].largest)}.{seen}",
            "self.add_loss(weight * keras.ops.mean(keras.ops.square(keras.ops.cast(x, 'float32'))))",
            value,
        )
