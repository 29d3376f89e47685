"""When a batch does not fit into memory: which one does, found by bisection."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np

from ampcourse.training import checkpoint
from ampcourse.training.config import Config
from ampcourse.training.feed import Feed
from ampcourse.training.session import Plan, values

STEPS = 2  # updates of a trial: the second one finds the memory as the first has left it


def proposal(config: Config, backend: Any, folder: Path | None) -> str:
    """One sentence: what did not fit, and the largest batch that does.

    Each trial builds the model anew and takes two updates on pictures without content. The failed run is gone from the
    memory by then, and its folder is not touched.
    """
    feed = Feed(config, backend.BACKEND)
    shape = " x ".join(map(str, feed.shape))
    what = f"A batch of {config.batch} does not fit into memory ({config.model}, {config.policy}, pictures of {shape})"
    devices = backend.prepare(config).count
    found = largest(config.batch, lambda batch: fits(config, batch, feed, backend), devices)
    kept = ""
    if folder is not None and (files := checkpoint.files(folder)):
        kept = f" The checkpoint {files[-1].name} in '{folder}' is kept."
    if not found:
        return (
            f"{what}, and neither does a batch of {devices}: take a smaller model, or smaller pictures (--size).{kept}"
        )
    together = -(-config.batch * config.accumulate // found)
    same = f" --accumulate {together} keeps about as many pictures in an update." if together > 1 else ""
    return f"{what}; the largest that fits is {found}: try --batch {found}.{same}{kept}"


def largest(failed: int, fits: Any, multiple: int = 1) -> int:
    """The largest batch below `failed` that fits, by bisection; 0 if none does.

    From 16 on, only multiples of 8 are tried, which is what tensor cores want.

    Args:
        failed: a batch that does not fit.
        fits: whether a batch does; supposed to hold for all smaller ones if it holds for one.
        multiple: the batch must divide into as many parts.
    """
    sizes = [n for n in range(1, failed) if n % multiple == 0 and (n < 16 or n % 8 == 0)]
    low, high = 0, len(sizes)  # the first `low` fit, those from `high` on do not
    while low < high:
        middle = (low + high) // 2
        if fits(sizes[middle]):
            low = middle + 1
        else:
            high = middle
    return sizes[low - 1] if low else 0


def fits(config: Config, batch: int, feed: Feed, backend: Any) -> bool:
    """Whether two updates with this batch go through."""
    gc.collect()
    try:
        _take_steps(config.replace(batch=batch, monitor=False), feed, backend)
    except Exception as error:
        if not backend.out_of_memory(error):
            raise
        return False
    return True


def _take_steps(config: Config, feed: Feed, backend: Any) -> None:
    from ampcourse.training.loops import CustomLoop, FitLoop
    from ampcourse.training.run import build_parts

    devices = backend.prepare(config)
    count = STEPS * config.accumulate
    x = np.zeros((config.batch, *feed.shape), np.float32)
    y = np.zeros(config.batch, np.int64)
    batches: Any = ((x, y) for _ in range(count))
    if backend.BACKEND == "tensorflow":
        batches = backend.repeated(x, y, count)
    with devices.scope:
        parts = build_parts(config, feed.shape, feed.classes, Plan(STEPS, STEPS), devices, backend)
        loop = (FitLoop if config.loop == "fit" else CustomLoop)(parts, backend)
    loop.epoch(batches, count, False, lambda: None)
    for variable in loop.variables()["model"][:1]:
        values(variable)  # waits for the device, which may still be at work
