"""`audit`: everything that is checked, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ampcourse.amp.auditing.accepted import Accepted, accept
from ampcourse.amp.auditing.constants import constant_hazards
from ampcourse.amp.auditing.graphs import Graph
from ampcourse.amp.auditing.optimizers import optimizer_hazards
from ampcourse.amp.auditing.outputs import output_hazards
from ampcourse.amp.auditing.probes import Probes
from ampcourse.amp.auditing.report import SEVERITIES, AuditReport, Hazard
from ampcourse.amp.auditing.tracing import trace


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
        ValueError: if Keras does not run on TensorFlow, if the inputs cannot be known, if the sample does not fit, or if
            the model or the step cannot be traced.
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
    noted = trace(given.call, given.specs, given.model)
    graph = Graph(noted, given.model)
    probes = Probes(graph, given.arrays)
    probes.look()
    outputs = [x for x in _flat(noted.outputs) if hasattr(x, "op")]
    yield from constant_hazards(graph)
    yield from output_hazards(graph, probes, outputs, given.losses(len(outputs)), given.targets(len(outputs)))
    if given.optimizer is not None:
        yield from optimizer_hazards(given.optimizer, given.model)


def _flat(structure: Any) -> list[Any]:
    import tensorflow as tf

    return tf.nest.flatten(structure)


def _distinct(hazards: list[Hazard]) -> list[Hazard]:
    """Each hazard once: the same line of a shared layer is traced as often as the layer is called."""
    return list({(h.kind, h.layer, h.evidence): h for h in hazards}.values())


def finite_or_none(x: Any) -> float | None:
    """A number for `Hazard.value`."""
    return float(x) if np.isfinite(x) else None
