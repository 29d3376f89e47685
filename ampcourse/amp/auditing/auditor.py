"""`audit`: everything that is checked, in order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ampcourse.amp.auditing.accepted import Accepted, accept
from ampcourse.amp.auditing.constants import constant_hazards
from ampcourse.amp.auditing.graphs import Graph
from ampcourse.amp.auditing.identifiers import identifier_hazards
from ampcourse.amp.auditing.optimizers import optimizer_hazards
from ampcourse.amp.auditing.outputs import output_hazards
from ampcourse.amp.auditing.probes import Probes
from ampcourse.amp.auditing.ranges import range_hazards
from ampcourse.amp.auditing.reductions import reduction_hazards
from ampcourse.amp.auditing.report import SEVERITIES, AuditReport, Hazard
from ampcourse.amp.auditing.speed import idle_hazards, policy_hazards, promoted_hazards
from ampcourse.amp.auditing.stepping import first_line, step_of, trace_step
from ampcourse.amp.auditing.steps import added_losses, scaled_by_hand, step_hazards
from ampcourse.amp.auditing.tracing import Trace, trace
from ampcourse.amp.dtypes_inputs import failed
from ampcourse.amp.machine import hardware


def audit(
    model: Any,
    optimizer: Any = None,
    sample: Any = None,
    *,
    loss: Any = None,
    step: Callable | None = None,
) -> AuditReport:
    """Find what mixed precision will do wrong to a model, before it is trained.

    The model is traced as `fit` would call it and its graph is read; with a sample, chosen parts of the graph are run.
    Weights, optimizer, random state and global policy stay as they were; nothing is printed. A model that is not built
    is built by its first call on the sample.

    Args:
        model: a Keras 3 model or layer: Functional, Sequential or subclassed.
        optimizer: its optimizer; the one that it was compiled with if left out.
        sample: a batch as `fit` takes it: the inputs, or a tuple `(x, y)` or `(x, y, weights)`, or a `tf.data.Dataset`
            of them. Needed for a subclassed model, for `step`, and for every finding that rests on values.
        loss: as for `compile` (Keras computes it in float32); what the model was compiled with if left out.
        step: a training step of your own, called `step(x, y)` or `step((x, y))`; plain or a `tf.function`. A model
            with a `train_step` of its own is checked with that.

    Returns:
        The report; false in a condition if there is neither an error nor a warning.

    Raises:
        TypeError: for what is no Keras 3 model, optimizer, loss or function.
        ValueError: if Keras does not run on TensorFlow, if the inputs cannot be known, if the sample does not fit, or
            if the model or the step cannot be traced.
    """
    given = accept(model, optimizer, sample, loss, step)
    from ampcourse import quietly

    with quietly():
        hazards = list(_hazards(given))
    return AuditReport(
        getattr(model, "name", type(model).__name__),
        model.dtype_policy.name,
        tuple(sorted(_distinct(hazards), key=lambda h: SEVERITIES.index(h.severity))),
        tuple(given.not_checked),
    )


def _hazards(given: Accepted) -> Iterator[Hazard]:
    try:
        noted = trace(given.call, given.specs, given.model)
    except Exception as error:  # whatever the model's code raises
        raise ValueError(failed(given.model, "audit", error)) from None
    graph, probes = _traced(given, noted, given.arrays)
    outputs = list(graph.trace.wrapped.outputs)
    losses, targets = given.losses(len(outputs)), given.targets(len(outputs))
    with contextlib.closing(probes):
        yield from _careful(given, "constants", constant_hazards(graph))
        yield from _careful(given, "outputs", output_hazards(graph, probes, outputs, losses, targets))
        yield from _careful(given, "identifiers", identifier_hazards(graph, probes, given.arrays))
        yield from _careful(given, "reductions", reduction_hazards(graph, probes))
        yield from _careful(given, "added losses", added_losses(graph, probes))
        if probes:
            yield from _careful(given, "ranges", range_hazards(graph, probes, given.arrays, outputs))
        yield from _careful(given, "promoted layers", promoted_hazards(graph, given.model))
        yield from _careful(given, "dimensions", idle_hazards(graph))
    yield from _training(given)
    yield from policy_hazards(given.model, hardware())


def _careful(given: Accepted, what: str, found: Iterator[Hazard]) -> Iterator[Hazard]:
    """One check; graphs hold more than any check foresees, and one that fails must not take the others with it."""
    try:
        yield from found
    except Exception as error:
        given.not_checked.append(f"{what}: the check failed ({first_line(error)}).")


def _training(given: Accepted) -> Iterator[Hazard]:
    """The step, if there is one to look at, and the optimizers."""
    optimizers, by_hand = [given.optimizer], False
    step = step_of(given)
    if step is not None:
        noted = trace_step(given, *step)
        if noted is not None:
            graph, probes = _traced(given, noted, given.step_arrays)
            with contextlib.closing(probes):
                by_hand = bool(noted.scales) or (bool(probes) and scaled_by_hand(graph, probes))
                if probes:
                    yield from _careful(given, "gradients", step_hazards(graph, probes, given.model, given.not_checked))
                yield from _careful(given, "the step", _of_the_step(graph, probes))
            optimizers = [applied.optimizer for applied in noted.applied] or optimizers
    for optimizer in {id(o): o for o in optimizers if o is not None}.values():
        yield from optimizer_hazards(optimizer, given.model, by_hand)


def _of_the_step(graph: Graph, probes: Probes) -> Iterator[Hazard]:
    """What the step itself computes; its model's layers have been looked at already."""
    for found in (constant_hazards(graph), reduction_hazards(graph, probes), range_hazards(graph, probes, [], [])):
        yield from (hazard for hazard in found if hazard.layer == "step")


def _traced(given: Accepted, noted: Trace, arrays: list[Any] | None) -> tuple[Graph, Probes]:
    graph = Graph(noted, given.model)
    probes = Probes(graph, arrays)
    try:
        probes.look()
    except Exception as error:  # such as an index beyond a table
        probes.close()
        given.not_checked.append(f"values: the sample cannot be run ({first_line(error)}).")
        probes = Probes(graph, None)
    return graph, probes


def _distinct(hazards: list[Hazard]) -> list[Hazard]:
    """Each hazard once: a shared layer is traced as often as it is called, and notes on its like say the same."""
    kept: dict[tuple[str, ...], list[Hazard]] = {}
    for hazard in dict.fromkeys(hazards):
        where = "" if hazard.severity == "note" else hazard.layer
        kept.setdefault((hazard.kind, where, hazard.evidence, hazard.fix), []).append(hazard)
    return [_counted(same[0], {h.layer for h in same}) for same in kept.values()]


def _counted(hazard: Hazard, layers: set[str]) -> Hazard:
    more = len(layers) - 1
    also = f" The same in {more} more layer{'s' * (more > 1)}."
    return replace(hazard, evidence=hazard.evidence + also) if more else hazard
