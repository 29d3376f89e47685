"""Puts the recorder before `optimizer.apply` while `fit` runs, and leaves no trace however `fit` ends.

The optimizer carries the hook only while Keras's train function is called, so a model saved between two steps does not
have it. The model's own train function is put back at the end, or when a step raises; when something between two
steps raises (another callback), at the start of the next `fit`, which always asks for a train function first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

NO_WEIGHTS = (
    "The model has no weights yet and GradientMonitor cannot build it from the shapes of the data: call the model once "
    "on a batch before fit."
)


class FitHook:
    """One model whose steps are recorded."""

    def __init__(self, model: Any, step: Callable[..., Any], after: Callable[[], None]) -> None:
        """`step(apply, gradients, variables)` records and applies; `after` is called after each call of the function.

        Keras hands a callback's `on_train_batch_end` the losses as numbers, which waits for the device at every step;
        `after` gets nothing and waits for nothing.
        """
        self.model, self.step, self.after = model, step, after
        self._fresh: Any = None
        self._plain: Any = None
        self.active = False
        self._first: Callable[[Any], None] | None = None

    def install(self, first: Callable[[Any], None] | None = None) -> None:
        """The train function that comes next is traced with the recorder; a second `fit` uses the same trace.

        `first` is called with the iterator before the first call: a model without weights is built there.
        """
        self._first = first
        if getattr(getattr(self.model, "train_function", None), "__self__", None) is not self and isinstance(
            getattr(getattr(self.model, "train_function", None), "__self__", None), FitHook
        ):
            raise ValueError("Another GradientMonitor already watches this model: give fit only one of them.")
        plain = self.model.train_function
        if self._fresh is None or plain is not self._plain:
            self.model.make_train_function(force=True)
            self._fresh = self.model.train_function
        self._plain = plain
        self.model.train_function = self._run
        object.__setattr__(self.model, "make_train_function", self._asked)
        self.active = True

    def remove(self) -> None:
        """Everything as it was."""
        self.active = False
        if getattr(self.model.train_function, "__self__", None) is self:
            self.model.train_function = self._plain
        self.model.__dict__.pop("make_train_function", None)

    def _asked(self, *args: Any, **kwargs: Any) -> Any:
        """Keras asks for a train function, as each `fit` does first."""
        self.remove()
        return self.model.make_train_function(*args, **kwargs)

    def _run(self, iterator: Any) -> Any:
        import tensorflow as tf

        try:
            if first := self._first:
                self._first = None
                first(iterator)
            with self._patched():
                logs = self._fresh(iterator)
            self.after()
        except (StopIteration, tf.errors.OutOfRangeError):  # the end of an epoch
            raise
        except BaseException:  # fit ends here, and asks no callback any more
            self.remove()
            raise
        return logs

    @contextlib.contextmanager
    def _patched(self) -> Iterator[None]:
        optimizer = self.model.optimizer
        own = optimizer.apply

        def apply(grads: Any, trainable_variables: Any = None) -> Any:
            return self.step(own, grads, trainable_variables)

        object.__setattr__(optimizer, "apply", apply)
        try:
            yield
        finally:
            optimizer.__dict__.pop("apply", None)


def build(model: Any, iterator: Any) -> None:
    """Give a model its weights from the shapes of the data, before Keras would while it traces the first step.

    Raises:
        ValueError: if the model does not say how it is called.
    """
    import keras

    try:
        spec = iterator.element_spec
        batch = keras.tree.map_structure(lambda s: keras.KerasTensor(s.shape, s.dtype.name), spec)
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        model(inputs)
    except Exception as error:
        # A train_step of its own may never call the model, only parts that have their weights already.
        if not model.trainable_variables or not all(one.built for one in model._flatten_layers(include_self=False)):
            raise ValueError(NO_WEIGHTS) from error
    if not model.trainable_variables:
        raise ValueError("The model has no trainable variables, so there is nothing to watch.")
