"""Exercise 5: a check of gradients that works in eager mode, inside tf.function and under XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.custom_loops import count_inside

Answer = Callable[[list], Any]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Four gradients with some infinities and NaN; one is float16 and has more of them than float16 counts exactly."""

    def gradients(large: bool = False) -> list[np.ndarray]:
        found = []
        for size in rng.integers(5, 12, 4):
            gradient = rng.normal(size=int(size)).astype("float32")
            bad = rng.permutation(int(size))[: rng.integers(0, 5)]
            gradient[bad] = rng.choice([np.inf, -np.inf, np.nan], len(bad))
            found.append(gradient)
        found[1][:2] = np.inf, np.nan  # some of either kind, whatever was drawn
        if large:
            found[2] = np.full(5_000, np.inf, "float16")
            found[2][: 2 * int(rng.integers(300, 700)) + 1] = 1.0
        return found

    return {
        "called eagerly": (gradients(), -1, "eager"),
        "inside tf.function": (gradients(), -1, "graph"),
        "compiled by XLA": (gradients(large=True), -1, "xla"),
        "a variable without a gradient": (gradients(), int(rng.integers(0, 5)), "graph"),
    }


def _counts(
    bad: Callable[[Any], Any] | None = None,
    total: Callable[[Any, Any], Any] | None = None,
    missing: Callable[[list], list] = lambda counts: [0 if c is None else c for c in counts],
    stack: Callable[[list], Any] | None = None,
) -> Answer:
    """The right counts, with each of their parts open to a mistake."""

    def nonfinite_counts(gradients: list) -> Any:
        import tensorflow as tf

        not_finite = bad or (lambda g: tf.logical_not(tf.math.is_finite(g)))
        add = total or (lambda mask, g: tf.math.count_nonzero(mask, dtype=tf.int32))
        counts = [None if g is None else add(not_finite(g), g) for g in gradients]
        return (stack or tf.stack)(missing(counts))

    return nonfinite_counts


def _by_cast(gradients: list) -> Any:
    import tensorflow as tf

    zero = tf.constant(0, tf.int64)
    return tf.stack(
        [
            zero if g is None else tf.reduce_sum(tf.cast(tf.logical_not(tf.math.is_finite(g)), tf.int64))
            for g in gradients
        ]
    )


def _by_keras(gradients: list) -> list:
    import keras

    ops = keras.ops
    counts = []
    for g in gradients:
        if g is None:
            counts.append(ops.convert_to_tensor(0, "int32"))
        else:
            counts.append(ops.size(g) - ops.count_nonzero(ops.isfinite(g)))
    return counts


def _nan(g: Any) -> Any:
    import tensorflow as tf

    return tf.math.is_nan(g)


def _inf(g: Any) -> Any:
    import tensorflow as tf

    return tf.math.is_inf(g)


def _count_in_the_gradients_dtype(mask: Any, g: Any) -> Any:
    import tensorflow as tf

    half = tf.cast(mask, tf.float16)  # a sum that float16 rounds, whichever way it is added up
    return tf.cast(tf.reduce_sum(half), tf.int32) if g.dtype == tf.float16 else tf.math.count_nonzero(mask, None)


def _any(mask: Any, g: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_any(mask)


def _sum(counts: list) -> Any:
    import tensorflow as tf

    return tf.add_n([tf.cast(c, tf.int32) for c in counts])


def _with_numpy_method(gradients: list) -> list:
    return [0 if g is None else int((~np.isfinite(g.numpy())).sum()) for g in gradients]


def _with_numpy(gradients: list) -> list:
    return [0 if g is None else int((~np.isfinite(g)).sum()) for g in gradients]


nonfinite_counts = Exercise(
    id="custom_loops.nonfinite_counts",
    inputs=_inputs,
    observer=count_inside,
    right=_counts(),
    points={
        "called eagerly": 1,
        "inside tf.function": 1,
        "compiled by XLA": 1,
        "a variable without a gradient": 1,
    },
    also_right=(_by_cast, _by_keras),
    mistakes=(
        Mistake(
            _counts(bad=_nan),
            "You count NaN only. What overflows is infinite; it becomes NaN later, or never.",
        ),
        Mistake(
            _counts(bad=_inf),
            "You count infinities only. Not finite means infinite or NaN.",
        ),
        Mistake(
            _with_numpy_method,
            "`.numpy()` asks a tensor for its numbers. While tf.function traces your code there are none yet: use "
            "TensorFlow's own operations.",
        ),
        Mistake(
            _with_numpy,
            "NumPy needs numbers, and while tf.function traces your code there are none yet. Use tf.math.is_finite.",
        ),
        Mistake(
            _counts(total=_any),
            "You say for each gradient *whether* it is bad. Count how many of its values are.",
        ),
        Mistake(
            _counts(stack=_sum),
            "You return one number for all. Which variable broke first is the most useful thing to know: one each.",
        ),
        Mistake(
            _counts(missing=lambda counts: [c for c in counts if c is not None]),
            "You leave out the variables without a gradient. Then the counts no longer stand beside their variables: "
            "put 0.",
        ),
        Mistake(
            _counts(missing=list),
            "A variable that takes no part in the loss has None for a gradient: put 0 there.",
        ),
        Mistake(
            _counts(bad=lambda g: ~_nan(g) & ~_inf(g)),
            "You count the values that are finite. Asked are the others.",
        ),
        Mistake(
            _counts(total=_count_in_the_gradients_dtype),
            "You count in the gradient's dtype. float16 has no odd numbers above 2,048: count in a whole-number dtype.",
        ),
        Mistake(
            _counts(missing=lambda counts: [-1 if c is None else c for c in counts]),
            "You put -1 where there is no gradient. No value of it is bad: put 0, so that sums stay right.",
        ),
    ),
    hints=(
        "tf.math.is_finite says it value by value. Nothing may leave TensorFlow: no .numpy(), no int(), no np.",
        "tf.math.count_nonzero counts the True ones. A None is seen while tracing, so a plain Python `if` is right "
        "for it.",
        "tf.stack([tf.math.count_nonzero(~tf.math.is_finite(g)) if g is not None else tf.constant(0, tf.int64) "
        "for g in gradients])",
    ),
    trains=True,
    asks_for=("ampcourse.amp.GradientMonitor", "ampcourse.amp.health.device.Recorder"),
    insight="Inside tf.function your Python runs once, while the graph is drawn; what is to happen at every step must "
    "be an operation in that graph. Return the counts from the step, and look at them outside.",
)
