"""What `ampcourse train` reaches with its defaults on all pictures that travel with the course.

Run `python benchmarks/bench_accuracy.py`, or with arguments for `Config`: `--policy mixed_bfloat16 --seed 1`. It takes
about five minutes of two processor cores, and fails below 89 %: with 2,000 test pictures one standard deviation is 0.7
points.
"""

from __future__ import annotations

import argparse
import sys
import time

from ampcourse.training import Config, train

LIMIT = 0.89


def main() -> int:
    """Train once, print the result, and say whether it is good enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="float32")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    start = time.process_time()
    result = train(Config(model="resnet20", policy=chosen.policy, seed=chosen.seed))
    print(result)
    print(f"{time.process_time() - start:.0f} s of processor time; verdict: {result.verdict}")
    print(f"{result.accuracy:.1%} of the test pictures, at least {LIMIT:.0%} expected")
    return 0 if result.accuracy >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
