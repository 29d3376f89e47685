"""What is right is computed once for a round, outside this process; judging with it says what it always says."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ampcourse.exercises import check, private
from ampcourse.exercises.engine import Question, judge
from ampcourse.exercises.model import BrokenExercise
from ampcourse.exercises.observe import observe
from ampcourse.exercises.recorded import RecordedQuestion, recorded
from ampcourse.grading import reference_process, references
from ampcourse.grading.model import GradingError
from ampcourse.grading.rounds import Round, load_round

TROUBLE = """
import os, time
import numpy as np
from ampcourse.exercises.model import Exercise, Mistake

def _hangs(x):
    while True:
        try:
            time.sleep(0.05)
        except BaseException:
            pass

halve = Exercise(
    id="start_here.halve",
    inputs=lambda rng: {"numbers": (rng.normal(size=4),)},
    right=%s,
    points={"numbers": 1},
    mistakes=(
        Mistake(lambda x: x, "Halve it."),
        Mistake(lambda x: os._exit(3), "Do not go."),
        Mistake(_hangs, "Do not stay."),
        Mistake(lambda x: x * 2, "That is the double."),
    ),
)
EXERCISES = (halve,)
"""


@pytest.fixture(autouse=True)
def _only_given_afterwards() -> Iterator[None]:
    yield
    private.use(None)


@pytest.fixture
def round_(tmp_path: Path) -> Round:
    (tmp_path / "course é").mkdir()
    return load_round(tmp_path / "course é", "00_start_here")


@pytest.fixture
def ask(tmp_path: Path, round_: Round) -> Callable[..., tuple[RecordedQuestion, ...]]:
    """`ask(id)`: the questions of an exercise in this round."""

    def asked(name: str, **settings: object) -> tuple[RecordedQuestion, ...]:
        return references.questions(tmp_path / "course é", round_, [check.exercise(name)], **settings)[name]

    return asked


@pytest.fixture
def trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`trouble(right)`: an exercise whose known mistakes end their process or never end."""
    monkeypatch.setattr(check, "SECONDS", 0.5)
    monkeypatch.setattr(reference_process, "GRACE", 4.0)
    monkeypatch.setattr(references, "seeds_of", lambda exercise, round_: round_.seeds(exercise.id, 1))

    def use(right: str) -> None:
        folder = tmp_path / "private"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "answers").mkdir(parents=True)
        (folder / "answers" / "start_here.py").write_text(TROUBLE % right, "utf-8")
        private.use(folder)

    return use


def answers(name: str) -> list:
    exercise = check.exercise(name)
    return [exercise.right, lambda *a: a[0], lambda *a: 1 / 0, lambda *a: None, *(m.answer for m in exercise.mistakes)]


@pytest.mark.parametrize("name", ["fp16_range.ulp", "fp16_range.choose_format", "start_here.fraction_changed"])
def test_the_verdict_is_the_same_as_with_the_exercise_itself(name: str, ask: Callable, round_: Round) -> None:
    exercise, kept = check.exercise(name), ask(name)
    real = [Question(exercise, seed) for seed in round_.seeds(name, 3)]
    assert [q.packed for q in kept] == [q.packed for q in real]
    for travelled in (kept, pickle.loads(pickle.dumps(kept))):
        for answer in answers(name):
            seen = [observe(exercise.observer, q.packed, answer) for q in real]
            for reveal in (True, False):
                assert judge(travelled, seen, reveal=reveal) == judge(real, seen, reveal=reveal)


def test_a_recorded_exercise_is_plain_data() -> None:
    for lesson in check.lessons():
        for exercise in check.exercises(lesson):
            kept = pickle.loads(pickle.dumps(recorded(exercise)))
            assert not [value for value in vars(kept).values() if callable(value)]
            assert all(mistake.answer is None for mistake in kept.mistakes)
            assert kept.max_score == exercise.max_score
            assert kept.right_takes == exercise.right_takes
    assert "tensorflow" not in vars(references)


def test_it_is_computed_once(ask: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ask("start_here.megabytes")
    files = {p: p.read_bytes() for p in (tmp_path / "course é" / "grading" / "references").iterdir()}
    assert len(files) == 3

    def never(*_: object) -> None:
        pytest.fail("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(references, "answers_of", never)
        again = ask("start_here.megabytes")
        assert [q.packed for q in again] == [q.packed for q in first]
    for path in files:  # half a file, as after a full disk
        path.write_bytes(path.read_bytes()[:50])
    assert [q.packed for q in ask("start_here.megabytes")] == [q.packed for q in first]
    assert {p: p.read_bytes() for p in files} == files


def test_another_version_or_another_text_is_computed_anew(
    ask: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("start_here.megabytes")
    kept = tmp_path / "course é" / "grading" / "references"
    with monkeypatch.context() as patch:
        patch.setattr(references, "_version", lambda name: "99")
        ask("start_here.megabytes")
    assert len(list(kept.iterdir())) == 6
    ask("start_here.megabytes", gpu=True)
    assert len(list(kept.iterdir())) == 9


def test_a_broken_right_answer_is_named_and_nothing_is_kept(trouble: Callable, ask: Callable, tmp_path: Path) -> None:
    kept = tmp_path / "course é" / "grading" / "references"
    for right, says in (
        ("lambda x: x[17]", "start_here.halve, numbers: the right answer fails: IndexError"),
        ("lambda x: os._exit(7)", "start_here.halve: its right answer could not be observed: the process ended"),
        ("_hangs", "start_here.halve: its right answer could not be observed: no end after"),
    ):
        trouble(right)
        with pytest.raises(BrokenExercise, match=says.replace("(", r"\(")):
            ask("start_here.halve")
        assert not list(kept.iterdir())


def test_mistakes_that_hang_or_end_the_process_are_named_and_cost_nobody_anything(
    trouble: Callable, ask: Callable
) -> None:
    trouble("lambda x: x / 2")
    told: list[str] = []
    questions = ask("start_here.halve", tell=told.append)
    assert sum("known mistake 2 could not be observed: the process ended (exit code 3)" in t for t in told) == 1
    assert sum("known mistake 3 could not be observed: no end after" in t for t in told) == 1
    seen = {}
    for name, answer in {"right": lambda x: x / 2, "same": lambda x: x, "double": lambda x: x * 2}.items():
        seen[name] = judge(questions, [observe("call", q.packed, answer) for q in questions], reveal=False)
    assert seen["right"].score == 1
    assert seen["same"].says == ("Halve it.",)
    assert seen["double"].says == ("That is the double.",)
    assert judge(questions, [b""], reveal=False).says == (), "nothing looks like a mistake that was not seen"


def test_a_full_disk_or_a_file_in_the_way_is_one_sentence(
    ask: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(references, "write_atomically", full)
        with pytest.raises(GradingError, match="No space left on device"):
            ask("start_here.megabytes")
    (tmp_path / "course é" / "grading" / "references").rmdir()
    (tmp_path / "course é" / "grading" / "references").write_text("in the way", "utf-8")
    with pytest.raises(GradingError, match="cannot be used for what is right"):
        ask("start_here.megabytes")


def test_an_interrupt_ends_the_processes(ask: Callable, monkeypatch: pytest.MonkeyPatch, round_: Round) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(references, "as_completed", interrupted)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        ask("start_here.megabytes")
    assert threading.active_count() <= before + 1


def test_several_processes_compute_the_same(tmp_path: Path, round_: Round) -> None:
    exercises, root = list(check.exercises("start_here")), tmp_path / "course é"
    one = references.questions(root, round_, exercises)
    shutil.rmtree(root / "grading" / "references")
    two = references.questions(root, round_, exercises, jobs=2)
    for name, questions in one.items():
        for a, b in zip(questions, two[name], strict=True):
            assert a.packed == b.packed
            assert json.dumps(_plain(a.want)) == json.dumps(_plain(b.want))


def _plain(want: dict) -> dict:
    return {name: {k: np.asarray(v).tolist() for k, v in facts.items()} for name, facts in want.items()}


def test_whoever_grades_loads_neither_tensorflow_nor_answers() -> None:
    import subprocess

    code = (
        "import sys, ampcourse.grading.assignment, ampcourse.grading.references, ampcourse.grading.boxes;"
        "print([m for m in ('tensorflow', 'keras', 'jax', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
