"""Observers of lesson 06: how often a function is traced, and what an answer gives with and without XLA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def count_traces(answer: Callable, calls: list[tuple]) -> dict[str, Any]:
    """Hand a function to `answer`, call what comes back with each row of arguments, and count how often it is traced.

    The function is given a tensor of shape (batch, 4) and one number. Reports the number of times that Python ran it,
    and all results.
    """
    import numpy as np
    import tensorflow as tf

    runs = []

    def fn(x: Any, rate: Any) -> Any:
        runs.append(1)
        return tf.reduce_sum(tf.tanh(x * rate), axis=1)

    with _traced():
        compiled = answer(fn)
        if not callable(compiled):
            raise TypeError(f"a function has to be returned, and {str(compiled)[:40]} was")
        results = [np.asarray(compiled(tf.constant(x), rate), "float32") for x, rate in calls]
    return {"times traced": len(runs), "results": np.concatenate(results)}


def both_ways(answer: Callable, x: Any) -> dict[str, Any]:
    """Call the answer with a float16 tensor, op by op and compiled by XLA. Reports both results and their dtypes."""
    import numpy as np
    import tensorflow as tf

    given = tf.constant(x)
    with _traced():
        eager, compiled = answer(given), _compiled(answer)(given)
    facts = {}
    for name, result in (("op by op", eager), ("compiled", compiled)):
        if result is None:
            return {"op by op": None}
        result = tf.convert_to_tensor(result)
        facts[name] = np.asarray(tf.cast(result, tf.float32))
        facts[f"{name}, dtype"] = result.dtype.name
    return facts


_latest: list[Any] = []  # an answer and its compiled form: compiling takes long, and inputs have one shape


def _compiled(answer: Callable) -> Callable:
    import tensorflow as tf

    if not _latest or _latest[0] is not answer:
        _latest[:] = [answer, tf.function(answer, jit_compile=True, autograph=False)]
    return _latest[1]


@contextmanager
def _traced() -> Iterator[None]:
    """Functions are compiled as usual, even where the notebook has switched that off."""
    import tensorflow as tf

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(False)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)
