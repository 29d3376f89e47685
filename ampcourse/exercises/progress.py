"""What the learner has done so far: one small JSON file in the user's data folder, or in `$AMPCOURSE_HOME`.

Progress is a convenience: whatever is wrong with the file or the folder, checking goes on and nothing is said.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ampcourse.exercises.model import OUTCOMES, Verdict

Entry = dict[str, Any]
_NEW: Entry = {"score": 0.0, "max": 0.0, "outcome": "not attempted", "attempts": 0, "hints": 0, "first_full": None}
_unstored_hints: dict[str, int] = {}


def folder() -> Path:
    """Where progress is kept."""
    if home := os.environ.get("AMPCOURSE_HOME"):
        with contextlib.suppress(RuntimeError):  # no such user
            return Path(home).expanduser()
        return Path(home)
    import platformdirs

    return Path(platformdirs.user_data_dir("ampcourse", appauthor=False))


def load() -> dict[str, Entry]:
    """Exercise id -> `score` (best), `max`, `outcome` (of the best), `attempts`, `hints` (shown), `first_full` (time).

    Anything unreadable counts as nothing; it is not touched here.
    """
    try:
        return _parsed((folder() / "progress.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def store_verdict(exercise_id: str, verdict: Verdict) -> None:
    """Count an attempt; keep the best score with its outcome, and when it was first full."""

    def change(entry: Entry) -> None:
        entry["attempts"] += verdict.outcome != "not attempted"
        entry["max"] = verdict.max_score
        entry["score"] = min(entry["score"], verdict.max_score)  # an exercise may have become worth less
        if verdict.score >= entry["score"]:
            entry["score"], entry["outcome"] = verdict.score, verdict.outcome
        if verdict.outcome == "right" and not entry["first_full"]:
            entry["first_full"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

    _change(exercise_id, change)


def store_hint(exercise_id: str, shown: int, max_score: float) -> None:
    """Remember how many hints were shown, at least in this process."""
    _unstored_hints[exercise_id] = shown

    def change(entry: Entry) -> None:
        entry["hints"] = max(entry["hints"], shown)
        entry["max"] = max_score

    _change(exercise_id, change)


def hints_shown(exercise_id: str) -> int:
    """How many hints of the exercise were shown so far."""
    return max(load().get(exercise_id, _NEW)["hints"], _unstored_hints.get(exercise_id, 0))


def forget_unstored() -> None:
    """Forget the hints shown in this process; what is stored stays."""
    _unstored_hints.clear()


def _change(exercise_id: str, change: Callable[[Entry], None]) -> None:
    if os.environ.get("AMPCOURSE_PROFILE") == "grade":
        return
    path = folder() / "progress.json"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_suffix(".lock")):
            entries = _read_or_set_aside(path)
            entry = {**_NEW, **entries.get(exercise_id, {})}
            change(entry)
            _write(path, {**entries, exercise_id: entry})


def _read_or_set_aside(path: Path) -> dict[str, Entry]:
    try:
        return _parsed(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        path.replace(path.with_name(f"progress.damaged-{time.time_ns()}.json"))
        return {}


def _parsed(text: str) -> dict[str, Entry]:
    try:
        content = json.loads(text)
        return {str(name): _entry(entry) for name, entry in content["exercises"].items()}
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("not a progress file") from error


def _entry(entry: Entry) -> Entry:
    numbers = ("score", "max", "attempts", "hints")
    whole = {**_NEW, **entry}
    if not all(type(whole[name]) in (int, float) and 0 <= whole[name] < math.inf for name in numbers):
        raise TypeError("not an entry")
    if whole["outcome"] not in OUTCOMES:
        raise TypeError("not an entry")
    return whole


def _write(path: Path, entries: dict[str, Entry]) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".progress-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"version": 1, "exercises": entries}, file, indent=1, sort_keys=True)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


@contextlib.contextmanager
def _locked(path: Path, patience: float = 2.0) -> Iterator[None]:
    """Hold the file lock, so that two kernels do not undo each other; where there are no locks, go on without."""
    with path.open("a+b") as file:
        locked = _try_lock(file, patience)
        try:
            yield
        finally:
            if locked:
                locked()


def _try_lock(file: Any, patience: float) -> Callable[[], None] | None:
    try:
        import fcntl
    except ImportError:  # Windows, where the replaced file is still whole, but two kernels could undo one attempt
        return None
    ends = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lambda: fcntl.flock(file, fcntl.LOCK_UN)
        except BlockingIOError:
            if time.monotonic() > ends:
                return None
            time.sleep(0.01)
        except OSError:
            return None
