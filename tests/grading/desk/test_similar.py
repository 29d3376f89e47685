"""Copies are found whatever was renamed and reformatted; honest answers, short ones and given code are not."""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ampcourse.commands.similar import THRESHOLD as TYPED
from ampcourse.commands.similar import similar as command
from ampcourse.course import course_root
from ampcourse.grading.cells import BEGIN, END
from ampcourse.grading.desk.published import published
from ampcourse.grading.desk.similar import PUBLISHED, THRESHOLD, Likeness, similar
from ampcourse.grading.desk.tokens import code_tokens, prose_tokens
from ampcourse.grading.model import GradingError

LESSON = "01_fp16_range"
Answers = dict[str, str]


class Class:
    """A course directory with one real lesson, and students who hand in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for step in ("source", "release"):
            shutil.copytree(course_root() / step / LESSON, root / step / LESSON)
        shutil.copy(course_root() / "nbgrader_config.py", root)
        self.release = json.loads((root / "release" / LESSON / f"{LESSON}.ipynb").read_text("utf-8"))
        source = json.loads((root / "source" / LESSON / f"{LESSON}.ipynb").read_text("utf-8"))
        self.solutions = {
            cell["metadata"]["nbgrader"]["grade_id"]: "".join(
                line for line in cell["source"] if BEGIN not in line and END not in line
            )
            for cell in source["cells"]
            if cell["metadata"].get("nbgrader", {}).get("solution")
        }

    def hand_in(self, student: str, answers: Answers, change: Callable[[dict], Any] = lambda data: data) -> None:
        data = json.loads(json.dumps(self.release))
        for cell in data["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id")
            cell["source"] = answers.get(name, cell["source"])
        data = change(data)
        folder = self.root / "submitted" / student / LESSON
        folder.mkdir(parents=True)
        (folder / f"{LESSON}.ipynb").write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())

    def found(self, threshold: float = THRESHOLD) -> Likeness:
        return similar(self.root, LESSON, threshold)


@pytest.fixture
def lesson(tmp_path: Path) -> Class:
    return Class(tmp_path / "kurs für alle")


class Renamed(ast.NodeTransformer):
    """Gives every variable that is not built in or imported another name."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        keep = {"np", "LIMITS", "ulp", "to_float16", "half"} | set(dir(__builtins__)) | set(__builtins__)
        return node if node.id in keep else ast.Name(f"my_{node.id}_{len(node.id)}", node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(f"my_{node.arg}_{len(node.arg)}")


def disguised(text: str) -> str:
    """The same code with other names, another layout, and comments in place of the docstring."""
    tree = Renamed().visit(ast.parse(text))
    function = tree.body[0]
    function.body = function.body[1:]  # the docstring
    lines = ast.unparse(tree).split("\n")
    return "\n\n".join(f"{line}   # my own idea" for line in lines)


def own_answers(seed: int) -> Answers:
    """Answers that nobody else has: the shape of each is drawn."""
    rng = random.Random(seed)

    def expression(depth: int) -> str:
        if depth == 0:
            return rng.choice(["x", "t0", str(rng.randrange(99)), f"2.0 ** {rng.randrange(-20, 20)}"])
        call = rng.choice(
            ["np.where({0} > 0, {1}, {0})", "({0} + {1})", "np.abs({0})", "({0} & {1})", "np.floor({0} / {1})"]
        )
        return call.format(expression(depth - 1), expression(depth - 1))

    def body() -> str:
        return "\n".join(f"    t{n} = {expression(rng.randrange(1, 4))}" for n in range(rng.randrange(3, 8)))

    names = ("decode", "ulp", "to_float16", "swamped", "safe_mean", "choose_format")
    words = ["range", "precision", "gradient", "overflow", "because", "loses", "format", "bits", "scale", "never"]
    prose = " ".join(rng.choice(words) for _ in range(80))
    return {name: f"def {name}(x):\n{body()}\n    return t0" for name in names} | {"question-answer": prose}


def test_a_disguised_copy_is_found(lesson: Class) -> None:
    for seed in range(6):
        lesson.hand_in(f"honest{seed}", own_answers(seed))
    original = own_answers(77)
    copy = {
        name: disguised("\n".join([text.split("\n")[0], "    '''Doc.'''", *text.split("\n")[1:]]))
        for name, text in original.items()
        if name != "question-answer"
    }
    lesson.hand_in("eve", copy | {"question-answer": own_answers(78)["question-answer"]})
    lesson.hand_in("mallory", original)
    found = lesson.found()
    assert [(pair.one, pair.other) for pair in found.pairs] == [("eve", "mallory")]
    assert found.pairs[0].score > THRESHOLD and dict(found.pairs[0].cells)["decode"] == 1.0
    assert "question-answer" not in dict(found.pairs[0].cells)
    assert found.published == () and found.compared == 8


def test_given_code_and_untouched_answers_do_not_count(lesson: Class) -> None:
    for student in ("ada", "bob", "cyd"):
        lesson.hand_in(student, {})
    assert lesson.found(0.5) == Likeness(LESSON, 0.5, 3, short=("swamped",))


def test_known_ways_to_answer_are_not_alike(lesson: Class) -> None:
    """People who solve the exercises each in their own, known way."""
    import nbformat

    source = nbformat.read(lesson.root / "source" / LESSON / f"{LESSON}.ipynb", as_version=4)
    texts = published(source)
    assert all(len(texts[name]) >= 3 for name in lesson.solutions if name != "question-answer")
    for way in range(3):
        answers = {name: known[way] for name, known in texts.items() if way < len(known)}
        lesson.hand_in(f"way{way}", answers | {"question-answer": own_answers(way)["question-answer"]})
    assert lesson.found().pairs == ()


def test_the_published_solutions_are_recognised(lesson: Class) -> None:
    lesson.hand_in("copied", lesson.solutions)
    lesson.hand_in("own", own_answers(1))
    found = lesson.found()
    assert [(pair.one, pair.other, pair.score) for pair in found.published] == [("copied", PUBLISHED, 1.0)]
    assert found.pairs == ()
    assert "question-answer" in dict(found.published[0].cells)


def test_a_known_alternative_is_recognised_too(lesson: Class) -> None:
    import nbformat

    texts = published(nbformat.read(lesson.root / "source" / LESSON / f"{LESSON}.ipynb", as_version=4))
    lesson.hand_in("copied", {name: known[-1] for name, known in texts.items() if name != "question-answer"})
    assert [pair.one for pair in lesson.found().published] == ["copied"]


def test_a_copied_written_answer_is_found_alone(lesson: Class) -> None:
    text = own_answers(5)["question-answer"]
    lesson.hand_in("ada", own_answers(1) | {"question-answer": text})
    lesson.hand_in("bob", own_answers(2) | {"question-answer": f"**{text.upper()}**\n"})
    (pair,) = lesson.found().pairs
    assert pair.cells == (("question-answer", 1.0),) and pair.score < THRESHOLD


def test_short_answers_tell_nothing(lesson: Class) -> None:
    short = {name: text for name, text in lesson.solutions.items() if name in ("swamped", "ulp")}
    for student in ("ada", "bob"):
        lesson.hand_in(student, short | {"question-answer": "bfloat16, because of its range"})
    found = lesson.found()
    assert found.pairs == found.published == () and found.short == ("swamped",)
    assert "Too short to tell anything" in found.remark and "'swamped'" in found.remark


def test_lost_metadata_does_not_hide_a_copy(lesson: Class) -> None:
    def bare(data: dict) -> dict:
        return {"cells": [{k: cell[k] for k in ("cell_type", "source")} for cell in data["cells"]]}

    lesson.hand_in("ada", own_answers(1))
    lesson.hand_in("bob", own_answers(1), bare)
    assert [(pair.one, pair.other, pair.score) for pair in lesson.found().pairs] == [("ada", "bob", 1.0)]


def test_unreadable_and_missing_submissions_are_listed_and_disturb_nobody(lesson: Class) -> None:
    lesson.hand_in("ada", own_answers(1))
    lesson.hand_in("bob", own_answers(1))
    lesson.hand_in("cut", {}, lambda data: json.dumps(data).encode()[:5000])
    (lesson.root / "submitted" / "none" / LESSON).mkdir(parents=True)
    (lesson.root / "submitted" / "link").symlink_to("ada")
    found = lesson.found()
    assert found.compared == 2 and len(found.pairs) == 1
    assert [student for student, _ in found.unreadable] == ["cut", "link"]
    assert "cut off" in found.unreadable[0][1] and "link" in found.unreadable[1][1]


def test_the_command_says_it_in_words_and_as_json(lesson: Class) -> None:
    for student in ("ada", "bob"):
        lesson.hand_in(student, own_answers(1))
    lesson.hand_in("cut", {}, lambda _: b"")
    arguments = [LESSON, "--course", str(lesson.root)]
    words = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert words.exception is None and words.return_value == 0
    assert "2 submissions of 01_fp16_range compared." in words.output
    assert "ada and bob: 100% of" in words.output and "cut could not be compared. The file is empty." in words.output
    data = json.loads(CliRunner().invoke(command, [*arguments, "--json"], standalone_mode=False).output)
    assert data["pairs"][0]["one"] == "ada" and data["threshold"] == THRESHOLD == TYPED and data["remark"]


@pytest.mark.parametrize("threshold", ["0.3", "1.1", "nan", "many"])
def test_a_threshold_out_of_range_is_a_usage_error(threshold: str) -> None:
    assert CliRunner().invoke(command, [LESSON, "--threshold", threshold]).exit_code == 2


def test_no_such_lesson_is_one_sentence(lesson: Class) -> None:
    with pytest.raises(GradingError, match="holds no notebook"):
        similar(lesson.root, "99_nothing")
    with pytest.raises(GradingError, match="is not a folder"):
        similar(lesson.root / "nowhere", LESSON)


STUB = 'def f(x):\n    """Doc."""\n    # YOUR CODE HERE\n    raise NotImplementedError()'


def test_what_tokens_are_left() -> None:
    assert code_tokens(STUB, STUB) == []
    answer = code_tokens("def f(value):\n    'Other.'\n    total = value.sum(axis=0)  # why\n    return total", STUB)
    assert answer == code_tokens("def f(v):\n    t = (\n        v.sum(axis=(0))\n    )\n\n    return (t)", STUB)
    assert answer == ["name", "=", "name", ".", "sum", "(", "axis", "=", "0", ")", "return", "name"]
    assert code_tokens("import math\n\ndef f(x):\n    return 1", STUB) == ["import", "math", "return", "1"]
    assert prose_tokens("YOUR ANSWER HERE", "YOUR ANSWER HERE") == []
    assert prose_tokens("It *is* so.", "YOUR ANSWER HERE") == ["it", "is", "so"]


@given(st.text(), st.text())
def test_any_text_has_tokens(text: str, stub: str) -> None:
    assert all(isinstance(token, str) for token in code_tokens(text, stub) + prose_tokens(text, stub))


@pytest.mark.full
def test_a_thousand_submissions_in_a_minute(lesson: Class) -> None:
    for seed in range(1000):
        lesson.hand_in(f"s{seed:04}", own_answers(seed))
    lesson.hand_in("copy", own_answers(500))
    start = time.perf_counter()
    found = lesson.found()
    assert time.perf_counter() - start < 60 * float(os.environ.get("AMPCOURSE_PATIENCE", "1"))
    assert [(pair.one, pair.other) for pair in found.pairs] == [("copy", "s0500")]
