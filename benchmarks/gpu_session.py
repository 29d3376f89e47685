"""Measure on a GPU machine what there is time for: `python benchmarks/gpu_session.py --minutes 8 --out DIR`.

First the ceilings, then ResNet-50 and ViT-B/16 under every policy, where their time goes and `fit` against the custom
loop, then the other models, and last the largest batches. Results are saved after each stage, so that whatever happens
DIR holds what was measured until then; a second start goes on. The work is done by a child process, which is ended
when the time is up, whatever it is doing. It needs Keras and TensorFlow, or Keras and JAX (keras-hub for some models),
NumPy and ml_dtypes; pictures are drawn where matplotlib is, else afterwards by `ampcourse bench --show --out DIR`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a machine may have the clone and no installation

FIRST = ("resnet50", "vit_b16")
THEN = ("bert_base", "ncf", "swin_t", "gnmt", "retinanet_r50", "vit_l16")
MARGIN = 0.92
"""The child begins nothing new after this part of the time; what it has begun may take the rest."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options; all have defaults."""
    parser = argparse.ArgumentParser(description="Measure on a GPU machine what there is time for.")
    parser.add_argument("--minutes", type=float, default=8.0, help="for everything (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("results-bench-gpu"), help="folder (default: %(default)s)")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="default: %(default)s")
    parser.add_argument("--scale", choices=("full", "small"), default="full", help="default: %(default)s")
    parser.add_argument("--first", default=",".join(FIRST), help="models measured in depth (default: %(default)s)")
    parser.add_argument("--then", default=",".join(THEN), help="models after them (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=9, help="of each variant (default: %(default)s)")
    parser.add_argument("--turn-seconds", type=float, default=0.25, help="default: %(default)s")
    parser.add_argument("--child-until", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not 0 < options.minutes < 10_000:
        parser.error(f"--minutes is a number above 0, not {options.minutes:g}")
    return options


def main() -> int:
    """Start the child, wait no longer than the time allows, and say what there is."""
    options = parse()
    if options.child_until is not None:
        return measure(options)
    begin = time.time()
    until = begin + 60 * options.minutes
    command = [sys.executable, __file__, *sys.argv[1:], "--child-until", str(begin + MARGIN * 60 * options.minutes)]
    with tempfile.TemporaryDirectory() as compiled:
        settings = {"JAX_COMPILATION_CACHE_DIR": compiled, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        child = subprocess.Popen(command, env={**settings, **os.environ})
        try:
            code = child.wait(timeout=max(1.0, until - time.time()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            print("The time is up; what was measured until now is kept.", file=sys.stderr)
            code = 0
    report = options.out / "report.md"
    if not report.is_file():
        print(f"Nothing was measured: '{report}' does not exist.", file=sys.stderr)
        return code or 1
    print(report.read_text("utf-8"))
    print(f"After {time.time() - begin:.0f} s, in '{options.out}'.")
    return code


def measure(options: argparse.Namespace) -> int:
    """The child's work; a mistake of the user ends in one sentence."""
    from ampcourse.bench import run
    from ampcourse.course import UserError

    try:
        run(
            *plans(options),
            say=lambda what: print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True),
        )
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    draw(options.out)
    return 0


def plans(options: argparse.Namespace) -> list:
    """The stages in their order: what matters most comes first."""
    from ampcourse.bench import Plan

    first, then = (tuple(filter(None, names.split(","))) for names in (options.first, options.then))
    common = {name: getattr(options, name) for name in ("device", "scale", "out", "turns", "turn_seconds")}
    common |= {"minutes": max(0.01, (options.child_until - time.time()) / 60)}
    stages = [Plan(models=first, parts=False, largest=False, **common)]
    stages.append(Plan(models=first, parts=True, largest=False, **common))
    if then:
        stages.append(Plan(models=then, parts=False, largest=False, **common))
    if options.device == "gpu":
        stages.append(Plan(models=first, parts=True, largest=True, **common))
    return stages


def draw(out: Path) -> None:
    """The pictures, if matplotlib is there."""
    try:
        from ampcourse.bench import load
        from ampcourse.bench.drawings import save

        save(load(out), out)
    except ImportError as error:
        print(f"No pictures: {error}. Draw them later: ampcourse bench --show --out {out}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
