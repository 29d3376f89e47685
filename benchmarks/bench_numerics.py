"""How long rounding 10 million values takes in every format, on one core: `python benchmarks/bench_numerics.py`.

Prints a table and exits with 1 if a format's median is above the limit. What counts is the processor time of the one
thread that works, so that other programs on the machine do not decide; the elapsed time is shown beside it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from ampcourse.numerics import FORMATS, Format, get_format

LIMIT = 1.0
SPLITS = ("e2m1", "e6m9", "e8m23")


def gradients(count: int) -> np.ndarray:
    """Values over many binades: some flushed, some subnormal, some overflowing in the narrow formats, and some NaN."""
    rng = np.random.default_rng(0)
    values = np.exp2(rng.normal(-8, 8, count)) * rng.choice([-1.0, 1.0], count)
    values[:: max(count // 1000, 1)] = np.nan
    return values


def timed(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Median processor and elapsed seconds of several runs after one that does not count."""
    work()
    processor, elapsed = [], []
    for _ in range(runs):
        start = time.process_time(), time.perf_counter()
        work()
        processor.append(time.process_time() - start[0])
        elapsed.append(time.perf_counter() - start[1])
    return statistics.median(processor), statistics.median(elapsed)


def main() -> int:
    """Runs the benchmark; the exit code says whether every format kept the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=10_000_000, help="how many values (default 10 million)")
    parser.add_argument("--runs", type=int, default=5, help="runs of which the median counts (default 5)")
    options = parser.parse_args()
    if options.values < 1 or options.runs < 1:
        parser.error("--values and --runs must be at least 1")
    values = gradients(options.values)
    formats: list[Format] = [*FORMATS.values(), *(get_format(split) for split in SPLITS)]
    print(f"Rounding {values.size:,} values; median of {options.runs} runs; limit {LIMIT:g} s of one core")
    print(f"{'format':15} {'processor s':>11} {'elapsed s':>10} {'values/s':>10}")
    slow = []
    for format in formats:
        processor, elapsed = timed(lambda format=format: format.round(values), options.runs)
        verdict = "" if processor <= LIMIT else "  too slow"
        print(f"{format.name:15} {processor:11.3f} {elapsed:10.3f} {values.size / max(processor, 1e-9):10.1e}{verdict}")
        slow += [format.name] if verdict else []
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
