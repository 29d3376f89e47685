"""What costs speed: parts that run in float32 after all, idle Tensor Cores, a policy that gains nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ampcourse.amp.auditing.formats import LOW, WIDE, dtype_of, is_low
from ampcourse.amp.auditing.graphs import Graph, is_asked_for, line_of
from ampcourse.amp.auditing.products import PRODUCTS, channels, multiplications
from ampcourse.amp.auditing.report import Hazard
from ampcourse.amp.auditing.tracing import Call

_MOST_NOTES = 5


def promoted_hazards(graph: Graph, model: Any) -> Iterator[Hazard]:
    """Layers whose policy is low precision and which nevertheless compute and answer in float32, unasked."""
    for call in graph.trace.calls:
        promoted = [x for x in call.outputs if dtype_of(x) in WIDE]
        if not promoted or not _is_low_layer(call) or not any(is_low(x) for x in _floats_in(graph, call)):
            continue
        culprit = _silent_cast(graph, call, promoted[0])
        if culprit is None:
            continue
        line = line_of(culprit)
        last = any(graph.moved_from(x) is graph.moved_from(promoted[0]) for x in graph.trace.wrapped.outputs)
        yield Hazard(
            "promoted_to_float32",
            "note" if last else "warning",  # outputs in float32 are what a head should give
            call.label,
            f"{call.label} is given {dtype_of(culprit.inputs[0])} and answers in {dtype_of(promoted[0])}: something in "
            f"it is {dtype_of(promoted[0])}, and what meets it is promoted{f' ({line})' if line else ''}. Everything "
            "behind it in the layer gains neither speed nor memory.",
            "c = keras.ops.cast(c, self.compute_dtype)  # constants and weights in the layer's own dtype",
        )
    yield from _mostly_wide(graph, model)


def _is_low_layer(call: Call) -> bool:
    return getattr(call.layer, "compute_dtype", None) in LOW or not hasattr(call.layer, "compute_dtype")


def _floats_in(graph: Graph, call: Call) -> list[Any]:
    inside = call.graph.get_operations()[call.start : call.end]
    return [x for op in inside for x in op.inputs if x.dtype.is_floating]


def _silent_cast(graph: Graph, call: Call, output: Any) -> Any:
    """The cast to float32, made by a library and not asked for, in the layer's own code, that an output rests on."""
    inside = {op.name for op in call.graph.get_operations()[call.start : call.end]}
    deeper = {
        op.name
        for other in graph.trace.calls
        if other.graph is call.graph and other.depth > call.depth and call.start <= other.start < call.end
        for op in call.graph.get_operations()[other.start : other.end]
    }
    todo, seen = [output.op], set()
    while todo:
        op = todo.pop()
        if op.name in seen or op.name not in inside or op.name in deeper:
            continue
        seen.add(op.name)
        if op.type == "Cast" and is_low(op.inputs[0]) and dtype_of(op.outputs[0]) in WIDE:
            if op is not output.op and not is_asked_for(op):
                return op
            continue
        todo += [x.op for x in op.inputs if x.dtype.is_floating and not is_low(x)]
    return None


def _mostly_wide(graph: Graph, model: Any) -> Iterator[Hazard]:
    """A low-precision model most of whose products belong to layers of another policy, the head left out."""
    if model.compute_dtype not in LOW:
        return
    products = [op for op in graph.forward() if op.type in PRODUCTS and op.inputs[0].dtype.is_floating]
    low = [op for op in products if is_low(op.inputs[0])]
    wide = [op for op in products if not is_low(op.inputs[0]) and _leads_on(graph, op, any_product=not low)]
    work = [sum(map(multiplications, some)) for some in (wide, low)]
    if wide and work[0] > sum(work) / 2:
        largest = graph.owner(max(wide, key=multiplications)) or "model"
        share = work[0] / sum(work)
        yield Hazard(
            "promoted_to_float32",
            "warning" if low else "note",  # float32 throughout may be meant
            largest,
            f"{share:.0%} of the multiplications of a {model.dtype_policy.name} model run in float32, most of them in "
            f"{largest}: layers made before the policy was set keep the policy of that time.",
            f"keras.config.set_dtype_policy({model.dtype_policy.name!r})  # before any layer is made",
            share,
        )


def _leads_on(graph: Graph, op: Any, any_product: bool) -> bool:
    """Whether a product is followed by one in low precision (or by any): a float32 head is not."""
    todo, seen = [op.outputs[0]], set()
    while todo:
        tensor = todo.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        for use, _ in graph.consumers(tensor):
            if use.type in PRODUCTS and (any_product or is_low(use.inputs[0])):
                return True
            todo += use.outputs
    return False


def idle_hazards(graph: Graph) -> Iterator[Hazard]:
    """Products in low precision with dimensions that are no multiples of 8, if they are a good part of the work."""
    work = {id(op): multiplications(op) for op in graph.forward() if op.type in PRODUCTS and is_low(op.inputs[0])}
    total, found = sum(work.values()), {}
    for op in graph.forward():
        odd = [n for n in channels(op) if n % 8 and n > 8] if id(op) in work else []
        if odd and work[id(op)] > 0.05 * total:
            found.setdefault(graph.owner(op) or "step", (odd[0], op, work[id(op)] / total))
    for layer, (size, op, share) in list(found.items())[:_MOST_NOTES]:
        yield Hazard(
            "idle_tensor_cores",
            "note",
            layer,
            f"A dimension of {size:,} in {op.type} is no multiple of 8, and this product is {share:.0%} of the model's "
            "multiplications: on a GPU part of its Tensor Cores may stay idle (not measured here).",
            f"units = {-(-size // 8) * 8}  # instead of {size}: padded up to a multiple of 8",
            float(size),
        )


def policy_hazards(model: Any, machine: Any) -> Iterator[Hazard]:
    """A policy that this machine is not expected to speed up.

    Args:
        model: the model.
        machine: what `ampcourse.amp.hardware()` returned.
    """
    used = {layer.compute_dtype for layer in model._flatten_layers() if layer._trainable_variables} & set(LOW)
    if not used:
        return
    dtype = sorted(used)[0]
    pays = machine.policy
    if pays == f"mixed_{dtype}" or (dtype == "float16" and pays == "mixed_bfloat16" and machine.gpus):
        return
    yield Hazard(
        "policy_not_faster_here",
        "note",
        "model",
        f"{dtype} is not expected to be faster on this machine: the policy that pays here is {pays}, because "
        f"{machine.reason[0].lower() if machine.reason[1:2].islower() else machine.reason[0]}{machine.reason[1:]}",
        f"keras.config.set_dtype_policy({pays!r})  # on this machine",
    )
