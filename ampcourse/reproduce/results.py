"""What a run found: each notebook's status and results, compared with what `course.toml` expects."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ampcourse.course import Expected, Lesson
from ampcourse.reproduce import files
from ampcourse.reproduce.executed import Recorded
from ampcourse.reproduce.record import json_value, text_value

INTERRUPTED = 130


@dataclass(frozen=True)
class Result:
    """One number of a lesson: expected, recorded, or both. `held` is None where nothing was expected of it."""

    name: str
    value: bool | int | float | str | None
    low: float | None
    high: float | None
    held: bool | None
    unit: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        """In words whether it held."""
        if self.held is None:
            return "not judged"
        return "held" if self.held else "not held"

    @property
    def shown(self) -> str:
        """The value with its unit."""
        return f"{text_value(self.value)} {self.unit}".strip() if self.value is not None else "not recorded"

    @property
    def range(self) -> str:
        """The expected range in words."""
        if self.low is None or self.high is None:
            return "none"
        low, high = (text_value(float(end)) for end in (self.low, self.high))
        if self.low == self.high:
            return f"exactly {low}"
        if math.isinf(self.low) or math.isinf(self.high):
            return f"at most {high}" if math.isinf(self.low) else f"at least {low}"
        return f"{low} to {high}"


@dataclass(frozen=True)
class NotebookResult:
    """One notebook of a run; `kept` says that it was taken over from an earlier run with nothing changed since."""

    lesson: str
    title: str
    status: str  # ok, failed, timeout, killed or skipped
    seconds: float = 0.0
    reason: str = ""
    results: tuple[Result, ...] = ()
    kept: bool = False
    started: str = ""

    @property
    def expected(self) -> int:
        """How many results were expected."""
        return sum(result.held is not None for result in self.results)

    @property
    def held(self) -> int:
        """How many of them held."""
        return sum(result.held is True for result in self.results)

    @property
    def good(self) -> bool:
        """Whether it ran to its end and everything expected held."""
        return self.status == "ok" and self.held == self.expected


@dataclass(frozen=True)
class Report:
    """A whole run. `problems` are sentences about the run itself, such as a report that could not be written."""

    profile: str
    seed: int
    out: Path
    machine: dict[str, Any]
    versions: dict[str, str | None]
    notebooks: tuple[NotebookResult, ...]
    problems: tuple[str, ...] = ()
    interrupted: bool = False
    seconds: float = 0.0
    started: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 if every notebook ran and every expected result held; 130 if interrupted; 1 otherwise."""
        if self.interrupted:
            return INTERRUPTED
        return int(bool(self.problems) or not all(notebook.good for notebook in self.notebooks))

    @property
    def page(self) -> Path:
        """The report for a browser."""
        return self.out / "index.html"

    def with_problem(self, sentence: str) -> Report:
        """The same report with one more problem."""
        return self if sentence in self.problems else replace(self, problems=(*self.problems, sentence))


def compare(lesson: Lesson, profile: str, found: Iterable[Recorded]) -> tuple[Result, ...]:
    """Every expected result first, held or not (never recorded: not held), then what was recorded beside them."""
    by_name = {one.name: one for one in found}
    expected = lesson.expected(profile)
    judged = [_judge(want, by_name.pop(want.name, None)) for want in expected]
    return (
        *judged,
        *(Result(one.name, one.value, None, None, None, one.unit, _twice(one)) for one in by_name.values()),
    )


def _judge(want: Expected, got: Recorded | None) -> Result:
    if got is None:
        return Result(want.name, None, want.low, want.high, False, note="never recorded")
    value = _number(got.value)
    note = "not a number" if value is None or math.isnan(value) else _twice(got)
    held = value is not None and want.held(value)
    return Result(want.name, got.value, want.low, want.high, held, got.unit, note)


def _number(value: bool | int | float | str) -> float | None:
    """The value as a number; the texts that stand for NaN and infinities in JSON count, other texts do not."""
    if isinstance(value, str):
        return float(value) if value in ("nan", "inf", "-inf") else None
    return float(value)


def _twice(one: Recorded) -> str:
    return f"recorded {one.times} times, the last counts" if one.times > 1 else ""


def as_json(report: Report) -> str:
    """The report as strict JSON: NaN and infinities are texts."""
    content = {
        "profile": report.profile,
        "seed": report.seed,
        "parameters": report.parameters,
        "started": report.started,
        "seconds": report.seconds,
        "interrupted": report.interrupted,
        "problems": list(report.problems),
        "machine": report.machine,
        "versions": report.versions,
        "notebooks": [asdict(notebook) for notebook in report.notebooks],
    }
    return json.dumps(_strict(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _strict(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _strict(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_strict(value) for value in content]
    return json_value(content)


def save(report: Report) -> None:
    """Write results.json, whole or not at all.

    Raises:
        OutputError: if it cannot be written.
    """
    files.write(report.out / files.RESULTS, as_json(report))
