"""Exercise 4: a product that may be rewritten, and a sum of squares that must not be."""

from __future__ import annotations

from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers.graph_amp import rewrite_and_sum


def _inputs(rng: np.random.Generator) -> Inputs:
    def pair(rows: int, columns: int, x: float, w: float) -> tuple[np.ndarray, np.ndarray]:
        """All of x positive and each column of w of one sign, so that nothing cancels in the product."""
        left = rng.uniform(x, 2 * x, (rows, 8))
        right = rng.uniform(w, 2 * w, (8, columns)) * rng.choice([-1.0, 1.0], columns)
        return left.astype(np.float32), right.astype(np.float32)

    return {
        "products of ordinary size": pair(4, 3, 0.3, 0.3),
        "large products": pair(5, 4, 10.0, 5.0),
        "small products": pair(5, 4, 3e-3, 3e-3),
        "many products of moderate size": pair(40, 25, 2.0, 2.0),
    }


def _right(x: Any, w: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(tf.square(x @ w))


def _power(x: Any, w: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(tf.matmul(x, w) ** 2)


def _l2_loss(x: Any, w: Any) -> Any:
    import tensorflow as tf

    return 2.0 * tf.nn.l2_loss(tf.einsum("ij,jk->ik", x, w))


def _through_float64(x: Any, w: Any) -> Any:
    import tensorflow as tf

    y = tf.cast(x @ w, tf.float64)
    return tf.cast(tf.reduce_sum(y * y), tf.float32)


def _product(x: Any, w: Any) -> Any:
    import tensorflow as tf

    y = x @ w
    return tf.reduce_sum(y * y)


def _einsum(x: Any, w: Any) -> Any:
    import tensorflow as tf

    y = x @ w
    return tf.einsum("ij,ij->", y, y)


def _never_float16(x: Any, w: Any) -> Any:
    import tensorflow as tf

    y = tf.cast(x, tf.float64) @ tf.cast(w, tf.float64)
    return tf.cast(tf.reduce_sum(y * y), tf.float32)


def _mean(x: Any, w: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_mean(tf.square(x @ w))


def _no_square(x: Any, w: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(x @ w)


def _norm(x: Any, w: Any) -> Any:
    import tensorflow as tf

    return tf.sqrt(tf.reduce_sum(tf.square(x @ w)))


def _by_rows(x: Any, w: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(tf.square(x @ w), axis=-1)[0]


def _returns_half(x: Any, w: Any) -> Any:
    import tensorflow as tf

    return tf.cast(tf.reduce_sum(tf.square(x @ w)), tf.float16)


energy = Exercise(
    id="graph_amp.energy",
    inputs=_inputs,
    observer=rewrite_and_sum,
    right=_right,
    points={
        "products of ordinary size": 1,
        "large products": 2,
        "small products": 1,
        "many products of moderate size": 1,
    },
    also_right=(_power, _l2_loss, _through_float64),
    mistakes=(
        Mistake(
            _product,
            "`y * y` is a Mul, which is on the infer list and stands directly behind the product: it is computed in "
            "float16, where squares above 65504 overflow and those below 2**-25 are flushed. Choose an operation on "
            "the deny list, or on no list.",
        ),
        Mistake(
            _einsum,
            "Your sum is computed by einsum, tensordot or a matrix product, and these are on the allow list: it runs, "
            "and overflows, in float16. Sum with tf.reduce_sum, which is on the deny list.",
        ),
        Mistake(
            _never_float16,
            "Right numbers, but x @ w is not rewritten any more: nothing is gained. Let the product have float32 "
            "inputs; keep only the squares out of float16.",
        ),
        Mistake(_mean, "You return the mean of the squares. The sum is asked for."),
        Mistake(
            lambda x, w: 0.5 * _right(x, w),
            "Half of the right sum: tf.nn.l2_loss halves the sum of the squares. Double it.",
        ),
        Mistake(
            lambda x, w: _no_square(x, w) ** 2,
            "You square the sum. The sum of the squares is asked for: first square, then add.",
        ),
        Mistake(_no_square, "You sum the products without squaring them."),
        Mistake(_norm, "You take the square root of the sum: that is the norm, not its square."),
        Mistake(_by_rows, "You return the sum of the first row. Sum over all rows and columns."),
        Mistake(
            _returns_half,
            "You return float16, and so your sum overflows at the last moment. Leave it in float32.",
        ),
    ),
    hints=(
        "Write it in the obvious way first, and look at it: rewritten_graph(energy, x, w) with float32 inputs.",
        "Which list is Mul on, which Sum? What stands directly behind a float16 operation and is on the infer list?",
        "tf.square is on no list, `** 2` is a Pow and on the deny list.",
    ),
    rtol=5e-3,
    trains=True,
    asks_for=("ampcourse.amp.rewritten_graph", "ampcourse.amp.graph_pass.run"),
    insight="Three ways to write a square, y * y, y ** 2 and tf.square(y), and three different fates. To the author "
    "they are the same; to the rewriter they are a Mul, a Pow and a Square.",
)
