"""Comparing observations: what is wrong with a fact, and whether two observations look alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ampcourse.exercises import wire
from ampcourse.exercises.facts import Facts
from ampcourse.exercises.frames import clean
from ampcourse.exercises.model import Exercise
from ampcourse.exercises.words import show

_isclose = np.isclose
"""Taken at import: a notebook that puts something else in its place changes nothing here."""
_SHOWN = 200
"""Characters of a part's name: the learner's code may have chosen it."""
_RECOGNISED = 1e-6
"""Relative tolerance at which an answer counts as a known mistake even where the exercise asks for exact numbers."""


@dataclass(frozen=True)
class Fault:
    """There are no facts, and why: "raised", "unusable", "timeout", "untouched" or "missing"."""

    kind: str
    type: str = ""
    text: str = ""
    frames: tuple[str, ...] = ()
    inside: str = ""
    at: str = ""

    def __str__(self) -> str:
        if self.kind == "raised":
            text = f"{self.type}: {self.text}" if self.text else self.type
            return f"{text} (inside {self.inside})" if self.inside else text
        return {"untouched": "not written yet", "missing": "nothing was observed"}.get(self.kind, self.text)


@dataclass(frozen=True)
class Seen:
    """One observation, read: facts or a fault for every criterion asked for."""

    criteria: Mapping[str, Facts | Fault] = field(default_factory=dict)
    printed: str = ""
    warned: str = ""

    def __getitem__(self, criterion: str) -> Facts | Fault:
        return self.criteria.get(criterion, Fault("missing"))

    @property
    def timed_out(self) -> frozenset[str]:
        """The criteria in which the code was still running when its time was up."""
        return frozenset(n for n, got in self.criteria.items() if isinstance(got, Fault) and got.kind == "timeout")


def read(observation: bytes) -> Seen:
    """Bytes from the learner's side to facts. They may be forged: what is not plain facts in full is no fact at all."""
    try:
        content = wire.unpack(observation)
        criteria = {str(name): _entry(entry) for name, entry in content["criteria"].items()}
        return Seen(criteria, clean(content["printed"], 2_200), clean(content["warned"], 2_200))
    except Exception:  # whoever forges bytes chooses where reading them stops, and with which error
        return Seen()


def _entry(entry: Any) -> Facts | Fault:
    if "fault" not in entry:
        if not all(type(name) is str and isinstance(fact, np.ndarray | str) for name, fact in entry["facts"].items()):
            raise TypeError("not facts")
        return {clean(name, len(name)): fact for name, fact in entry["facts"].items()}
    fault = entry["fault"]
    kind = fault["kind"] if fault["kind"] in ("raised", "unusable", "timeout", "untouched") else "missing"
    frames = tuple(
        f"{clean(str(f['function']), 80)}, line {int(f['line'])}: {clean(str(f['source']))}"
        for f in fault.get("frames", ())[:8]
    )
    texts = (clean(str(fault.get(name, ""))) for name in ("type", "text"))
    inside, at = clean(str(fault.get("inside", "")), 120), clean(str(fault.get("at", "")))
    return Fault(kind, *texts, frames=frames, inside=inside, at=at)


def problem(exercise: Exercise, got: Facts | Fault, want: Facts) -> str:
    """What is wrong with an observation, in one line; empty if nothing is. Never tells the right value."""
    if isinstance(got, Fault):
        return _none(got.at, want) if got.kind == "unusable" and got.at else str(got)
    if got.keys() != want.keys():
        return _other_parts(got, want)
    for name, fact in want.items():
        if says := _wrong(exercise, got[name], fact):
            return says if name == "value" else f"{name}: {says}"
    return ""


def _none(at: str, want: Facts) -> str:
    """One part is None: which, and what belongs there."""
    fact = want.get(at, want.get("value") if at.replace(".", "").isdigit() else None)
    if fact is None:
        return f"'{at}' is None and was not asked for"
    part = f"position {at}" if at.isdigit() else "what you returned" if at == "value" else f"'{at}'"
    if isinstance(fact, str):
        belongs = "a text"
    elif fact.dtype == bool:
        belongs = "True or False"
    else:
        belongs = "an array" if at in want and fact.ndim else "a number"
    return f"{part} is None, where {belongs} belongs: is a `return` missing?"


def _other_parts(got: Facts, want: Facts) -> str:
    if missing := [name for name in want if name not in got]:
        if want.keys() == {"value"}:
            parts = ", ".join(clean(name, _SHOWN) for name in list(got)[:4])
            return f"several parts were returned ({parts}), expected one"
        return f"'{missing[0]}' is missing: expected {', '.join(list(want)[:8])}"
    return f"'{clean(next(name for name in got if name not in want), _SHOWN)}' was not asked for"


def _wrong(exercise: Exercise, got: np.ndarray | str, want: np.ndarray | str) -> str:
    if isinstance(got, str) or isinstance(want, str):
        if type(got) is not type(want):
            return "a text, expected numbers" if isinstance(got, str) else "numbers, expected a text"
        return "" if got == want else f"you returned {clean(got, 60)!r}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if exercise.dtype and wire.NAMES.get(got.dtype) != exercise.dtype:
        return f"dtype {got.dtype}, expected {exercise.dtype}"
    wrong = np.flatnonzero(~same(got, want, exercise.rtol, exercise.atol))
    if not wrong.size:
        return ""
    if got.ndim == 0:
        return f"you returned {show(got)}"
    at = tuple(map(int, np.unravel_index(wrong[0], got.shape)))
    where = ", ".join(map(str, at))
    return f"{wrong.size:,} of {got.size:,} values are wrong, the first at [{where}]: you returned {show(got[at])}"


def same(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """Element by element: equal, both NaN, or within tolerance of `want`. Shapes are equal already."""
    if got.dtype.kind in "biu" and want.dtype.kind in "biu" and not (rtol or atol):
        return np.asarray(got == want)  # exact: float64 would merge large whole numbers
    with np.errstate(all="ignore"):  # whatever the learner has set
        got, want = got.astype(np.float64), want.astype(np.float64)
        return np.asarray(_isclose(got, want, rtol=rtol, atol=atol, equal_nan=True))


def alike(exercise: Exercise, got: Facts | Fault, fact: Facts | Fault) -> bool:
    """Whether an answer and a mistake look the same: equal facts, or the same kind of error."""
    if isinstance(got, Fault) or isinstance(fact, Fault):
        both = isinstance(got, Fault) and isinstance(fact, Fault)
        return both and (got.kind, got.type) == (fact.kind, fact.type) and got.kind not in ("untouched", "missing")
    return got.keys() == fact.keys() and all(_alike(exercise, got[name], fact[name]) for name in fact)


def telling(got: Facts | Fault) -> bool:
    """Whether looking alike in these facts alone means anything: any two wrong answers share a single wrong bool."""
    if isinstance(got, Fault):
        return False
    bits = sum(4.0 if isinstance(f, str) else f.size * (1.0 if f.dtype == bool else 8.0) for f in got.values())
    return bits >= 8


def _alike(exercise: Exercise, got: np.ndarray | str, fact: np.ndarray | str) -> bool:
    if isinstance(got, str) or isinstance(fact, str):
        return type(got) is type(fact) and got == fact
    if got.shape != fact.shape or (exercise.dtype and got.dtype != fact.dtype):
        return False
    return bool(same(got, fact, max(exercise.rtol, _RECOGNISED), exercise.atol).all())
