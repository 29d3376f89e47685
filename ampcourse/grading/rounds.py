"""Grading rounds: which questions the submissions of a lesson are asked, drawn from a secret that stays in the course.

All submissions of a round are asked the same, and a regrade asks the same again. `grading/secret` is made once and
never replaced; `grading/rounds.json` says which rounds there are, and is no secret.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ampcourse.grading.files import private_folder, write_atomically
from ampcourse.grading.model import GradingError

FOLDER, SECRET, ROUNDS = "grading", "secret", "rounds.json"
_BYTES = 32


@dataclass(frozen=True)
class Round:
    """One grading round of a lesson.

    Attributes:
        lesson: the assignment's slug.
        number: from 1 on.
        date: when it was opened, as ISO 8601 in UTC.
        seed_id: tells rounds apart without telling the secret.
        key: what its seeds are drawn from.
    """

    lesson: str
    number: int
    date: str
    seed_id: str
    key: bytes = field(repr=False)

    def seeds(self, exercise: str, count: int) -> tuple[int, ...]:
        """The seeds of an exercise's questions, 64 bits each."""
        return tuple(int.from_bytes(_mac(self.key, "seed", exercise, i)[:8], "big") for i in range(count))


def load_round(course_root: Path, lesson: str, number: int | None = None) -> Round:
    """A round of a lesson: the newest if no number is given, and the first one opened now if there is none yet.

    Raises:
        GradingError: if there is no such round, or the secret or the list of rounds cannot be used.
    """
    with _locked(course_root) as folder:
        found = _entries(folder).get(lesson, [])
        if number is not None and not any(entry["number"] == number for entry in found):
            raise GradingError(f"'{lesson}' has no grading round {number} in '{folder / ROUNDS}'.")
        if not found:
            return _opened(Path(course_root), folder, lesson)
        entry = found[-1] if number is None else next(e for e in found if e["number"] == number)
        return _round(folder, lesson, entry)


def new_round(course_root: Path, lesson: str) -> Round:
    """Open another round: from now on the submissions of this lesson are asked other questions.

    Raises:
        GradingError: if the secret or the list of rounds cannot be used.
    """
    with _locked(course_root) as folder:
        return _opened(Path(course_root), folder, lesson)


def rounds(course_root: Path, lesson: str) -> tuple[dict[str, Any], ...]:
    """What is on record of a lesson's rounds (number, date, seed), oldest first; nothing is made by asking.

    Raises:
        GradingError: if the list cannot be read.
    """
    entries = _entries(Path(course_root) / FOLDER).get(lesson, [])
    return tuple({key: entry[key] for key in ("number", "date", "seed")} for entry in entries)


@contextlib.contextmanager
def _locked(course_root: Path) -> Iterator[Path]:
    """The folder `grading`, while no other process changes what is in it."""
    root = Path(course_root)
    if not root.is_dir():
        raise GradingError(f"'{root}' is no folder: give the course directory.")
    try:
        folder = private_folder(root / FOLDER)
        with os.fdopen(os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    except OSError as error:
        where = error.filename or root / FOLDER
        raise GradingError(f"'{where}' cannot be used: {error.strerror or error}.") from None


def _entries(folder: Path) -> dict[str, list[dict[str, Any]]]:
    path = folder / ROUNDS
    wrong = f"'{path}' cannot be used ({{}}): put it back from a backup; regrading needs it to ask the same again."
    try:
        lessons = json.loads(path.read_text("utf-8"))["lessons"]
        for entries in lessons.values():
            for number, entry in enumerate(entries, 1):
                if entry["number"] != number or not all(isinstance(entry[k], str) for k in ("date", "seed", "course")):
                    raise ValueError(f"round {number}")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise GradingError(wrong.format(error.strerror)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GradingError(wrong.format(f"{type(error).__name__}: {error}")) from None
    return lessons


def _opened(root: Path, folder: Path, lesson: str) -> Round:
    entries = _entries(folder)
    secret = _secret(folder, may_make=not any(entries.values()))
    number, course = len(entries.get(lesson, [])) + 1, _title(root)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    seed = _seed_id(_mac(secret, course, lesson, number))
    entry = {"number": number, "date": date, "seed": seed, "course": course}
    entries.setdefault(lesson, []).append(entry)
    text = json.dumps({"lessons": entries}, indent=1, ensure_ascii=False)
    write_atomically(folder / ROUNDS, (text + "\n").encode("utf-8"))
    return _round(folder, lesson, entry)


def _round(folder: Path, lesson: str, entry: dict[str, Any]) -> Round:
    key = _mac(_secret(folder, may_make=False), entry["course"], lesson, entry["number"])
    if not hmac.compare_digest(_seed_id(key), entry["seed"]):
        raise GradingError(
            f"'{folder / SECRET}' is not the secret that round {entry['number']} of '{lesson}' was opened with: "
            "put the right one back from a backup."
        )
    return Round(lesson, entry["number"], entry["date"], entry["seed"], key)


def _secret(folder: Path, may_make: bool) -> bytes:
    path = folder / SECRET
    if not path.exists():
        if not may_make:
            raise GradingError(
                f"'{path}' is gone, but rounds are on record in '{folder / ROUNDS}': put the secret back from a "
                f"backup, or remove '{ROUNDS}' too and have everybody asked other questions."
            )
        write_atomically(path, secrets.token_bytes(_BYTES))
    content = path.read_bytes()
    if len(content) != _BYTES:
        raise GradingError(f"'{path}' has {len(content)} bytes, not {_BYTES}: put it back from a backup.")
    if path.stat().st_mode & 0o077:
        with contextlib.suppress(OSError):
            path.chmod(0o600)
    return content


def _mac(key: bytes, *parts: str | int) -> bytes:
    return hmac.digest(key, json.dumps(parts).encode("ascii"), hashlib.sha256)


def _seed_id(key: bytes) -> str:
    return _mac(key, "seed id").hex()[:16]


def _title(root: Path) -> str:
    """The course's title as it is when a round is opened; a plain nbgrader course directory has none."""
    try:
        return str(tomllib.loads((root / "course.toml").read_text("utf-8")).get("course", {}).get("title", ""))
    except (OSError, ValueError, AttributeError):
        return ""
