"""How fast the CPU multiplies matrices in each dtype: measured, interleaved, as ratios."""

from __future__ import annotations

import time
from statistics import median, quantiles
from typing import Any

DTYPES = ("float32", "bfloat16", "float16")
LEAST_ROUNDS, MOST_ROUNDS = 5, 60


def measure(seconds: float) -> dict[str, Any]:
    """Time square matrix products in each dtype, one of each in every round, for about `seconds`.

    Interleaving and medians keep a busy moment of the machine from falling on one dtype alone. The product is read
    back each time, so that it has really been computed.

    Returns:
        the matrices' size, the rounds, the median milliseconds of each dtype, and how many times as fast as float32
        each other dtype ran (median and quartiles of the ratios within a round; above 1 is faster).
    """
    import tensorflow as tf

    with tf.device("/CPU:0"):
        size = next(n for n in (1024, 512, 256, 128) if n == 128 or max(_warm(tf, n)) < seconds / 20)
        pairs = {dtype: _matrices(tf, size, dtype) for dtype in DTYPES}
        times: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
        end, rounds = time.perf_counter() + seconds, 0
        while rounds < LEAST_ROUNDS or (time.perf_counter() < end and rounds < MOST_ROUNDS):
            turn = rounds % len(DTYPES)
            for dtype in DTYPES[turn:] + DTYPES[:turn]:
                times[dtype].append(_product(tf, *pairs[dtype]))
            rounds += 1
    return summary(size, times)


def summary(size: int, times: dict[str, list[float]]) -> dict[str, Any]:
    """Medians and quartiles of what `measure` timed (seconds, in rounds)."""
    speed = {}
    for dtype in DTYPES[1:]:
        ratios = [float32 / other for float32, other in zip(times["float32"], times[dtype], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        speed[dtype] = {"median": median(ratios), "low": low, "high": high}
    milliseconds = {dtype: 1000 * median(values) for dtype, values in times.items()}
    return {"size": size, "rounds": len(times["float32"]), "milliseconds": milliseconds, "speed": speed}


def _matrices(tf: Any, size: int, dtype: str) -> tuple[Any, Any]:
    draw = tf.random.Generator.from_seed(0)
    return tf.cast(draw.normal((size, size)), dtype), tf.cast(draw.normal((size, size)), dtype)


def _product(tf: Any, a: Any, b: Any) -> float:
    begin = time.perf_counter()
    tf.linalg.matmul(a, b)[0, 0].numpy()
    return time.perf_counter() - begin


def _warm(tf: Any, size: int) -> list[float]:
    """The second of two products of each dtype: the first also loads and compiles."""
    pairs = [_matrices(tf, size, dtype) for dtype in DTYPES]
    return [(_product(tf, *pair), _product(tf, *pair))[1] for pair in pairs]
