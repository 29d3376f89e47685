"""What `GradientMonitor` adds to a training step of ResNet-20 at batch 128: `python benchmarks/bench_monitor.py`.

Both models are trained in one process, a few steps of one and then of the other, by turns: what counts is the median
of the ratios within a turn. On a CPU the processor's time is taken, so that other programs on the machine do not
decide; on a GPU the elapsed time. Exits with 1 above the limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from ampcourse.amp import GradientMonitor
from ampcourse.models.resnet import small_resnet

LIMIT = 0.05
CLOCK = time.perf_counter if tf.config.list_physical_devices("GPU") else time.process_time


def steps(policy: str, jit: bool, batch: int, watched: bool) -> Callable[[], float]:
    """Something that runs a few steps of `fit` and returns the seconds of one; traced already."""
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy(policy)
    model = small_resnet(20, (32, 32, 3))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, 0.9), loss, jit_compile=jit)
    rng = np.random.default_rng(0)
    images = tf.constant(rng.normal(size=(batch, 32, 32, 3)).astype("float32"))
    data = tf.data.Dataset.from_tensors((images, tf.constant(rng.integers(0, 10, batch)))).cache().repeat()
    callbacks = [GradientMonitor()] if watched else []
    clock = Clock()

    def run(count: int) -> float:
        model.fit(data, steps_per_epoch=count, epochs=1, verbose=0, callbacks=[*callbacks, clock])
        return clock.median()

    run(2)
    return run


class Clock(keras.callbacks.Callback):
    """Seconds from the end of one step to the end of the next, so that what a callback does in between counts."""

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        """Forget the steps before."""
        self.times = [CLOCK()]

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """Stop the time."""
        self.times.append(CLOCK())

    def median(self) -> float:
        """Mean seconds of a step, but for the first, which starts the data."""
        return (self.times[-1] - self.times[1]) / (len(self.times) - 2)


def main() -> int:
    """Runs the benchmark; the exit code says whether the overhead kept the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128, help="images in a batch (default 128)")
    parser.add_argument("--turns", type=int, default=3, help="turns of which the median counts (default 3)")
    parser.add_argument("--steps", type=int, default=5, help="steps of each in a turn (default 5)")
    parser.add_argument("--policies", default="float32", help="comma-separated policies (default float32)")
    options = parser.parse_args()
    if min(options.batch, options.turns) < 1 or options.steps < 3:
        parser.error("--batch and --turns must be at least 1, --steps at least 3")
    device = (tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU"))[0].device_type
    print(f"ResNet-20 at batch {options.batch} on {device}: median of {options.turns} turns; limit {LIMIT:.0%}")
    print(f"{'policy':15} {'jit':5} {'ms plain':>9} {'ms watched':>10} {'overhead':>9}")
    slow = False
    for policy in options.policies.split(","):
        for jit in (False, True):
            plain, watched = (steps(policy, jit, options.batch, w) for w in (False, True))
            turns = []
            for turn in range(options.turns):  # which of the two goes first changes with the turn
                both = (plain, watched) if turn % 2 else (watched, plain)
                seconds = {run: run(options.steps) for run in both}
                turns.append((seconds[plain], seconds[watched]))
            ratio = statistics.median(w / p for p, w in turns) - 1
            medians = [statistics.median(column) * 1000 for column in zip(*turns, strict=True)]
            verdict = f"  above {LIMIT:.0%}: too slow" if ratio > LIMIT else f"  under {LIMIT:.0%}"
            print(f"{policy:15} {jit!s:5} {medians[0]:9.1f} {medians[1]:10.1f} {ratio:9.1%}{verdict}", flush=True)
            slow |= ratio > LIMIT
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
