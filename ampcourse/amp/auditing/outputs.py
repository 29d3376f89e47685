"""What the model returns: probabilities and predictions in a low-precision dtype, and whether its loss minds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcourse.amp.auditing.formats import LOW, as_float, dtype_of, is_low, told
from ampcourse.amp.auditing.graphs import MOVES, Graph
from ampcourse.amp.auditing.probes import Probes
from ampcourse.amp.auditing.report import Hazard

WIDE_SOFTMAX = 8192
_HEADS = {"Softmax": "softmax", "Sigmoid": "sigmoid"}
# Losses that do not take the logarithm of a prediction: probabilities in float16 lose digits there, nothing else.
_MILD = ("mean_squared", "mean_absolute", "huber", "log_cosh", "hinge", "cosine", "MeanSquared", "MeanAbsolute")
_MILD += ("Huber", "LogCosh", "Hinge", "Cosine", "Dice", "Tversky", "mse", "mae", "MSE", "MAE")


@dataclass(frozen=True)
class LossFacts:
    """What is known of the loss of one output.

    Attributes:
        name: its name.
        from_logits: whether it takes logits; None where it does not say.
        dtype: the dtype in which it computes.
        mild: whether it takes no logarithm of its predictions.
    """

    name: str
    from_logits: bool | None
    dtype: str = "float32"
    mild: bool = False


def loss_facts(loss: Any) -> LossFacts | None:
    """What is known of a loss: an object, a function, or the name of one."""
    import keras

    if loss is None:
        return None
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    name = getattr(loss, "__name__", None) or type(loss).__name__
    settings = {**getattr(loss, "_fn_kwargs", {}), **{k: v for k, v in vars(loss).items() if k == "from_logits"}}
    ours = getattr(loss, "fn", loss)
    known = str(getattr(ours, "__module__", "")).startswith("keras.")
    from_logits = bool(settings.get("from_logits", False)) if known or "from_logits" in settings else None
    dtype = dtype_of(getattr(loss, "dtype", "float32")) if isinstance(loss, keras.losses.Loss) else "float32"
    said = f"{name} {getattr(ours, '__name__', '')}"
    return LossFacts(name, from_logits, dtype, any(word in said for word in _MILD))


def output_hazards(
    graph: Graph, probes: Probes, outputs: list[Any], losses: list[Any], y: list[Any]
) -> Iterator[Hazard]:
    """Hazards of the model's outputs.

    Args:
        graph: the traced model.
        probes: numbers of the sample.
        outputs: the flat outputs of the model.
        losses: for each output its loss, or None.
        y: for each output its targets, or None; empty where no targets were given.
    """
    seen = set()
    for i, output in enumerate(outputs):
        facts = loss_facts(losses[i]) if i < len(losses) else None
        head, what = _head(graph, output)
        if head is not None:
            seen.add(id(head))
            yield from _probabilities(graph, head, what, facts)
        elif is_low(output):
            yield from _predictions(graph, output, facts, y[i] if i < len(y) else None)
        if facts is not None and facts.dtype in LOW:
            yield _loss_dtype(facts)
    yield from _wide_softmax(graph, seen)


def _head(graph: Graph, output: Any) -> tuple[Any, str]:
    """The low-precision softmax or sigmoid that an output comes from, and which of the two; None if from none."""
    tensor = graph.source(output)
    for _ in range(20):
        op = tensor.op
        what = _HEADS.get(op.type) or _written_out(graph, op)
        if what:
            return (op, what) if is_low(op.outputs[0]) else (None, "")
        if (op.type in MOVES or op.type == "Cast") and op.inputs:
            tensor = graph.source(op.inputs[0])
        else:
            break
    return None, ""


def _written_out(graph: Graph, op: Any) -> str:
    """`"softmax"` or `"sigmoid"` for one that is written in terms of exp or tanh; "" for anything else."""
    if _is_own_softmax(graph, op):
        return "softmax"
    return "sigmoid" if _is_own_sigmoid(graph, op) else ""


def _is_own_sigmoid(graph: Graph, op: Any) -> bool:
    """`1 / (1 + exp(-x))`, `exp(x) / (1 + exp(x))`, or `(1 + tanh(x)) / 2`."""
    if op.type not in ("RealDiv", "Reciprocal", "Inv", "Mul"):
        return False
    inputs = [graph.moved_from(x).op for x in op.inputs]
    for inner in (x for x in inputs if x.type == "AddV2"):
        terms = [*(graph.moved_from(x).op for x in inner.inputs), *(x for x in inputs if x is not inner)]
        types = {x.type for x in terms}
        if types == {"Const", "Tanh"} or (types == {"Const", "Exp"} and op.type != "Mul" and inner is inputs[-1]):
            return True
    return False


def _is_own_softmax(graph: Graph, op: Any) -> bool:
    """`exp(x) / sum(exp(x))`, as a quotient or a product, whatever guards it from 0, or `exp(log_softmax(x))`."""
    if op.type == "Exp":
        return graph.moved_from(op.inputs[0]).op.type == "LogSoftmax"
    if op.type in ("RealDiv", "Div", "DivNoNan"):
        return _is_share(graph, *op.inputs)
    if op.type != "Mul":
        return False
    return any(
        inverse is not None and _is_share(graph, top, inverse)
        for top, inverse in ((a, _inverted(graph, b)) for a, b in (op.inputs, op.inputs[::-1]))
    )


def _is_share(graph: Graph, top: Any, bottom: Any) -> bool:
    """Whether one tensor is an exponential and the other the sum of it."""
    top, bottom = _unguarded(graph, top), _unguarded(graph, bottom)
    if top.op.type != "Exp" or bottom.op.type != "Sum":
        return False
    added = _unguarded(graph, bottom.op.inputs[0])
    return added is top or (added.op.type == "Exp" and added.op.inputs[0] is top.op.inputs[0])


def _inverted(graph: Graph, tensor: Any) -> Any:
    """`x` of `1 / x`; None for anything else."""
    op = graph.moved_from(tensor).op
    if op.type in ("Reciprocal", "Inv"):
        return op.inputs[0]
    return op.inputs[1] if op.type == "RealDiv" and _is_number(graph, op.inputs[0]) else None


def _unguarded(graph: Graph, tensor: Any) -> Any:
    """What a tensor was before a small number was added to it, or held it up."""
    tensor = graph.moved_from(tensor)
    while tensor.op.type in ("AddV2", "Add", "Maximum"):
        others = [x for x in tensor.op.inputs if not _is_number(graph, x)]
        if len(others) != 1:
            break
        tensor = graph.moved_from(others[0])
    return tensor


def _is_number(graph: Graph, tensor: Any) -> bool:
    value = graph.written(graph.moved_from(tensor).op)
    return value is not None and np.size(value) == 1


def _probabilities(graph: Graph, op: Any, what: str, facts: LossFacts | None) -> Iterator[Hazard]:
    dtype = dtype_of(op.outputs[0])
    kind = "low_precision_softmax" if what == "softmax" else "low_precision_output"
    if facts is not None and facts.from_logits:
        return
    if facts is None:
        severity, who = "note", "a loss that takes probabilities"
    elif facts.mild:
        severity, who = "note", facts.name
    else:
        severity, who = ("error" if dtype == "float16" else "warning"), facts.name
    if dtype == "float16":
        seen = (
            "a probability below 6e-8 is 0, its logarithm's gradient overflows below 1.5e-5: where a wrong class leads "
            "by 15 the gradient is not finite, at 20 it is 0"
        )
    else:
        seen = "a probability has 8 significant bits, so one above 0.998 is 1 and stops learning"
    yield Hazard(
        kind,
        severity,
        graph.owner(op) or "model",
        f"The {what} of the head is computed in {dtype} and goes into {who}; {seen}.",
        f"keras.layers.Activation({what!r}, dtype='float32')  # or return logits, with from_logits=True in the loss",
        float(LOW[dtype].least_subnormal),
    )


def _predictions(graph: Graph, output: Any, facts: LossFacts | None, y: Any) -> Iterator[Hazard]:
    dtype = dtype_of(output)
    source = graph.moved_from(output)
    layer = graph.owner(source.op) or "model"
    fix = "keras.layers.Dense(units, dtype='float32')  # the last layer, or an Activation('linear', dtype='float32')"
    if facts is not None and facts.from_logits:
        return
    targets = as_float(y) if y is not None else None
    if targets is not None and targets.size and np.asarray(y).dtype.kind == "f":
        largest, spread = float(np.nanmax(np.abs(targets))), float(np.nanstd(targets))
        if largest > LOW[dtype].largest:
            told_max = told(LOW[dtype].largest)
            text = f"Targets reach {told(largest)}, but the {dtype} output cannot exceed {told_max}."
            yield Hazard("low_precision_output", "error", layer, text, fix, largest)
            return
        step = float(LOW[dtype].ulp(largest))
        if spread > 0 and step > spread / 8:
            text = f"Targets spread by {told(spread)} (standard deviation), but {dtype} outputs near {told(largest)} "
            yield Hazard("low_precision_output", "warning", layer, f"{text}lie {told(step)} apart.", fix, step)
            return
    digits = 3 if dtype == "float16" else 2
    text = f"The output is {dtype}: {digits} significant digits, nothing beyond {told(LOW[dtype].largest)}."
    yield Hazard("low_precision_output", "note", layer, text, fix, float(LOW[dtype].unit_roundoff))


def _loss_dtype(facts: LossFacts) -> Hazard:
    return Hazard(
        "low_precision_loss",
        "error" if facts.dtype == "float16" else "warning",
        "loss",
        f"{facts.name} computes in {facts.dtype}: its sums have {LOW[facts.dtype].precision} bits, and the loss times "
        f"the loss scale may not exceed {told(LOW[facts.dtype].largest)}.",
        f"loss = keras.losses.{facts.name}(dtype='float32')",
        float(LOW[facts.dtype].largest),
    )


def _wide_softmax(graph: Graph, seen: set[int]) -> Iterator[Hazard]:
    """A softmax over thousands of entries anywhere: its terms fall below what the format can hold."""
    for op in graph.forward():
        if op.type not in ("Softmax", "LogSoftmax") or id(op) in seen or not is_low(op.outputs[0]):
            continue
        width = op.outputs[0].shape[-1]
        if op.type == "Softmax" and width is not None and width >= WIDE_SOFTMAX:
            dtype = dtype_of(op.outputs[0])
            yield Hazard(
                "low_precision_softmax",
                "warning",
                graph.owner(op) or "step",
                f"A softmax over {width:,} entries in {dtype}: its average term is {told(1 / width)}, with "
                f"{told(float(LOW[dtype].ulp(1 / width)) * width)} of rounding to it.",
                "p = keras.ops.softmax(keras.ops.cast(x, 'float32'))",
                float(width),
            )
