"""The model traced once into a graph, with notes of who made which operation, and from which Python value."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_one_at_a_time = threading.RLock()


@dataclass(eq=False)
class Call:
    """One call of a layer or bare operation: `graph.get_operations()[start:end]` are what it made."""

    layer: Any
    label: str
    graph: Any
    start: int
    depth: int
    given: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    end: int = 0


@dataclass(eq=False)
class Applied:
    """What an optimizer was told to apply."""

    optimizer: Any
    gradients: list[Any]
    variables: list[Any]


@dataclass(eq=False)
class Differentiated:
    """One `tape.gradient(target, sources)`, and the operations that it made."""

    target: Any
    sources: list[Any]
    gradients: list[Any]
    graph: Any
    start: int
    end: int


@dataclass(eq=False)
class Trace:
    """A graph and what was noted while it was made.

    Attributes:
        wrapped: the function that TensorFlow made; its graph can be run in parts, without side effects.
        inputs: the placeholders of the flat inputs.
        outputs: what the function returned.
        calls: calls of layers, in order.
        constants: (graph id, operation name) -> the Python value that a constant was made from.
        losses: (layer, tensor) of every `add_loss`.
        applied: every `optimizer.apply`, which is noted and not done.
        tapes: every `tape.gradient`.
        scales: handles of the variables that hold a loss scale.
    """

    wrapped: Any = None
    inputs: list[Any] = field(default_factory=list)
    outputs: Any = None
    calls: list[Call] = field(default_factory=list)
    constants: dict[tuple[int, str], Any] = field(default_factory=dict)
    losses: list[tuple[Any, Any]] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    tapes: list[Differentiated] = field(default_factory=list)
    scales: list[Any] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)  # variables that live as long as the trace

    @property
    def graph(self) -> Any:
        """The graph."""
        return self.wrapped.graph


def trace(function: Callable, specs: list[Any], model: Any, until_applied: bool = False) -> Trace:
    """Trace `function(*tensors)` and take note.

    Operations with side effects (assignments) stay in the graph but are never run: only chosen tensors are fetched.

    Args:
        function: takes one tensor for each spec.
        specs: flat `tf.TensorSpec`s.
        model: the model, whose state in Python (losses) is put back afterwards.
        until_applied: whether what fails after gradients were applied (metrics that are not built yet) does not matter.
    """
    import tensorflow as tf

    noted = Trace()

    def call(*tensors: Any) -> Any:
        noted.inputs = list(tensors)
        try:
            noted.outputs = function(*tensors)
        except Exception:
            if not (until_applied and noted.applied):
                raise
            return list(tensors)
        return [x for x in tf.nest.flatten(noted.outputs) if tf.is_tensor(x)]

    with _one_at_a_time, _state_kept(model), _watched(noted):
        noted.wrapped = tf.compat.v1.wrap_function(call, specs)
    return noted


@contextlib.contextmanager
def _state_kept(model: Any) -> Iterator[None]:
    """Put back what calling a model leaves in Python: its losses and the random state."""
    layers = list(model._flatten_layers())
    losses = [(layer, list(layer._losses), set(layer._loss_ids)) for layer in layers]
    states, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        for layer, kept, ids in losses:
            layer._losses[:] = kept
            layer._loss_ids.clear()
            layer._loss_ids.update(ids)
        random.setstate(states)
        np.random.set_state(numpy_state)


@contextlib.contextmanager
def _watched(noted: Trace) -> Iterator[None]:
    """Watch, in this thread, the ways into Keras and TensorFlow that the checks have to know of."""
    import keras
    import tensorflow as tf
    from tensorflow.python.framework import ops

    watcher = _Watcher(noted)
    base = next(c for c in keras.optimizers.Optimizer.__mro__ if "apply" in vars(c))
    places: list[tuple[Any, str, Callable]] = [
        (type(tf.function(len)), "__call__", watcher.function),
        (keras.Layer, "__call__", watcher.call),
        (keras.Operation, "__call__", watcher.call),
        (keras.Layer, "add_loss", watcher.add_loss),
        (tf.GradientTape, "gradient", watcher.gradient),
        (keras.optimizers.LossScaleOptimizer, "apply", watcher.apply),
        (keras.optimizers.LossScaleOptimizer, "scale_loss", watcher.scale_loss),
        (base, "apply", watcher.apply),
    ]
    # TensorFlow keeps no note of the number that a constant was rounded from; without this one only what was rounded
    # is seen.
    if hasattr(ops, "_create_graph_constant"):
        places.append((ops, "_create_graph_constant", watcher.constant))
    originals = [(home, name, getattr(home, name)) for home, name, _ in places]
    for home, name, watch in places:
        setattr(home, name, watch(getattr(home, name)))
    try:
        yield
    finally:
        for home, name, original in reversed(originals):
            setattr(home, name, original)


class _Watcher:
    """Makes functions that take note and then do what the original does."""

    def __init__(self, noted: Trace) -> None:
        self.noted, self.stack, self.thread = noted, [], threading.get_ident()
        self.scales: dict[int, Any] = {}  # of optimizers that are not built

    def mine(self) -> bool:
        return threading.get_ident() == self.thread

    def call(self, original: Callable) -> Callable:
        def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.mine() or (self.stack and self.stack[-1].layer is layer):
                return original(layer, *args, **kwargs)
            graph = _graph()
            entry = Call(layer, _label(layer, self.stack), graph, _size(graph), len(self.stack), _tensors(args, kwargs))
            self.noted.calls.append(entry)
            self.stack.append(entry)
            try:
                outputs = original(layer, *args, **kwargs)
                entry.outputs = _tensors(outputs)
                return outputs
            finally:
                self.stack.pop()
                entry.end = _size(graph)

        return __call__

    def add_loss(self, original: Callable) -> Callable:
        def add_loss(layer: Any, loss: Any) -> Any:
            if self.mine():
                self.noted.losses += [(layer, x) for x in _tensors(loss)]
            return original(layer, loss)

        return add_loss

    def gradient(self, original: Callable) -> Callable:
        def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
            import tensorflow as tf

            if not self.mine():
                return original(tape, target, sources, *args, **kwargs)
            graph = _graph()
            start = _size(graph)
            result = original(tape, target, sources, *args, **kwargs)
            flat = (tf.nest.flatten(sources), tf.nest.flatten(result))
            self.noted.tapes.append(Differentiated(target, *flat, graph, start, _size(graph)))
            return result

        return gradient

    def apply(self, original: Callable) -> Callable:
        def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> None:
            if not self.mine():
                return original(optimizer, grads, trainable_variables)
            known = trainable_variables if trainable_variables is not None else optimizer._trainable_variables
            self.noted.applied.append(Applied(optimizer, list(grads), list(known)))
            return None

        return apply

    def scale_loss(self, original: Callable) -> Callable:
        """An optimizer that is not built scales by a Python number: have it use a variable, which can be varied."""

        def scale_loss(optimizer: Any, loss: Any) -> Any:
            import keras
            import tensorflow as tf

            if not self.mine():
                return original(optimizer, loss)
            if optimizer.built:
                self.noted.scales.append(optimizer.dynamic_scale.value.handle)
                return original(optimizer, loss)
            if id(optimizer) not in self.scales:
                name = f"loss_scale_{len(self.scales)}"  # a wrapped function takes each name once
                with tf.init_scope():
                    scale = tf.Variable(float(optimizer.initial_scale), dtype="float32", trainable=False, name=name)
                self.scales[id(optimizer)] = scale
                self.noted.kept.append(scale)
                self.noted.scales.append(scale.handle)
            return keras.ops.multiply(loss, self.scales[id(optimizer)])

        return scale_loss

    def function(self, original: Callable) -> Callable:
        """Have a `tf.function` written into the graph: one that was traced before would hide what it was made from."""

        def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:
            import tensorflow as tf

            if not self.mine() or tf.executing_eagerly():
                return original(function, *args, **kwargs)
            plain, applied = function.python_function, len(self.noted.applied)
            # As plain Python first: autograph hides where an operation was written.
            for convert in (lambda f: f, tf.autograph.to_graph):
                try:
                    return convert(plain)(*args, **kwargs)
                except Exception:  # a branch on a tensor, or variables, which only a tf.function may make
                    del self.noted.applied[applied:]
            return original(function, *args, **kwargs)

        return __call__

    def constant(self, original: Callable) -> Callable:
        def create(value: Any, *args: Any, **kwargs: Any) -> Any:
            with np.errstate(all="ignore"):
                made = original(value, *args, **kwargs)
            if self.mine():
                self.noted.constants[id(made.graph), made.op.name] = value
            return made

        return create


def _label(layer: Any, stack: list[Call]) -> str:
    """The layer's name after those of the layers that hold it, without the outermost model's."""
    name = getattr(layer, "name", type(layer).__name__)
    return "/".join([*(entry.layer.name for entry in stack[1:]), name])


def _graph() -> Any:
    import tensorflow as tf

    return tf.compat.v1.get_default_graph()


def _size(graph: Any) -> int:
    return len(graph.get_operations())


def _tensors(*structures: Any) -> list[Any]:
    import keras
    import tensorflow as tf

    return [x for x in keras.tree.flatten(structures) if tf.is_tensor(x)]
