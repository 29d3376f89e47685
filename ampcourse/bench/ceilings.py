"""What the machine reaches at best, measured before any model: matrix products in each dtype, and a copy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ampcourse.bench.engine import Engine, reason_of
from ampcourse.bench.shape import Ceilings, Rate
from ampcourse.bench.turns import Clock, Timed, take_turns

PRODUCTS = {"float32": "float32", "tf32": "float32", "float16": "float16", "bfloat16": "bfloat16"}
"""Name of the ceiling to the dtype of the matrices; only "float32" has TF32 off."""
COPY = "copy"
SIZES = {"cpu": (1024, 2**24), "gpu": (8192, 2**28)}
"""Side of the matrices, and float32 numbers that are copied (64 MiB and 1 GiB), well beyond any cache."""


def measure(
    engine: Engine,
    kind: str,
    *,
    tf32: bool,
    turns: int = 9,
    turn_seconds: float = 0.1,
    sizes: tuple[int, int] | None = None,
    clock: Clock = time.perf_counter,
) -> Ceilings:
    """Time all of them by turns.

    Args:
        engine: TensorFlow or JAX.
        kind: "cpu" or "gpu", which decides the sizes.
        tf32: whether the device has TF32.
        turns: of each.
        turn_seconds: about how long one is.
        sizes: other sizes, for tests.
        clock: another one is injected in tests.
    """
    size, numbers = sizes or SIZES[kind]
    made: dict[str, Callable[[int], None]] = {}
    reasons = {} if tf32 else {"tf32": "this device has no TF32"}
    for name, dtype in PRODUCTS.items():
        if name not in reasons:
            _make(made, reasons, name, lambda dtype=dtype, on=name != "float32": _product(engine, size, dtype, on))
    _make(made, reasons, COPY, lambda: engine.copy(numbers))
    timed: Timed[str] = take_turns(made, turns, turn_seconds, clock=clock)
    reasons |= {name: reason_of(error, engine) for name, error in timed.failed.items()}
    rates = {n: _rate(timed, n, reasons, 2.0 * size**3 if n in PRODUCTS else 8.0 * numbers) for n in (*PRODUCTS, COPY)}
    return Ceilings(size, {name: rates[name] for name in PRODUCTS}, 8 * numbers, rates[COPY])


def _product(engine: Engine, size: int, dtype: str, tf32: bool) -> Callable[[int], None]:
    """The product with its setting of TF32, which is set again whenever it runs."""
    with engine.precision(tf32):
        product = engine.product(size, dtype)

    def run(steps: int) -> None:
        with engine.precision(tf32):
            product(steps)

    return run


def _make(made: dict, reasons: dict[str, str], name: str, build: Callable) -> None:
    try:
        made[name] = build()
    except Exception as error:  # what a device cannot do is a reason in the report
        reasons[name] = reason_of(error)


def _rate(timed: Timed[str], name: str, reasons: dict[str, str], work: float) -> Rate:
    """Work is what one step does: operations, or bytes read and written."""
    seconds = sorted(timed.seconds.get(name, []))
    if not seconds or name in reasons:
        return Rate(None, None, reasons.get(name, "not measured"))
    middle = seconds[len(seconds) // 2]
    return Rate(work / middle, work / seconds[0]) if math.isfinite(middle) and seconds[0] > 0 else Rate(None, None)
