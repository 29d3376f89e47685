"""A class of a thousand goes through the sandbox with memory flat; CI takes forty."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from classroom import LESSON, fill

from ampcourse.grading.records import load_records

RUN = """
import json, sys
from pathlib import Path
from ampcourse.grading.batch import grade_lesson
from ampcourse.grading.batch.display import Display
summary = grade_lesson(Path(sys.argv[1]), "ps1", jobs=2, watcher=Display(sys.stderr))
print(json.dumps({r.student: r.score for r in summary.results}))
print(json.dumps([summary.graded, summary.sandbox, summary.seconds]))
"""


@pytest.mark.sandbox
@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.full)])
def test_a_class_goes_through_with_memory_flat(course: Path, book: Any, count: int) -> None:
    made = fill(course, count)
    process = subprocess.Popen([sys.executable, "-c", RUN, str(course)], stdout=subprocess.PIPE, text=True)
    seen: list[tuple[int, int]] = []
    ended = threading.Event()

    def watch() -> None:
        head = psutil.Process(process.pid)
        while not ended.wait(0.25):
            done = len(list((course / "grading" / "records" / LESSON).glob("*.json")))
            try:
                seen.append((done, head.memory_info().rss))
            except psutil.NoSuchProcess:
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, _ = process.communicate()
    ended.set()
    watcher.join()
    scores, (graded, sandbox, seconds) = map(json.loads, out.splitlines())
    assert scores == {student: kind.score for student, kind in made.items()} and graded == count
    assert sandbox in ("template", "sandbox")
    rows = book(course)
    assert {s: row.score for s, row in rows.items()} == {s: kind.score or 0.0 for s, kind in made.items()}
    assert len(load_records(course, LESSON)) == count
    early = max(rss for done, rss in seen if 5 <= done <= count // 4)
    late = max(rss for done, rss in seen if done >= count // 2)
    assert late < early + 30 * 2**20, f"{early / 2**20:.0f} MiB, then {late / 2**20:.0f} MiB; {seconds:.0f} s"
    assert not [p for p in psutil.process_iter() if str(course) in " ".join(_command(p))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
