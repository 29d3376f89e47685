"""Examine many patients of the clinic and keep their charts: the questions of lesson 11 are drawn from them.

python tools/ward_charts.py [CHARTS_A_PATIENT]        about two minutes for 6 each on an idle two-core machine

Every chart is that of a real run and of its float32 twin; seeds begin at 1000, far from those that a notebook uses.
The file lies with the answers, because it says what each patient suffers from.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "ampcourse/exercises/answers/nan_clinic/charts.json.gz"
FIRST_SEED = 1000
BRIEF = 3
DIGITS = 5


def rounded(value: Any) -> Any:
    """Floats to a few digits, so that the file stays small; all else as it is."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    return {k: rounded(v) for k, v in value.items()} if isinstance(value, dict) else value


def main(each: int = 6) -> None:
    """Write the file."""
    from ampcourse import clinic, quietly

    charts: dict[str, list] = {}
    for name in clinic.WARD:
        with quietly():
            charts[name] = [
                rounded(clinic.admit(name, seed).evidence()) for seed in range(FIRST_SEED, FIRST_SEED + each)
            ]
        print(f"{name}: {each} charts", flush=True)
    with quietly():  # stopped before its loss is infinite, so that only its size tells
        brief = [clinic.admit("sprinter", seed, BRIEF) for seed in range(FIRST_SEED, FIRST_SEED + each)]
    charts["sprinter stopped early"] = [rounded(chart.evidence()) for chart in brief]
    content = json.dumps(charts, separators=(",", ":")).encode()
    FILE.write_bytes(gzip.compress(content, 9, mtime=0))
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
