"""What a lesson calls: `check` an answer and `hint`. Answers are imported only when an exercise is asked for.

A learner's slip (an unknown id, brackets too many) gives one sentence and 0.0, never a traceback.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import os
import pkgutil
from collections.abc import Mapping
from typing import Any

from ampcourse.course import UserError
from ampcourse.exercises import progress, view
from ampcourse.exercises.compare import read
from ampcourse.exercises.engine import Question, judge, to_ask
from ampcourse.exercises.model import BrokenExercise, Exercise, Verdict
from ampcourse.exercises.observe import observe
from ampcourse.exercises.observers import call
from ampcourse.quiet import quietly

SEEDS = (0, 1, 2)
SECONDS, SECONDS_TRAINING = 30.0, 300.0
"""Time limits for observing one seed in self-study."""

_ANSWERS = "ampcourse.exercises.answers"
_MISSING = object()
_added: dict[str, tuple[Exercise, ...]] = {}


class ExerciseError(UserError):
    """A check or hint was called with something that cannot be checked."""


def check(exercise_id: Any = _MISSING, answer: Any = _MISSING, *more: Any) -> float:
    """Check an answer, show the verdict, remember progress.

    Args:
        exercise_id: such as "fp16_range.ulp".
        answer: the function (or class) that you wrote, without brackets.

    Returns:
        The points earned, from 0.0 to the exercise's points: the number that nbgrader reads.

    Raises:
        BrokenExercise: if the exercise itself is at fault; nobody's score may be written.
    """
    try:
        with quietly():
            wanted = _asked(exercise_id, answer, more)
            verdict = _verdict(wanted, answer)
    except ExerciseError as error:
        view.show_sentence(str(error))
        return 0.0
    if not grading():
        progress.store_verdict(wanted.id, verdict)
    view.show_verdict(
        wanted, verdict, hints_left=0 if grading() else len(wanted.hints) - progress.hints_shown(wanted.id)
    )
    return verdict.score


def hint(exercise_id: Any = _MISSING) -> None:
    """Show the next hint of an exercise; after the last, all of them again."""
    try:
        with quietly():
            wanted = exercise("" if exercise_id is _MISSING else exercise_id)
    except ExerciseError as error:
        view.show_sentence(str(error))
        return
    if grading():
        view.show_sentence("Hints are switched off while grading.")
        return
    shown = progress.hints_shown(wanted.id)
    view.show_hint(wanted, shown)
    if shown < len(wanted.hints):
        progress.store_hint(wanted.id, shown + 1, wanted.max_score)


def grading() -> bool:
    """Whether this runs for a grade: no hints, no progress, no right values shown."""
    return os.environ.get("AMPCOURSE_PROFILE") == "grade"


def exercise(exercise_id: str) -> Exercise:
    """The exercise with this id.

    Raises:
        ExerciseError: if there is none; the sentence names what comes close.
    """
    if not isinstance(exercise_id, str) or "." not in exercise_id:
        raise ExerciseError('Say which exercise, in quotes and with its lesson, such as "fp16_range.ulp".')
    lesson = exercise_id.partition(".")[0]
    known = {e.id: e for e in exercises(lesson)}
    if exercise_id not in known:
        near = difflib.get_close_matches(exercise_id, known, 3, 0.5) or list(known)
        raise ExerciseError(f"There is no exercise '{view.clean(exercise_id, 60)}': did you mean {_listed(near)}?")
    return known[exercise_id]


def exercises(lesson: str) -> tuple[Exercise, ...]:
    """The exercises of a lesson (its name without the number), in order.

    Raises:
        ExerciseError: if the lesson has no answers module here.
        BrokenExercise: if the module is there but cannot be used.
    """
    if lesson not in lessons():
        near = difflib.get_close_matches(lesson, lessons(), 3, 0.5) or lessons()
        meant = f"did you mean {_listed(near)}?" if near else "no lesson's answers are installed here."
        raise ExerciseError(f"There are no exercises of a lesson '{view.clean(lesson, 60)}': {meant}")
    return _load(lesson)


@functools.cache
def _load(lesson: str) -> tuple[Exercise, ...]:
    added = {e.id: e for e in _added.get(lesson, ())}
    if lesson not in _given():
        return tuple(added.values())
    try:
        found = tuple(importlib.import_module(f"{_ANSWERS}.{lesson}").EXERCISES)
    except Exception as error:
        raise BrokenExercise(
            f"The answers of '{lesson}' cannot be loaded ({type(error).__name__}: {error})."
        ) from error
    names = [e.id for e in found]
    if strange := [n for n in names if names.count(n) > 1 or not n.startswith(f"{lesson}.")]:
        raise BrokenExercise(f"The answers of '{lesson}' hold '{strange[0]}' twice, or by mistake.")
    return (*(added.pop(e.id, e) for e in found), *added.values())


def lessons() -> list[str]:
    """The lessons that have answers here; none where answers are not installed, as when observing for a grade."""
    return sorted({*_given(), *_added})


def add_exercises(added: Mapping[str, tuple[Exercise, ...]]) -> None:
    """Let these count too, by lesson, instead of those added before; the same id takes a given one's place."""
    _added.clear()
    _added.update(added)
    forget()


def _given() -> list[str]:
    try:
        package = importlib.import_module(_ANSWERS)
    except ImportError:
        return []
    return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))


def forget() -> None:
    """Forget the exercises and questions kept so far, so that changed answers are read anew."""
    _load.cache_clear()
    _question.cache_clear()


def _listed(names: list[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _asked(exercise_id: Any, answer: Any, more: tuple) -> Exercise:
    """The exercise, once what was passed can be an answer to it.

    Raises:
        ExerciseError: if it cannot; the sentence says what to pass.
    """
    if callable(exercise_id) and isinstance(answer, str):
        raise ExerciseError(f'The other way round: check("{view.clean(answer, 60)}", your_function).')
    wanted = exercise(exercise_id)
    name = wanted.id.partition(".")[2]
    usage = f'check("{wanted.id}", {name})'
    if answer is _MISSING:
        raise ExerciseError(f"What you wrote is missing: {usage}.")
    if more:
        raise ExerciseError(f"One answer at a time: {usage}.")
    kind = type(answer)  # asked of the type alone: an object may raise when it is looked at
    if isinstance(wanted.right, type):
        if not callable(answer):
            raise ExerciseError(f"Pass the class itself, not an object made from it: {usage}.")
    elif callable(wanted.right):
        if issubclass(kind, str):
            raise ExerciseError(f"Pass the function itself, without quotes: {usage}.")
        if not callable(answer):
            what = "nothing (None)" if answer is None else f"a value ({kind.__name__})"
            raise ExerciseError(f"You passed {what}, not the function itself: leave the brackets away, {usage}.")
        if issubclass(kind, type) and wanted.observer is call:
            raise ExerciseError(f"You passed the class {answer.__name__}, but a function is asked for: {usage}.")
    return wanted


@functools.cache
def _question(exercise_id: str, seed: int) -> Question:
    return Question(exercise(exercise_id), seed)


def _verdict(wanted: Exercise, answer: Any) -> Verdict:
    seconds = SECONDS_TRAINING if wanted.trains else SECONDS
    questions, observations, late = [], [], frozenset()
    for seed in SEEDS[:2] if wanted.trains else SEEDS:
        question = _question(wanted.id, seed)
        question.want  # noqa: B018 a broken reference shows before the learner's code runs
        if not (packed := to_ask(question, late)):
            break
        questions.append(question)
        observations.append(observe(wanted.observer, packed, answer, seconds))
        late |= read(observations[-1]).timed_out

    def observe_again(packed: bytes) -> bytes:
        return observe(wanted.observer, packed, answer, 1.0)

    return judge(questions, observations, None if wanted.trains else observe_again, reveal=not grading())
