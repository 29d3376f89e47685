"""What the user handed to `audit`, checked and made ready; one clear sentence for what cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ampcourse.amp.dtypes_inputs import call_arguments, checked_layer

_ELEMENTS = 2**20  # of one input, of which so many rows are run


@dataclass
class Accepted:
    """The arguments of an audit.

    Attributes:
        structure: the `tf.TensorSpec`s of the model's inputs, in the structure in which it takes them.
        x: the inputs of the sample, or None; `y` its targets, `weights` its sample weights.
        not_checked: what could not be looked into.
    """

    model: Any
    optimizer: Any
    loss: Any
    step: Callable | None
    structure: Any
    x: Any = None
    y: Any = None
    weights: Any = None
    not_checked: list[str] = field(default_factory=list)

    @property
    def specs(self) -> list[Any]:
        """The flat specs; of the shape of the sample where there is one."""
        import keras
        import tensorflow as tf

        flat = keras.tree.flatten(self.structure)
        if self.x is None:
            return flat
        return [
            tf.TensorSpec(np.shape(x), s.dtype) if isinstance(s, tf.TensorSpec) else s
            for x, s in zip(keras.tree.flatten(self.x), flat, strict=True)
        ]

    @property
    def arrays(self) -> list[Any] | None:
        """The sample's flat inputs, or None."""
        import keras

        return None if self.x is None else keras.tree.flatten(self.x)

    @property
    def batch(self) -> Any:
        """The sample as `fit` reads it: (x, y) or (x, y, weights), or x alone."""
        parts = (self.x, self.y, self.weights)
        kept = parts[:3] if self.weights is not None else parts[:2] if self.y is not None else parts[:1]
        return kept if len(kept) > 1 else kept[0]

    @property
    def step_arrays(self) -> list[Any]:
        """The flat arrays of the batch."""
        import keras

        return keras.tree.flatten(self.batch)

    def call(self, *tensors: Any) -> Any:
        """Call the model as `fit` does."""
        import keras

        inputs = keras.tree.pack_sequence_as(self.structure, list(tensors))
        training = {"training": True} if getattr(self.model, "_call_has_training_arg", False) else {}
        return self.model(inputs, **training)

    def losses(self, count: int) -> list[Any]:
        """The loss of each output, as far as that is known."""
        import keras

        loss = self.loss if self.loss is not None else getattr(self.model, "loss", None)
        if isinstance(loss, dict):
            names = getattr(self.model, "output_names", None) or list(loss)
            return [loss.get(name) for name in names]
        flat = keras.tree.flatten(loss) if isinstance(loss, list | tuple) else [loss]
        return flat if len(flat) == count else flat * count if len(flat) == 1 else [None] * count

    def targets(self, count: int) -> list[Any]:
        """The targets of each output, as far as they were given."""
        import keras

        flat = keras.tree.flatten(self.y) if self.y is not None else []
        return flat if len(flat) == count else [None] * count


def accept(model: Any, optimizer: Any, sample: Any, loss: Any, step: Any) -> Accepted:
    """Check the arguments of `audit`."""
    import keras

    checked_layer(model, "audit")
    x, y, weights = (_readable(part) for part in _parts(sample, model))
    if step is not None and not callable(step):
        raise TypeError(f"audit: step is a function, called as step(x, y), not {type(step).__name__}.")
    if step is not None and sample is None:
        raise ValueError("audit: a step can be traced only with a batch: give it as sample=(x, y).")
    if any(0 in np.shape(part) for part in keras.tree.flatten(x) if part is not None):
        raise ValueError("audit: the sample is empty; give a batch with at least one example.")
    structure = call_arguments(model, x, "audit")
    return Accepted(
        model,
        _optimizer(optimizer, model),
        _loss(loss),
        step,
        structure,
        None if x is None else _few_rows(x),
        None if y is None else _few_rows(y, x),
        None if weights is None else _few_rows(weights, x),
    )


def _parts(sample: Any, model: Any) -> tuple[Any, Any, Any]:
    """A sample as `fit` reads it: a tuple is (x, y) or (x, y, weights), anything else is x."""
    import tensorflow as tf

    if isinstance(sample, tf.data.Dataset):
        sample = next(iter(sample.take(1)), None)
        if sample is None:
            raise ValueError("audit: the dataset given as sample is empty.")
    if isinstance(sample, tuple) and not _are_inputs(sample, model):
        if not 1 <= len(sample) <= 3:
            raise ValueError(
                f"audit: a tuple given as sample is (x, y) or (x, y, weights), not {len(sample)} things; give several "
                "inputs as a list or dict."
            )
        return (*sample, None, None)[:3]
    return sample, None, None


def _readable(part: Any) -> Any:
    """Texts as TensorFlow takes them."""
    import keras
    import tensorflow as tf

    def read(x: Any) -> Any:
        if tf.is_tensor(x) or isinstance(x, tf.SparseTensor | tf.RaggedTensor):
            return x
        array = np.asarray(x)
        texts = array.dtype.kind in "OUS" and array.size and isinstance(array.flat[0], str | bytes)
        return tf.convert_to_tensor(array.tolist()) if texts else x

    return None if part is None else keras.tree.map_structure(read, part)


def _are_inputs(sample: tuple, model: Any) -> bool:
    """Whether a tuple holds the inputs of a model that takes several."""
    known = getattr(model, "inputs", None) or ()
    return len(known) == len(sample) > 1 and isinstance(getattr(model, "_inputs_struct", None), tuple)


def _optimizer(optimizer: Any, model: Any) -> Any:
    import keras

    if optimizer is None:
        return getattr(model, "optimizer", None)
    if isinstance(optimizer, str | dict):
        try:
            return keras.optimizers.get(optimizer)
        except ValueError:
            raise ValueError(f"audit: Keras knows no optimizer {optimizer!r}.") from None
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        module = type(optimizer).__module__.partition(".")[0]
        raise TypeError(f"audit needs an optimizer of Keras 3, not a {type(optimizer).__name__} of {module}.")
    return optimizer


def _loss(loss: Any) -> Any:
    import keras

    for one in keras.tree.flatten(loss):
        if isinstance(one, str):
            try:
                keras.losses.get(one)
            except ValueError:
                raise ValueError(f"audit: Keras knows no loss {one!r}.") from None
        elif one is not None and not callable(one):
            raise TypeError(f"audit: loss is a loss as for compile(), not {type(one).__name__}.")
    return loss


def _few_rows(part: Any, along: Any = None) -> Any:
    """The first rows of a batch, so many as the largest input allows."""
    import keras

    largest = max(
        (np.size(x) // max(len(x), 1) for x in keras.tree.flatten(part if along is None else along)), default=1
    )
    rows = max(4, _ELEMENTS // max(int(largest), 1))
    return keras.tree.map_structure(lambda x: x[:rows] if np.ndim(x) else x, part)
