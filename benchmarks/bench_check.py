"""How long `check` takes beyond the learner's own code, for every exercise that does not train.

Run `python benchmarks/bench_check.py`. Each answer is checked once to warm up (the right observations are computed
once and kept), then `REPEATS` times; the time spent inside the answer itself is taken off.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import time
from collections.abc import Callable
from typing import Any

from ampcourse.exercises.check import check, exercises, lessons
from ampcourse.exercises.model import Exercise

REPEATS = 9
LIMIT = 0.1  # seconds


class Timed:
    """An answer that adds up the seconds spent in it."""

    def __init__(self, answer: Callable) -> None:
        self.answer, self.seconds = answer, 0.0

    def __call__(self, *args: Any) -> Any:
        """Call the answer and stop the time."""
        start = time.perf_counter()
        try:
            return self.answer(*args)
        finally:
            self.seconds += time.perf_counter() - start


def beyond(exercise: Exercise, answer: Callable) -> tuple[float, float]:
    """Medians of the seconds that `check` needs beyond the answer: by the wall clock, and of the processor's time."""
    walls, processors = [], []
    for repeat in range(REPEATS + 1):
        timed = Timed(answer)
        with contextlib.redirect_stdout(io.StringIO()):
            wall, processor = time.perf_counter(), time.process_time()
            check(exercise.id, timed)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
        if repeat:
            walls.append(wall - timed.seconds)
            processors.append(max(0.0, processor - timed.seconds))
    return statistics.median(walls), statistics.median(processors)


def main() -> None:
    """Print medians for the right answer, the slowest known mistake, and code that raises."""
    worst = (0.0, 0.0)
    print("milliseconds beyond the answer itself, by the wall clock (and by the processor's)")
    print(f"{'exercise':34} {'right':>15} {'wrong':>15} {'raises':>15}")
    for exercise in (e for lesson in lessons() for e in exercises(lesson)):
        if exercise.trains or not callable(exercise.right) or isinstance(exercise.right, type):
            continue
        right = beyond(exercise, exercise.right)
        wrong = max(beyond(exercise, m.answer) for m in exercise.mistakes)
        raises = beyond(exercise, lambda *args: 1 / 0)
        worst = max(worst, right, wrong, raises)
        columns = " ".join(f"{w * 1e3:6.1f} ({p * 1e3:5.1f})" for w, p in (right, wrong, raises))
        print(f"{exercise.id:34} {columns}")
    held = "within" if worst[0] < LIMIT else "ABOVE"
    print(f"slowest: {worst[0] * 1e3:.1f} ms, {held} the limit of {LIMIT * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
