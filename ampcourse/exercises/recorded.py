"""An exercise and its questions as plain data that can be pickled: what judging needs, computed already.

Whoever judges with these imports no answers and nothing heavy: the right facts and the looks of the known mistakes were
observed elsewhere, once for everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ampcourse.exercises import observers
from ampcourse.exercises.compare import Fault, Seen, read
from ampcourse.exercises.engine import Question
from ampcourse.exercises.facts import Facts
from ampcourse.exercises.model import BrokenExercise, Exercise, Mistake


@dataclass(frozen=True)
class RecordedExercise:
    """What judging reads of an `Exercise`; see there.

    Attributes:
        observer: its name, as `observe` takes it.
        right_takes: names of the right answer's parameters.
        observer_takes: names of the observer's parameters after the answer.
    """

    id: str
    points: Mapping[str, float]
    observer: str
    mistakes: tuple[Mistake, ...] = ()
    rtol: float = 0.0
    atol: float = 0.0
    dtype: str | None = None
    insight: str = ""
    trains: bool = False
    forbids: tuple[str, ...] = ()
    right_takes: tuple[str, ...] = ()
    observer_takes: tuple[str, ...] = ()

    @property
    def max_score(self) -> float:
        """The sum of the points."""
        return float(sum(self.points.values()))


@dataclass(frozen=True, kw_only=True)
class RecordedQuestion(Question):
    """A question whose inputs, right facts and looks of mistakes are there already.

    Attributes:
        packed: the inputs, for `observe`.
        want: the right facts of each criterion.
        mistakes: what each known mistake looks like.
    """

    exercise: Any = field()
    packed: bytes = field()
    want: Mapping[str, Facts] = field()
    mistakes: tuple[Seen, ...] = field()

    def right_facts(self, packed: bytes) -> Mapping[str, Facts]:
        """Nothing: the right answer is not here.

        Raises:
            BrokenExercise: always.
        """
        raise BrokenExercise(f"{self.exercise.id}: its right answer is not here")


def recorded(exercise: Exercise) -> RecordedExercise:
    """An exercise without its code.

    Raises:
        BrokenExercise: if its observer cannot be found by name.
    """
    return RecordedExercise(
        id=exercise.id,
        points=dict(exercise.points),
        observer=observer_name(exercise),
        mistakes=tuple(Mistake(None, mistake.says) for mistake in exercise.mistakes),
        rtol=exercise.rtol,
        atol=exercise.atol,
        dtype=exercise.dtype,
        insight=exercise.insight,
        trains=exercise.trains,
        forbids=tuple(exercise.forbids),
        right_takes=exercise.right_takes,
        observer_takes=exercise.observer_takes,
    )


def recorded_question(
    exercise: RecordedExercise, seed: int, packed: bytes, right: bytes, mistakes: tuple[bytes, ...]
) -> RecordedQuestion:
    """A question from what was observed of the right answer and of the mistakes.

    Raises:
        BrokenExercise: if the right answer failed.
    """
    seen = read(right)
    for name in exercise.points:
        if isinstance(got := seen[name], Fault):
            raise BrokenExercise(f"{exercise.id}, {name}: the right answer fails: {got} {got.frames[-1:]}")
    looks = tuple(read(observation) for observation in mistakes)
    return RecordedQuestion(exercise=exercise, seed=seed, packed=packed, want=seen.criteria, mistakes=looks)  # type: ignore[arg-type]


def observer_name(exercise: Exercise) -> str:
    """The observer's name, as `observe` takes it: "call", "loss_scaling.train_scaled".

    Raises:
        BrokenExercise: if it is not a function in a module of `observers`.
    """
    look, package = exercise.observer, observers.__name__
    module, name = getattr(look, "__module__", ""), getattr(look, "__qualname__", "")
    if not (module == package or module.startswith(f"{package}.")) or not name.isidentifier():
        raise BrokenExercise(f"{exercise.id}: its observer is no function in a module of '{package}'")
    return f"{module[len(package) + 1 :]}.{name}".lstrip(".")
