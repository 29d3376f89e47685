"""How much faster `ampcourse grade` is than plain nbgrader: `make bench-grade`, or `python benchmarks/bench_grade.py`.

The same submissions are graded by both, side by side, each time in a fresh course directory: by `nbgrader autograde` as
nbgrader ships it, with nothing of this course in its configuration, and by `ampcourse grade --jobs 2`, complete with
repairs, sandbox, judging outside, gradebook, autograded notebooks and records. The scores of both must be the same.

There are three kinds of notebooks: one that imports TensorFlow and computes little, one that also trains a network for
about a second, one with numpy alone. Printed at the end: `tensorflow ratio X`, `training ratio Z`, `numpy ratio Y`,
medians over the rounds of nbgrader's time divided by ours. Then what a submission costs and where that goes.

A round with 40 submissions of each kind takes about nine minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # its other half lies beside it

from grade_class import KINDS, check_same_scores, make_class, sized_fit
from grade_costs import Memory, costs

TARGETS = {"tensorflow": 10.0, "training": 6.0, "numpy": 2.5}
MOST_MEMORY = 1.5
"""GiB for two workers."""
BIN = Path(sys.executable).parent
LESSON = "bench"


def main() -> int:
    """Runs the benchmark; the exit code says whether the targets were reached."""
    options = arguments()
    base = Path(tempfile.mkdtemp(prefix="ampcourse-bench-"))
    try:
        return run(options, base)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submissions", type=int, default=40, help="of each kind (default 40)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all three")
    parser.add_argument("--rounds", type=int, default=1, help="how often all is done (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="of ampcourse grade (default 2)")
    parser.add_argument("--no-costs", action="store_true", help="leave out the costs of the single steps")
    options = parser.parse_args()
    if min(options.submissions, options.rounds, options.jobs) < 1:
        parser.error("--submissions, --rounds and --jobs must be at least 1")
    return options


def run(options: argparse.Namespace, base: Path) -> int:
    """All rounds of all kinds."""
    began = time.perf_counter()
    steps = sized_fit(base, environment(base)) if "training" in options.kinds else 0
    if steps:
        print(f"training: a fit of {steps} epochs takes about a second here")
    ratios: dict[str, list[float]] = {kind: [] for kind in options.kinds}
    memory = 0.0
    for number in range(1, options.rounds + 1):
        for kind in options.kinds:
            work = base / f"{kind}-{number}"
            ratio, used = side_by_side(kind, options, work, steps, first=number % 2 == 1)
            ratios[kind].append(ratio)
            memory = max(memory, used)
            shutil.rmtree(work)
    if not options.no_costs:
        for kind in options.kinds:
            work = base / f"{kind}-costs"
            make_class(work / "ours", kind, 4, steps)
            costs(work / "ours", kind, LESSON)
            shutil.rmtree(work)
    print(f"\n{time.perf_counter() - began:.0f} s in all; medians of {options.rounds} rounds")
    missed = memory > MOST_MEMORY
    for kind in options.kinds:
        ratio = statistics.median(ratios[kind])
        missed |= ratio < TARGETS[kind]
        print(f"{kind} ratio {ratio:.2f}    (at least {TARGETS[kind]:g}: {'yes' if ratio >= TARGETS[kind] else 'NO'})")
    print(f"peak memory {memory:.2f} GiB    (under {MOST_MEMORY:g}: {'yes' if memory <= MOST_MEMORY else 'NO'})")
    return int(missed)


def side_by_side(kind: str, options: argparse.Namespace, work: Path, steps: int, first: bool) -> tuple[float, float]:
    """One kind, graded by both: nbgrader's time divided by ours, and the most memory that we used."""
    for name in ("plain", "ours"):
        make_class(work / name, kind, options.submissions, steps)
    nbgrader(work / "plain", "generate_assignment", LESSON, "--create")
    taken: dict[str, float] = {}
    used = 0.0
    for name in ("plain", "ours") if first else ("ours", "plain"):
        if name == "plain":
            taken[name] = nbgrader(work / name, "autograde", LESSON)
        else:
            taken[name], used = ampcourse(work / name, options.jobs)
    check_same_scores(work / "plain", work / "ours", LESSON)
    ratio = taken["plain"] / taken["ours"]
    each = {name: seconds / options.submissions for name, seconds in taken.items()}
    print(
        f"{kind}: nbgrader {taken['plain']:.1f} s ({each['plain']:.2f} s each), "
        f"ampcourse {taken['ours']:.1f} s ({each['ours']:.2f} s each), ratio {ratio:.2f}, peak {used:.2f} GiB",
        flush=True,
    )
    return ratio, used


def environment(home: Path) -> dict[str, str]:
    """As on a fresh account: no settings of anybody, the environment's commands on the path, as nbgrader needs them."""
    home.mkdir(parents=True, exist_ok=True)
    dropped = ("AMPCOURSE", "JUPYTER", "IPYTHON", "PYTHON", "TF_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return kept | {"HOME": str(home), "AMPCOURSE_HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"}


def nbgrader(folder: Path, *words: str) -> float:
    """Run plain nbgrader; how long it took."""
    began = time.perf_counter()
    done = subprocess.run(
        [BIN / "nbgrader", *words], cwd=folder, env=environment(folder.parent / "home"), capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"nbgrader {words[0]} failed:\n{done.stderr[-3000:]}")
    return time.perf_counter() - began


def ampcourse(folder: Path, jobs: int) -> tuple[float, float]:
    """Run `ampcourse grade`; how long it took, and the most memory, in GiB, that all its processes had together."""
    command = [BIN / "ampcourse", "grade", LESSON, "--course", folder, "--jobs", str(jobs)]
    with tempfile.TemporaryFile("w+") as said:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment(folder.parent / "home"), stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        with Memory(process.pid) as memory:
            code = process.wait()
        taken = time.perf_counter() - began
        said.seek(0)
        if code:
            raise SystemExit(f"ampcourse grade failed ({code}):\n{said.read()[-3000:]}")
    return taken, memory.peak / 2**30


if __name__ == "__main__":
    sys.exit(main())
