"""The half that knows the answers and trusts only bytes: questions, and the verdict on what was observed.

Everything rests on one move. The learner's answer, the right answer and every known mistake are observed in the same
way on the same inputs; judging is comparing observations. So a checker is data, and a mistake recognises itself: it is
the one that looks just like the learner's answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ampcourse.exercises import wire
from ampcourse.exercises.compare import Fault, Seen, alike, problem, read, telling
from ampcourse.exercises.example import explained
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
from ampcourse.exercises.shrink import Failure, Search

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
    "to_ask",
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
        return tuple(self._observed(self.packed, mistake.answer) for mistake in self.exercise.mistakes)

    def right_facts(self, packed: bytes) -> Mapping[str, Facts]:
        """The right facts on any inputs; raises BrokenExercise where there are none."""
        seen = self._observed(packed, self.exercise.right)
        for name, facts in seen.criteria.items():
            if isinstance(facts, Fault):
                raise BrokenExercise(f"{self.exercise.id}, {name}: the right answer fails: {facts} {facts.frames[-1:]}")
        if not seen.criteria:
            raise BrokenExercise(f"{self.exercise.id}: the right answer could not be observed")
        return seen.criteria  # type: ignore[return-value]

    def _observed(self, packed: bytes, answer: Any) -> Seen:
        """A reference, whatever the learner has done to warnings and to numpy's error handling."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return read(observe(self.exercise.observer, packed, answer))


def to_ask(question: Question, late: Set[str]) -> bytes:
    """The packed inputs of a further question without the criteria that timed out before; empty if none is left.

    Those would only wait as long again. The others are asked with every seed all the same: else an answer could be
    right once, and then take its time.
    """
    if late.isdisjoint(question.exercise.points):
        return question.packed
    left = {name: given for name, given in wire.unpack(question.packed).items() if name not in late}
    return wire.pack(left) if left else b""


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
    criteria = _criteria(questions, seen)
    output = {"printed": seen[0].printed, "warned": seen[0].warned}
    if all(c.passed for c in criteria):
        return Verdict("right", criteria, insight=exercise.insight, **output)
    failure = find_failure(questions, seen, observe_again)
    raised = next((f for f in faults if f.kind in ("raised", "timeout")), None)
    return Verdict(
        "raised" if raised else "wrong",
        criteria,
        says=recognised(questions, seen),
        traceback=(*raised.frames, str(raised)) if raised else (),
        example=explained(exercise, *failure, reveal) if failure else None,
        **output,
    )


def _criteria(questions: Sequence[Question], seen: Sequence[Seen]) -> tuple[Criterion, ...]:
    """Each criterion with the first problem of any seed; an error that comes again is not told again."""
    exercise, found, told = questions[0].exercise, [], set()
    for name, points in exercise.points.items():
        pairs = zip(questions, seen, strict=True)
        says = next((says for q, s in pairs if (says := problem(exercise, s[name], q.want[name]))), "")
        again = says in told and any(isinstance(s[name], Fault) for s in seen)
        found.append(Criterion(name, points, not says, "the same again" if again else says))
        told.add(says)
    return tuple(found)


def recognised(questions: Sequence[Question], seen: Sequence[Seen]) -> tuple[str, ...]:
    """The messages of the mistakes that this answer looks like.

    One mistake that looks the same on every input, else the fewest that together explain what failed, each named with
    the criteria that it explains: so two mistakes at once are both told.
    """
    exercise = questions[0].exercise
    pairs = list(zip(questions, seen, strict=True))

    def looks_like(number: int, criterion: str) -> bool:
        return all(alike(exercise, s[criterion], q.mistakes[number][criterion]) for q, s in pairs)

    numbers = range(len(exercise.mistakes))
    for number in numbers:
        if all(looks_like(number, name) for name in exercise.points) and _tells(exercise, number, pairs):
            return (exercise.mistakes[number].says,)
    failed = [name for name in exercise.points if any(problem(exercise, s[name], q.want[name]) for q, s in pairs)]
    open_ = {name for name in failed if all(telling(s[name]) for _, s in pairs)}
    explains = {number: {name for name in open_ if looks_like(number, name)} for number in numbers} if open_ else {}
    says = []
    while explains and (names := explains[best := max(explains, key=lambda n: len(explains[n] & open_))] & open_):
        says.append(f"{' and '.join(n for n in failed if n in names)}: {exercise.mistakes[best].says}")
        open_ -= names
    return tuple(says)


def _tells(exercise: Exercise, number: int, pairs: Sequence[tuple[Question, Seen]]) -> bool:
    """Whether there is more to a likeness than that both raised some error of one type everywhere."""
    return any(
        not isinstance(got := s[name], Fault) or got.text == getattr(q.mistakes[number][name], "text", None)
        for q, s in pairs
        for name in exercise.points
    )


def find_failure(
    questions: Sequence[Question],
    seen: Sequence[Seen],
    observe_again: Callable[[bytes], bytes] | None = None,
) -> tuple[str, Failure] | None:
    """The first criterion that failed and the smallest input found there, made smaller if more can be observed."""
    exercise = questions[0].exercise
    for name in exercise.points:
        for question, s in zip(questions, seen, strict=True):
            got, want = s[name], question.want[name]
            hopeless = isinstance(got, Fault) and got.kind in ("untouched", "timeout", "missing")
            if hopeless or not problem(exercise, got, want):
                continue
            found = Failure(wire.unpack(question.packed)[name], got, want)
            if observe_again is not None:
                found = Search(exercise, name, question.right_facts, observe_again, found).smaller()
            return name, found
    return None


def check_once(exercise: Exercise, answer: Any, seed: int = 0) -> Verdict:
    """Both halves in one process for one seed: for tests and for writing exercises."""
    question = Question(exercise, seed)
    return judge([question], [observe(exercise.observer, question.packed, answer)])
