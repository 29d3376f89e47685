"""Charts of real runs to draw questions from; `tools/ward_charts.py` makes the file."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

Chart = dict[str, Any]
FILE = Path(__file__).resolve().parent / "charts.json.gz"

# What tells most stands first, because an example shows the first entries only.
ORDER = ("moved", "untouched", "stores", "scales", "handed", "handed32", "losses32", "losses", "skipped", "first")


@functools.cache
def ward() -> dict[str, list[Chart]]:
    """Patient to its charts. Series are tuples: they belong together, and are never cut short to make an example."""
    charts = json.loads(gzip.decompress(FILE.read_bytes()))
    return {
        name: [{k: tuple(chart[k]) if isinstance(chart[k], list) else chart[k] for k in ORDER} for chart in found]
        for name, found in charts.items()
    }


def drawn(rng: np.random.Generator, patients: list[list[str]]) -> list[tuple[Chart]]:
    """One chart of one patient out of each group, as rows of arguments in random order."""
    rows = []
    for group in patients:
        charts = ward()[group[rng.integers(len(group))]]
        rows.append((charts[rng.integers(len(charts))],))
    return [rows[i] for i in rng.permutation(len(rows))]
