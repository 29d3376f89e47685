"""What the questions of a grading round are and what is right: computed once, in processes of their own, and kept.

Right answers and known mistakes import TensorFlow and take their time; whoever grades does neither. What was observed
is kept below `grading/references/`, under a digest of everything that it depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ampcourse
from ampcourse.exercises import check, private
from ampcourse.exercises.model import BrokenExercise, Exercise
from ampcourse.exercises.recorded import RecordedQuestion, recorded, recorded_question
from ampcourse.grading.files import private_folder, write_atomically
from ampcourse.grading.model import GradingError
from ampcourse.grading.modules import folder, modules
from ampcourse.grading.reference_process import Task, answers_of
from ampcourse.grading.rounds import FOLDER, Round

_KEPT = "references"
_VERSIONS = ("numpy", "ml_dtypes", "tensorflow", "keras")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class _Wanted:
    """One question and the file that keeps it."""

    exercise: Exercise
    seed: int
    path: Path


def seeds_of(exercise: Exercise, round_: Round) -> tuple[int, ...]:
    """As many seeds as `check` asks, from the round's secret."""
    return round_.seeds(exercise.id, len(check.SEEDS[:2] if exercise.trains else check.SEEDS))


def questions(
    course_root: Path,
    round_: Round,
    exercises: Sequence[Exercise],
    jobs: int = 1,
    tell: Tell | None = None,
    gpu: bool = False,
) -> dict[str, tuple[RecordedQuestion, ...]]:
    """The questions of a round by exercise, with all that judging needs.

    Args:
        course_root: where they are kept.
        round_: draws the seeds.
        exercises: what is asked.
        jobs: processes at a time.
        tell: told what takes a while, and which known mistakes could not be observed.
        gpu: whether a GPU may be used, as for the submissions.

    Raises:
        BrokenExercise: if a right answer fails, or an exercise cannot be asked at all; its name is in the sentence.
        GradingError: if what was computed cannot be kept.
    """
    try:
        return _questions(Path(course_root), round_, exercises, max(1, jobs), tell, gpu)
    except OSError as error:
        where = error.filename or Path(course_root) / FOLDER / _KEPT
        raise GradingError(f"'{where}' cannot be used for what is right: {error.strerror or error}.") from None


def _questions(
    root: Path, round_: Round, exercises: Sequence[Exercise], jobs: int, tell: Tell | None, gpu: bool
) -> dict[str, tuple[RecordedQuestion, ...]]:
    kept = private_folder(private_folder(root / FOLDER) / _KEPT)
    wanted = [_Wanted(e, seed, kept / name) for e in exercises for seed, name in _names(e, seeds_of(e, round_), gpu)]
    missing = [one for one in wanted if _read(one) is None]
    if missing:
        names = list(dict.fromkeys(one.exercise.id for one in missing))
        _say(tell, f"Working out the right answers of {len(names)} exercises for this round ...")
        _compute(missing, jobs, tell, gpu)
    found: dict[str, list[RecordedQuestion]] = {}
    for one in wanted:
        question = _read(one)
        if question is None:
            raise BrokenExercise(f"{one.exercise.id}: what was computed of it cannot be read back from '{one.path}'")
        found.setdefault(one.exercise.id, []).append(question)
    return {name: tuple(of) for name, of in found.items()}


def _read(one: _Wanted) -> RecordedQuestion | None:
    """The question as it is kept; None if it is not, or the file is damaged."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, BrokenExercise):
        content = json.loads(one.path.read_bytes())
        looks = tuple(text.encode("ascii") for text in content["mistakes"])
        if len(looks) == len(one.exercise.mistakes):
            texts = (content[name].encode("ascii") for name in ("packed", "right"))
            return recorded_question(recorded(one.exercise), one.seed, *texts, looks)
    return None


def _compute(missing: Sequence[_Wanted], jobs: int, tell: Tell | None, gpu: bool) -> None:
    """Observe in up to `jobs` processes; each answer is kept as soon as it is there."""
    for one in missing:
        recorded(one.exercise)  # what cannot be asked at all shows before anything is started
    shares, stop = [share for i in range(jobs) if (share := list(missing[i::jobs]))], threading.Event()
    with ThreadPoolExecutor(len(shares)) as pool:
        running = [pool.submit(_compute_share, share, tell, gpu, stop) for share in shares]
        try:
            for done in as_completed(running):
                done.result()
        finally:
            stop.set()


def _compute_share(share: Sequence[_Wanted], tell: Tell | None, gpu: bool, stop: threading.Event) -> None:
    tasks = [Task(one.exercise.id, one.seed, len(one.exercise.mistakes), one.exercise.trains) for one in share]
    with contextlib.closing(answers_of(tasks, private.folder(), gpu, stop)) as answers:
        for one, answer in zip(share, answers, strict=False):
            if answer.broken:
                raise BrokenExercise(answer.broken)
            looks = tuple(text.encode("ascii") for text in answer.mistakes)
            recorded_question(recorded(one.exercise), one.seed, answer.packed.encode(), answer.right.encode(), looks)
            for sentence in answer.notes:
                _say(tell, sentence)
            content = {"packed": answer.packed, "right": answer.right, "mistakes": list(answer.mistakes)}
            write_atomically(one.path, json.dumps(content).encode("ascii"))


def _say(tell: Tell | None, sentence: str) -> None:
    if tell is not None:
        tell(sentence)


def _names(exercise: Exercise, seeds: Sequence[int], gpu: bool) -> list[tuple[int, str]]:
    """Each seed with the name of the file that keeps its question: another one whenever what it came from changes."""
    total = hashlib.sha256(json.dumps([exercise.id, gpu, *_versions()]).encode("utf-8"))
    for name, content in _sources(exercise):
        total.update(f"\n{name} {len(content)}\n".encode())
        total.update(content)
    basis = total.hexdigest()
    return [(seed, f"{hashlib.sha256(f'{basis} {seed}'.encode()).hexdigest()[:40]}.json") for seed in seeds]


def _versions() -> list[str]:
    return [ampcourse.__version__, platform.python_version(), platform.machine(), *map(_version, _VERSIONS)]


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _sources(exercise: Exercise) -> Iterator[tuple[str, bytes]]:
    """The text of an exercise's module, of the observers and of all that these import."""
    home = getattr(exercise.inputs, "__module__", "")
    roots = {name for name in modules() if name == home or name.startswith(("ampcourse.exercises.observers",))}
    if home in modules():  # a lesson's answers help each other
        roots |= {name for name in modules() if name.startswith(f"ampcourse.exercises.answers.{exercise.lesson}")}
    else:
        roots |= {name for name in modules() if not name.startswith(("ampcourse.grading", "ampcourse.commands"))}
        yield from _private_files()
    for name in sorted(_closure(roots | {"ampcourse.exercises.engine"})):
        path = folder() / modules()[name].path
        yield name, path.read_bytes()
        if modules()[name].package:
            yield from ((f.name, f.read_bytes()) for f in sorted(path.parent.glob("*.gz")))


def _closure(roots: set[str]) -> set[str]:
    found, waiting = set(), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += modules()[name].needs
    return found


def _private_files() -> Iterator[tuple[str, bytes]]:
    root = private.folder()
    for path in sorted(root.rglob("*")) if root is not None else ():
        if path.is_file() and (path.suffix == ".py" or path.name == private.KEY):
            yield str(path.relative_to(root)), path.read_bytes()


def judging_sources() -> Iterator[tuple[str, Any]]:
    """The text of everything that turns an answer into points, for an assignment's digest."""
    judging = ("ampcourse.exercises", "ampcourse.grading.document", "ampcourse.grading.submission")
    answers = "ampcourse.exercises.answers"
    for name, module in sorted(modules().items()):
        if name.startswith(judging) and not name.startswith(answers):
            yield name, (folder() / module.path).read_bytes()
