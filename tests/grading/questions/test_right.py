"""A lesson's own solutions, run with nothing of the course but the box: every answer is there and right."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest

from ampcourse.exercises.check import exercise
from ampcourse.exercises.engine import Question, judge
from ampcourse.exercises.recorded import observer_name
from ampcourse.grading.boxes import checked
from ampcourse.grading.cells import PARAMETERS, about, checked_exercise, graded_parameters, tags
from ampcourse.grading.withhold import placed, runs_instead

from .conftest import EACH, box_of, source_of

SEED = 20_260_101


def cells_of(slug: str) -> list[str]:
    """What is run of a lesson's source when it is handed in as it is."""
    texts, instead = [], runs_instead(source_of(slug), box_of(slug).withheld)
    for cell in source_of(slug).cells:
        if cell.cell_type != "code" or about(cell).get("grade"):
            continue
        text = graded_parameters(cell.source) if PARAMETERS in tags(cell) else cell.source
        texts.append(text if about(cell).get("solution") else placed(instead, text))
    return texts


def answers_in(slug: str) -> dict[str, str]:
    """The expression that each check cell passes on, by exercise."""
    found = {}
    for cell in source_of(slug).cells:
        if cell.cell_type == "code" and about(cell).get("grade") and (name := checked_exercise(cell.source)):
            found[name] = ast.unparse(ast.parse(cell.source).body[0].value.args[1])  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("slug", EACH)
def test_the_sources_own_answers_are_right_in_the_box(slug: str, inside: Callable[..., Any]) -> None:
    questions = {name: Question(exercise(name), SEED) for name in checked(source_of(slug))}
    asked = {
        name: {
            "observer": observer_name(question.exercise),
            "packed": question.packed.decode("ascii"),
            "answer": answers_in(slug)[name],
        }
        for name, question in questions.items()
    }
    done = inside(box_of(slug), "run", cells=cells_of(slug), asked=asked)
    assert not done["errors"], "a given cell or a solution failed"
    verdicts = {name: judge([q], [done["seen"][name].encode("ascii")], reveal=False) for name, q in questions.items()}
    wrong = {name: verdict for name, verdict in verdicts.items() if verdict.score != verdict.max_score}
    assert not wrong
