"""Examining a patient: the program runs step by step, its float32 twin beside it, and everything is written down."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ampcourse.clinic.program import Program, as_compiled, under

Make = Callable[[np.random.Generator], Program]


@dataclass(frozen=True, eq=False)
class Course:
    """How one run went, step by step. Arrays have one entry a step.

    Attributes:
        losses: as the program's step gave them, float64.
        scales: the loss scale in use at each step; empty where the optimizer has no scaler.
        skipped: whether the optimizer left the step out (never so without a scaler).
        handed: Euclidean length of all gradients together as the program handed them to the optimizer (divided by the
            loss scale where there is one, so a right program shows true lengths).
        raw: the same, before any division.
        nonfinite: variable to the number of its gradient's values that were not finite, one array a variable.
        ways: layer to how far each of its trainable weights has come, from start to end of the run, one flat array.
        first: where the first value that is not finite appeared on the way forward: "" nowhere, "data" in the batch
            itself, "input" in the cast of the batch to the compute dtype, else the layer's name.
        computes, stores: layer to the dtype of its output, and of its weights ("" without any).
        warned: what Python warned of on the way.
    """

    losses: np.ndarray
    scales: np.ndarray
    skipped: np.ndarray
    handed: np.ndarray
    raw: np.ndarray
    nonfinite: dict[str, np.ndarray]
    ways: dict[str, np.ndarray]
    first: str
    computes: dict[str, str]
    stores: dict[str, str]
    warned: tuple[str, ...] = ()

    @property
    def moved(self) -> dict[str, float]:
        """Layer to the length of its way."""
        return {name: float(np.linalg.norm(way)) for name, way in self.ways.items()}

    @property
    def broken(self) -> dict[str, float]:
        """Layer to the share of its weights, 0 to 1, that are not finite at the end."""
        return {name: float(np.mean(~np.isfinite(way))) for name, way in self.ways.items()}


@dataclass(frozen=True, eq=False)
class Chart:
    """A run under mixed precision and its twin: the same program, seed and batches in float32.

    Attributes:
        name: whose chart it is.
        policy: the dtype policy of the run.
        run, twin: the two courses.
    """

    name: str
    policy: str
    run: Course
    twin: Course

    @property
    def untouched(self) -> dict[str, float]:
        """Layer to the share, 0 to 1, of the weights moved in the twin that are here exactly where they began."""
        pairs = {name: (way, self.twin.ways[name]) for name, way in self.run.ways.items()}
        return {
            name: float(np.mean(way[other != 0] == 0)) if other.any() else 0.0 for name, (way, other) in pairs.items()
        }

    def evidence(self) -> dict[str, Any]:
        """What a doctor needs, as plain data: `EVIDENCE` says what each entry means."""
        run, twin, there = self.run, self.twin, self.twin.moved
        return {
            "losses": tuple(run.losses.tolist()),
            "losses32": tuple(twin.losses.tolist()),
            "scales": tuple(run.scales.tolist()),
            "skipped": tuple(run.skipped.tolist()),
            "first": run.first,
            "handed": tuple(run.raw.tolist()),
            "handed32": tuple(twin.raw.tolist()),
            "moved": {name: _ratio(way, there[name]) for name, way in run.moved.items()},
            "untouched": self.untouched,
            "stores": {name: dtype for name, dtype in run.stores.items() if dtype},
        }

    def picture(self) -> Any:
        """The chart as a `Picture`: losses beside the twin's, loss scale and skips, gradients, movement."""
        from ampcourse.plots import symptoms

        return symptoms(self)

    def __str__(self) -> str:
        return describe(self)


EVIDENCE = {
    "losses": "the loss at each step",
    "losses32": "the loss of the float32 twin at each step",
    "scales": "the loss scale at each step; empty if the optimizer has no scaler",
    "skipped": "for each step, whether the optimizer skipped it",
    "first": "where the first value that is not finite appeared on the way forward, '' if nowhere",
    "handed": "length of the gradients at each step, just as the program handed them to the optimizer",
    "handed32": "the same in the float32 twin",
    "moved": "for each layer, how far its weights came, divided by the twin's way",
    "untouched": "for each layer, the share of the weights moved in the twin that never moved here, 0 to 1",
    "stores": "for each layer with weights, the dtype that they are stored in",
}


def examine(
    make: Make, policy: str = "mixed_float16", seed: int = 0, name: str = "", steps: int | None = None
) -> Chart:
    """Run a program under a policy and, with the same seed, in float32; about a second together.

    Args:
        make: draws a `Program` from a random generator; called once under each policy.
        policy: the dtype policy under which it is to be examined.
        seed: of the program's numbers, data and weights.
        name: for the chart; the function's own name by default.
        steps: at most so many steps; by default as many as the program has batches.

    Raises:
        TypeError: if `make` is no function, or does not give a `Program`.
        ValueError: if Keras does not run on TensorFlow, or `steps` is below 1.
    """
    import keras

    if not callable(make):
        raise TypeError(f"examine takes the function that makes the program, not {type(make).__name__}.")
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"The clinic needs Keras on TensorFlow, and here it runs on {keras.backend.backend()}: "
            "set KERAS_BACKEND=tensorflow and start anew."
        )
    courses = {one: follow(make, one, seed, steps=steps) for one in ("float32", policy)}
    title = name or getattr(make, "__name__", "program").replace("_", " ")
    return Chart(title, policy, courses[policy], courses["float32"])


def follow(make: Make, policy: str = "float32", seed: int = 0, monitor: Any = None, steps: int | None = None) -> Course:
    """Run a program once, and write down how it went; raises as `examine` does.

    Args:
        make: as in `examine`.
        policy: the dtype policy to run it under.
        seed: of the program's numbers, data and weights.
        monitor: an `amp.GradientMonitor` that watches the run, if one is given.
        steps: at most so many steps.
    """
    if steps is not None and steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}.")
    with under(policy, seed) as rng, warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        program = make(rng)
        if not isinstance(program, Program):
            raise TypeError(f"'{getattr(make, '__name__', make)}' gave {type(program).__name__}, not a clinic.Program.")
        program = replace(program, batches=program.batches[:steps])
        course = _Nurse(program, as_compiled(program, policy), monitor).course()
    said = dict.fromkeys(str(w.message).strip() for w in noticed if w.category is UserWarning)
    return replace(course, warned=tuple(said))


@dataclass
class _Nurse:
    """Runs the steps of one program and notes what can be seen at each."""

    program: Program
    optimizer: Any
    monitor: Any = None
    losses: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    skipped: list[bool] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    nonfinite: list[list[int]] = field(default_factory=list)
    first: str = ""
    _x: Any = None

    def course(self) -> Course:
        program, optimizer = self.program, self.optimizer
        model, variables = program.model, program.model.trainable_variables
        if not optimizer.built:  # a second time, a LossScaleOptimizer would start over
            optimizer.build(variables)
        if self.monitor is not None:
            self.monitor.attach(optimizer, model)
        start = {layer.name: _weights(layer) for layer in model.layers}
        hand_over, optimizer.apply = optimizer.apply, lambda grads, *rest: self._seen(hand_over, grads, *rest)
        scaled = hasattr(optimizer, "dynamic_scale")
        for x, y in program.batches:
            self._x = x
            made = int(optimizer.iterations)
            if scaled:
                self.scales.append(float(optimizer.dynamic_scale))
            self.losses.append(float(program.step(model, optimizer, x, y, program.loss)))
            self.skipped.append(int(optimizer.iterations) == made)
        raw = np.array(self.raw)
        with np.errstate(divide="ignore", invalid="ignore"):
            handed = raw / np.array(self.scales) if scaled else raw
        ends = {layer.name: _weights(layer) for layer in model.layers if start[layer.name].size}
        with np.errstate(invalid="ignore", over="ignore"):
            ways = {name: end - start[name] for name, end in ends.items()}
        return Course(
            losses=np.array(self.losses),
            scales=np.array(self.scales),
            skipped=np.array(self.skipped),
            handed=handed,
            raw=raw,
            nonfinite={v.path: np.array(n) for v, n in zip(variables, zip(*self.nonfinite, strict=True), strict=True)},
            ways=ways,
            first=self.first,
            computes={layer.name: _output_dtype(layer) for layer in model.layers},
            stores={layer.name: str(layer.weights[0].dtype) if layer.weights else "" for layer in model.layers},
        )

    def _seen(self, hand_over: Callable, gradients: list, *rest: Any) -> Any:
        """Note the gradients as they are handed over, before the optimizer touches anything."""
        arrays = [np.asarray(_dense(g)).astype(np.float64) for g in gradients]
        self.nonfinite.append([int(np.sum(~np.isfinite(a))) for a in arrays])
        with np.errstate(over="ignore", invalid="ignore"):
            self.raw.append(float(np.sqrt(sum(np.sum(a * a) for a in arrays))))
        if not self.first and sum(self.nonfinite[-1]):
            self.first = first_sick(self.program.model, self._x)
        if self.monitor is not None:
            self.monitor.record(list(gradients))
        return hand_over(gradients, *rest)


def first_sick(model: Any, x: Any) -> str:
    """Where, on the way forward, the first value appears that is not finite.

    Returns:
        "" nowhere; "data": in the batch itself; "input": in its cast to the compute dtype; else the name of a layer.
    """
    import keras
    import tensorflow as tf

    parts = x if isinstance(x, tuple | list) else [x]
    if not all(np.isfinite(np.asarray(part)).all() for part in parts):
        return "data"
    first = next(layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer))
    if not all(_finite(tf.cast(part, first.compute_dtype)) for part in parts):
        return "input"
    inner = [layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)]
    inputs = model.inputs if len(model.inputs) > 1 else model.inputs[0]
    outputs = keras.Model(inputs, [layer.output for layer in inner])(x, training=True)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    return next((layer.name for layer, out in zip(inner, outputs, strict=True) if not _finite(out)), "")


def _finite(tensor: Any) -> bool:
    import tensorflow as tf

    return bool(tf.reduce_all(tf.math.is_finite(tensor))) if tensor.dtype.is_floating else True


def _weights(layer: Any) -> np.ndarray:
    arrays = [np.ravel(w.numpy()).astype(np.float64) for w in layer.trainable_variables]
    return np.concatenate(arrays) if arrays else np.empty(0)


def _dense(gradient: Any) -> Any:
    import tensorflow as tf

    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def _output_dtype(layer: Any) -> str:
    output = layer.output
    return str((output[0] if isinstance(output, list) else output).dtype)


def _ratio(one: float, other: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(one) / np.float64(other))


def describe(chart: Chart) -> str:
    """The chart in plain words and numbers, one symptom a line."""
    run, twin, steps = chart.run, chart.twin, chart.run.losses.size
    wrong = sum(counts > 0 for counts in run.nonfinite.values()) if run.nonfinite else np.zeros(steps)
    lines = [
        f"{chart.name}: {steps} steps under {chart.policy}, and its twin in float32",
        f"  loss          {_span(run.losses)}    twin {_span(twin.losses)}",
        f"  loss scale    {_span(run.scales) if run.scales.size else 'none: this optimizer has no scaler'}",
        f"  skipped       {int(run.skipped.sum())} of {steps} steps",
        f"  not finite    gradients in {int(np.sum(wrong > 0))} steps"
        + (f"; on the way forward first: {run.first or 'nowhere'}" if np.any(wrong) else ""),
        f"  gradients     first length as handed over {run.raw[0]:.3g}    twin {twin.raw[0]:.3g}",
    ]
    for name in run.moved:
        broken = f", {run.broken[name]:.0%} of its weights not finite" if run.broken[name] else ""
        lines.append(f"  {name:<13} moved {run.moved[name]:.3g}    twin {twin.moved[name]:.3g}{broken}")
    return "\n".join(lines)


def _span(values: np.ndarray) -> str:
    return f"{values[0]:.4g} -> {values[-1]:.4g}"
