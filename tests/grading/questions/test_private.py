"""A private folder of exercises: merged by id, varied by a key, and one sentence for whatever is wrong."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import numpy as np
import pytest
from click.testing import CliRunner

from ampcourse.commands.vary import vary
from ampcourse.course import UserError, course_root
from ampcourse.exercises import check, observers, private
from ampcourse.exercises.engine import Question, check_once
from ampcourse.exercises.private import PrivateError
from ampcourse.grading.assignment import make_assignment
from ampcourse.grading.boxes import make_box
from ampcourse.grading.variants import vary_course

EXAMPLE = Path(__file__).parent / "private_example"
HALVE = """
from ampcourse.exercises.model import Exercise, Mistake
from ampcourse.exercises.observers.{observer} import look
{extra}
halve = Exercise(
    id="{id}",
    inputs=lambda rng: {{"numbers": (rng.normal(size=4),)}},
    right=lambda x: x / 2,
    points={{"numbers": {points}}},
    observer=look,
    mistakes=(Mistake(lambda x: x, "Halve it."),),
)
EXERCISES = (halve,)
"""
LOOK = "def look(answer, x):\n    return {'seen': answer(x)}\n"


@pytest.fixture(autouse=True)
def _only_given_afterwards() -> Iterator[None]:
    yield
    private.use(None)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """`folder(id=..., points=..., extra=...)`: a private folder with one exercise and an observer of its own."""

    def make(id: str = "start_here.halve", points: int = 1, extra: str = "", observer: str = "ours") -> Path:
        made = tmp_path / "my exercises é"
        shutil.rmtree(made, ignore_errors=True)
        (made / "answers").mkdir(parents=True)
        (made / "observers").mkdir()
        (made / "observers" / f"{observer}.py").write_text(LOOK, "utf-8")
        text = HALVE.format(id=id, points=points, extra=extra, observer=observer)
        (made / "answers" / f"{id.partition('.')[0]}.py").write_text(text, "utf-8")
        return made

    return make


def with_key(tmp_path: Path, key: str) -> Path:
    made = tmp_path / f"class {key}"
    shutil.copytree(EXAMPLE, made, ignore=shutil.ignore_patterns("__pycache__"))
    (made / "course_key").write_text(key + "\n", "utf-8")
    return made


def test_new_ids_join_their_lesson_and_the_same_id_takes_a_given_ones_place(folder: Callable[..., Path]) -> None:
    given = [e.id for e in check.exercises("start_here")]
    with private.using(folder()):
        assert [e.id for e in check.exercises("start_here")] == [*given, "start_here.halve"]
        assert check_once(check.exercise("start_here.halve"), lambda x: x * 0.5).outcome == "right"
        assert check_once(check.exercise("start_here.halve"), lambda x: x).says == ("Halve it.",)
    assert [e.id for e in check.exercises("start_here")] == given
    with private.using(folder(id="start_here.megabytes", points=5)):
        assert [e.id for e in check.exercises("start_here")] == given
        assert check.exercise("start_here.megabytes").max_score == 5
    assert check.exercise("start_here.megabytes").max_score != 5
    with private.using(folder(id="my_lesson.halve")):
        assert "my_lesson" in check.lessons()
    assert "my_lesson" not in check.lessons()


def test_observers_of_its_own_are_found_and_forgotten(folder: Callable[..., Path]) -> None:
    private.use(folder())
    assert "ampcourse.exercises.observers.ours" in sys.modules
    private.use(None)
    assert "ampcourse.exercises.observers.ours" not in sys.modules
    assert not hasattr(observers, "ours")
    assert len(observers.__path__) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: shutil.rmtree(f), "is no folder"),
        (lambda f: shutil.rmtree(f / "answers"), "has no folder 'answers'"),
        (lambda f: (f / "answers" / "start_here.py").write_text("def ("), "start_here.py' cannot be used (SyntaxError"),
        (lambda f: (f / "answers" / "start_here.py").write_text("1 / 0"), "ZeroDivisionError"),
        (lambda f: (f / "answers" / "start_here.py").write_text("import nowhere_to_be_found"), "nowhere_to_be_found"),
        (lambda f: (f / "answers" / "start_here.py").write_text("raise SystemExit(3)"), "SystemExit"),
        (lambda f: (f / "answers" / "start_here.py").write_text("X = 1"), "has no tuple EXERCISES"),
        (lambda f: (f / "answers" / "start_here.py").write_text("EXERCISES = 3"), "EXERCISES is no tuple"),
        (lambda f: (f / "answers" / "start_here.py").write_text("EXERCISES = (3,)"), "holds int, not an Exercise"),
        (lambda f: (f / "answers" / "01_start.py").write_text("EXERCISES = ()"), "is not named after a lesson"),
        (lambda f: (f / "observers" / "resnet.py").write_text(LOOK), "the name of an observer of the course"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_the_given_exercises_stay(
    folder: Callable[..., Path], change: Callable[[Path], object], says: str
) -> None:
    made = folder()
    change(made)
    with pytest.raises(PrivateError) as caught:
        private.use(made)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert private.folder() is None
    assert "start_here.halve" not in [e.id for e in check.exercises("start_here")]


def test_an_id_of_another_lesson_is_refused(folder: Callable[..., Path]) -> None:
    made = folder(id="vit.halve")
    (made / "answers" / "vit.py").rename(made / "answers" / "resnet.py")
    with pytest.raises(PrivateError, match="does not begin with 'resnet.'"):
        private.use(made)


def test_the_course_key_decides_and_nothing_else(tmp_path: Path) -> None:
    def drawn(key: str, name: str = "x") -> list[int]:
        with private.using(with_key(tmp_path / f"{key} {name} {np.random.default_rng().integers(2**60)}", key)):
            return private.variation(name).integers(0, 1000, 4).tolist()

    assert drawn("a") == drawn("a")
    assert drawn("a") != drawn("b")
    assert drawn("a") != drawn("a", "y")
    with pytest.raises(PrivateError, match="No private folder"):
        private.course_key()


def test_a_missing_or_empty_key_is_one_sentence(tmp_path: Path) -> None:
    made = with_key(tmp_path, "a")
    (made / "course_key").write_text(" \n", "utf-8")
    with pytest.raises(PrivateError, match="course_key' is empty"):
        private.use(made)
    (made / "course_key").unlink()
    with pytest.raises(PrivateError, match="course_key' cannot be read"):
        private.use(made)


def test_the_worked_example_is_right_whatever_the_key(tmp_path: Path) -> None:
    splits = set()
    for key in "abcdefgh":
        private.use(with_key(tmp_path, key))
        exercise = check.exercise("fp16_range.decode_ours")
        splits.add(private.texts("fp16_range")["decode-task"])
        for answer in (exercise.right, *exercise.also_right):
            assert check_once(exercise, answer, 7).outcome == "right"
        for mistake in exercise.mistakes:
            verdict = check_once(exercise, mistake.answer, 7)
            assert verdict.score < verdict.max_score
            assert any(mistake.says in says for says in verdict.says)
        one, other = Question(exercise, 0).want, Question(exercise, 1).want
        assert all(not np.array_equal(one[n]["value"], other[n]["value"], equal_nan=True) for n in exercise.points)
        private.use(None)
    assert len(splits) > 1, "classes differ"


def test_a_course_is_varied_once_and_asked_what_its_class_reads(tmp_path: Path) -> None:
    root = tmp_path / "course é"
    shutil.copytree(course_root() / "source" / "01_fp16_range", root / "source" / "01_fp16_range")
    shutil.copy(course_root() / "course.toml", root)
    changed = vary_course(root, EXAMPLE)
    assert [path.name for path in changed] == ["01_fp16_range.ipynb"]
    assert vary_course(root, EXAMPLE) == []
    notebook = nbformat.read(changed[0], as_version=4)
    nbformat.validate(notebook)
    assert "decode_ours" in next(cell.source for cell in notebook.cells if cell.id == "decode-check")
    assignment = make_assignment(root, "01_fp16_range", exercises_dir=EXAMPLE)
    assert "fp16_range.decode_ours" in assignment.asked
    assert "fp16_range.decode" not in assignment.asked
    assert "ampcourse.numerics.formats" in assignment.box.withheld
    assert private.folder() is None
    text = b"".join(assignment.box.package.values()).decode()
    assert "EXPONENT_BITS" not in text
    assert "decode_ours" not in text


def test_texts_for_a_cell_that_is_not_there_change_nothing(folder: Callable[..., Path], tmp_path: Path) -> None:
    made = folder(extra='TEXTS = {"no-such-cell": "x"}')
    root = tmp_path / "course"
    shutil.copytree(course_root() / "source" / "00_start_here", root / "source" / "00_start_here")
    before = (root / "source" / "00_start_here" / "00_start_here.ipynb").read_bytes()
    with pytest.raises(PrivateError, match="names 'no-such-cell'"):
        vary_course(root, made)
    assert (root / "source" / "00_start_here" / "00_start_here.ipynb").read_bytes() == before


def test_the_students_process_finds_the_private_observers(folder: Callable[..., Path]) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import numpy as np")])
    box = make_box("00_start_here", notebook, folder())
    assert box.package["exercises/observers/ours.py"] == LOOK.encode()
    assert not [path for path in box.package if "answers" in path]


def test_the_command_says_what_it_changed_and_what_is_wrong(tmp_path: Path) -> None:
    root = tmp_path / "course é"
    shutil.copytree(course_root() / "source" / "01_fp16_range", root / "source" / "01_fp16_range")
    run = CliRunner().invoke
    done = run(vary, [str(EXAMPLE), "--course", str(root)], standalone_mode=False)
    assert "01_fp16_range.ipynb" in done.output
    assert "1 changed: release them anew." in done.output
    again = run(vary, [str(EXAMPLE), "--course", str(root)], standalone_mode=False)
    assert again.output == "Nothing to change: the notebooks say it already.\n"
    for folder, course, says in ((EXAMPLE, tmp_path, "no folder 'source'"), (tmp_path, root, "no folder 'answers'")):
        wrong = run(vary, [str(folder), "--course", str(course)], standalone_mode=False)
        assert isinstance(wrong.exception, UserError)
        assert says in str(wrong.exception)
