"""Gradients that a step adds up in variables before it applies them."""

from __future__ import annotations

from typing import Any

from ampcourse.amp.auditing.graphs import Graph

_ASSIGNS = ("AssignAddVariableOp", "AssignVariableOp")


def accumulated(graph: Graph, gradient: Any) -> Any:
    """What is added to the variable that a gradient is read from; a gradient that comes from a tape stays as it is.

    An audit assigns nothing, so that such a variable would hold what it held before the step.
    """
    names = [getattr(g, "values", g).name for tape in graph.trace.tapes for g in tape.gradients if g is not None]
    if graph.rests_on(gradient, names):
        return gradient
    for read in _reads(graph, gradient):
        for op in graph.trace.graph.get_operations():
            same = op.type in _ASSIGNS and graph.source(op.inputs[0]) is graph.source(read.inputs[0])
            if same and graph.rests_on(op.inputs[1], names):
                return _added(graph, op.inputs[1], names)
    return gradient


def _reads(graph: Graph, tensor: Any) -> list[Any]:
    """The reads of variables that a tensor rests on."""
    todo, seen, found = [tensor], set(), []
    while todo:
        op = graph.source(todo.pop()).op
        if id(op) in seen:
            continue
        seen.add(id(op))
        if op.type == "ReadVariableOp":
            found.append(op)
        todo += list(op.inputs)
    return found


def _added(graph: Graph, value: Any, names: list[str]) -> Any:
    """Of a sum with what the variable held, the part that is new."""
    while value.op.type in ("AddV2", "Add", "Identity") and value.name not in names:
        fresh = [x for x in value.op.inputs if graph.rests_on(x, names)]
        if len(fresh) != 1:
            break
        value = fresh[0]
    return value
