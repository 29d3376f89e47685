"""The half that knows the answers and trusts only bytes: questions, and the verdict on what was observed.

Everything rests on one move. The learner's answer, the right answer and every known mistake are observed in the same
way on the same inputs; judging is comparing observations. So a checker is data, and a mistake recognises itself: it is
the one that looks just like the learner's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ampcourse.exercises import wire
from ampcourse.exercises.compare import Fault, Seen, alike, problem, read
from ampcourse.exercises.facts import Facts
from ampcourse.exercises.model import (
    OUTCOMES,
    BrokenExercise,
    Criterion,
    Example,
    Exercise,
    Inputs,
    Mistake,
    Verdict,
)
from ampcourse.exercises.observe import observe

__all__ = [
    "OUTCOMES",
    "BrokenExercise",
    "Criterion",
    "Example",
    "Exercise",
    "Inputs",
    "Mistake",
    "Question",
    "Verdict",
    "judge",
]


@dataclass(frozen=True)
class Question:
    """One exercise asked with the inputs of one seed. What is computed here is computed once and kept.

    Attributes:
        exercise: what is asked.
        seed: draws the inputs; whoever grades keeps it secret.
    """

    exercise: Exercise
    seed: int | Sequence[int] = 0

    @cached_property
    def packed(self) -> bytes:
        """The inputs as bytes, for `observe`.

        Raises:
            BrokenExercise: if they cannot be drawn or sent, or are not those that `points` names.
        """
        try:
            inputs = dict(self.exercise.inputs(np.random.default_rng(self.seed)))
            packed = wire.pack({name: tuple(arguments) for name, arguments in inputs.items()})
        except Exception as error:
            raise BrokenExercise(f"{self.exercise.id}: its inputs cannot be drawn: {error}") from error
        if inputs.keys() != self.exercise.points.keys():
            raise BrokenExercise(f"{self.exercise.id}: inputs {list(inputs)}, points {list(self.exercise.points)}")
        return packed

    @cached_property
    def want(self) -> Mapping[str, Facts]:
        """The right facts of each criterion.

        Raises:
            BrokenExercise: if the right answer itself fails.
        """
        return self.right_facts(self.packed)

    @cached_property
    def mistakes(self) -> tuple[Seen, ...]:
        """What each known mistake looks like; computed only once an answer is wrong."""
        observer = self.exercise.observer
        return tuple(read(observe(observer, self.packed, mistake.answer)) for mistake in self.exercise.mistakes)

    def right_facts(self, packed: bytes) -> Mapping[str, Facts]:
        """The right facts on any inputs; raises BrokenExercise where there are none."""
        seen = read(observe(self.exercise.observer, packed, self.exercise.right))
        for name, facts in seen.criteria.items():
            if isinstance(facts, Fault):
                raise BrokenExercise(f"{self.exercise.id}, {name}: the right answer fails: {facts} {facts.frames[-1:]}")
        if not seen.criteria:
            raise BrokenExercise(f"{self.exercise.id}: the right answer could not be observed")
        return seen.criteria  # type: ignore[return-value]


def judge(
    questions: Sequence[Question],
    observations: Sequence[bytes],
    observe_again: Callable[[bytes], bytes] | None = None,
    reveal: bool = True,
) -> Verdict:
    """The verdict on one answer, observed once for each question (the same exercise, several seeds).

    Args:
        questions: what was asked.
        observations: what came back for each question, from `observe`; may be forged.
        observe_again: packed inputs to an observation of the same answer, for finding the smallest failing input.
        reveal: whether the right values may be shown.

    Raises:
        BrokenExercise: if the reference fails, which is nobody's zero.
    """
    exercise = questions[0].exercise
    seen = [read(observation) for observation in observations]
    faults = [got for s in seen for name in exercise.points if isinstance(got := s[name], Fault)]
    if len(faults) == len(seen) * len(exercise.points) and all(f.kind == "untouched" for f in faults):
        return Verdict("not attempted", tuple(Criterion(n, p, False) for n, p in exercise.points.items()))
    criteria = tuple(
        Criterion(name, points, not says, says)
        for name, points in exercise.points.items()
        for says in [_first_problem(exercise, name, questions, seen)]
    )
    output = {"printed": seen[0].printed, "warned": seen[0].warned}
    if all(c.passed for c in criteria):
        return Verdict("right", criteria, insight=exercise.insight, **output)
    raised = next((f for f in faults if f.kind in ("raised", "timeout")), None)
    return Verdict(
        "raised" if raised else "wrong",
        criteria,
        says=recognised(questions, seen, [c.name for c in criteria if not c.passed]),
        traceback=(*raised.frames, str(raised)) if raised else (),
        **output,
    )


def _first_problem(exercise: Exercise, name: str, questions: Sequence[Question], seen: Sequence[Seen]) -> str:
    pairs = zip(questions, seen, strict=True)
    return next((says for q, s in pairs if (says := problem(exercise, s[name], q.want[name]))), "")


def recognised(questions: Sequence[Question], seen: Sequence[Seen], failed: Sequence[str]) -> tuple[str, ...]:
    """The messages of the mistakes that look like this answer: one on every input, or several."""
    exercise = questions[0].exercise

    def looks_like(number: int, criteria: Sequence[str]) -> bool:
        return all(
            alike(exercise, s[name], q.mistakes[number][name])
            for q, s in zip(questions, seen, strict=True)
            for name in criteria
        )

    for number, mistake in enumerate(exercise.mistakes):
        if looks_like(number, list(exercise.points)):
            return (mistake.says,)
    found: dict[str, list[str]] = {}
    for name in failed:
        if any(isinstance(s[name], Fault) for s in seen):
            continue  # the same kind of error in one criterion is no likeness
        number = next((n for n in range(len(exercise.mistakes)) if looks_like(n, [name])), None)
        if number is not None:
            found.setdefault(exercise.mistakes[number].says, []).append(name)
    return tuple(f"{' and '.join(names)}: {says}" for says, names in found.items())


def check_once(exercise: Exercise, answer: Any, seed: int = 0) -> Verdict:
    """Both halves in one process for one seed: for tests and for writing exercises."""
    question = Question(exercise, seed)
    return judge([question], [observe(exercise.observer, question.packed, answer)])
