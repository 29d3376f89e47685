"""Runs in a process of its own: imports TensorFlow, says what it sees, and times matrix products on the CPU.

Call as `python -m ampcourse.doctor.probe OUT SECONDS`; OUT receives JSON, once after the facts and again after the
measurement, so that what was learned stays known if the measurement kills the process.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

DTYPES = ("float32", "bfloat16", "float16")
LEAST_ROUNDS, MOST_ROUNDS = 5, 60


def facts() -> dict[str, Any]:
    """Versions, Keras's settings, the build, and the GPUs with their compute capability."""
    import keras
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    build = tf.sysconfig.get_build_info()
    return {
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "backend": keras.config.backend(),
        "floatx": keras.config.floatx(),
        "gpu_build": bool(tf.test.is_built_with_gpu_support()),
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "gpus": [{"name": gpu.get("device_name"), "capability": gpu.get("compute_capability")} for gpu in details],
    }


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


def main(out: Path, seconds: float) -> None:
    """Ask, and write the answer as JSON."""
    answer: dict[str, Any] = {}
    try:
        answer |= facts()
        _save(out, answer)
        if seconds:
            answer["measurement"] = measure(seconds)
    except BaseException as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    _save(out, answer)


def _save(out: Path, answer: dict[str, Any]) -> None:
    part = out.with_suffix(".part")
    part.write_text(json.dumps(answer), "utf-8")
    part.replace(out)  # the reader sees all of it or nothing


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
