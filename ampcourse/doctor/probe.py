"""Runs in a process of its own: imports TensorFlow, says what it sees, and times matrix products on the CPU.

Call as `python -m ampcourse.doctor.probe OUT SECONDS`; OUT receives JSON, once after the facts and again after the
measurement, so that what was learned stays known if the measurement kills the process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ampcourse.amp.machine_facts import keras_facts, tensorflow_facts
from ampcourse.amp.machine_speed import measure


def main(out: Path, seconds: float) -> None:
    """Ask, and write the answer as JSON."""
    answer: dict[str, Any] = {}
    try:
        answer |= keras_facts() | tensorflow_facts()
        _save(out, answer)
        if seconds:
            answer["measurement"] = measure(seconds)
    except BaseException as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    _save(out, answer)


def _save(out: Path, answer: dict[str, Any]) -> None:
    part = out.with_suffix(".part")
    part.write_text(json.dumps(answer), "utf-8")
    part.replace(out)  # the reader sees all of it or nothing


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
