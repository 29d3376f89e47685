"""How a source notebook is built, for every lesson: what a learner, nbgrader and a screen reader rely on."""

from __future__ import annotations

import itertools
import re
from typing import Any

import nbformat
import pytest

from ampcourse.course import load_course
from ampcourse.exercises.check import exercises
from ampcourse.grading.cells import about, checked_exercise, tags

COURSE = load_course()
LINES = 15
_HEADING = re.compile(r"^(#{1,6}) +\S", re.MULTILINE)
_CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CHECK = re.compile(r'check\("([a-z0-9_]+\.[a-z0-9_]+)", ([A-Za-z_]\w*)\)')


@pytest.fixture(params=COURSE.lessons, ids=lambda lesson: lesson.slug)
def lesson(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def cells(lesson: Any) -> list[Any]:
    return nbformat.read(COURSE.source(lesson), as_version=4).cells


def code(cells: list[Any]) -> list[Any]:
    return [cell for cell in cells if cell.cell_type == "code"]


def markdown(cells: list[Any]) -> list[Any]:
    return [cell for cell in cells if cell.cell_type == "markdown"]


def test_the_first_code_cell_holds_the_parameters(cells: list[Any]) -> None:
    assert [cell.id for cell in cells if "parameters" in tags(cell)] == [code(cells)[0].id]
    values: dict[str, Any] = {}
    exec(code(cells)[0].source, values)
    assert (values["profile"], values["seed"]) == ("cpu", 0)


def test_ids_are_unique_and_cells_are_short(cells: list[Any]) -> None:
    ids = [cell.id for cell in cells]
    assert len(set(ids)) == len(ids)
    given = [cell for cell in code(cells) if not about(cell).get("solution")]
    assert not {cell.id: n for cell in given if (n := len(cell.source.splitlines())) > LINES}


def test_a_check_cell_is_one_call_directly_after_its_answer(cells: list[Any]) -> None:
    for before, cell in itertools.pairwise(cells):
        if cell.cell_type == "code" and about(cell).get("grade"):
            match = _CHECK.fullmatch(cell.source)
            assert match, f"{cell.id}: {cell.source!r}"
            assert about(before).get("solution"), f"{cell.id} does not follow an answer cell"
            assert re.search(rf"^(def|class) {match[2]}\b", before.source, re.MULTILINE), cell.id
            assert about(cell)["grade_id"] == f"{about(before)['grade_id']}-check"
            assert about(cell)["locked"]


def test_every_exercise_is_asked_once_in_the_exercises_order(lesson: Any, cells: list[Any]) -> None:
    asked = [name for cell in code(cells) if about(cell).get("grade") and (name := checked_exercise(cell.source))]
    assert asked == [exercise.id for exercise in exercises(lesson.name)]


def test_points_agree_with_the_lesson_list(lesson: Any, cells: list[Any]) -> None:
    worth = {exercise.id: exercise.max_score for exercise in exercises(lesson.name)}
    graded = [cell for cell in cells if about(cell).get("grade")]
    assert sum(about(cell)["points"] for cell in graded) == lesson.points
    assert all(about(cell)["points"] == worth[checked_exercise(cell.source)] for cell in code(graded))


def test_there_is_a_written_question(cells: list[Any]) -> None:
    assert [cell for cell in markdown(cells) if about(cell).get("grade") and about(cell).get("solution")]


def test_every_solution_is_followed_by_its_interpretation(cells: list[Any]) -> None:
    for cell, after in itertools.pairwise(cells):
        if cell.cell_type == "code" and about(cell).get("grade"):
            assert after.cell_type == "markdown", cell.id
            assert "interpretation" in tags(after), cell.id


def test_code_stands_between_sentences(cells: list[Any]) -> None:
    assert (cells[0].cell_type, cells[-1].cell_type) == ("markdown", "markdown")
    runs = [list(run) for kind, run in itertools.groupby(cells, lambda cell: cell.cell_type) if kind == "code"]
    assert not [[cell.id for cell in run] for run in runs if len(run) > 2]


def test_headings_go_down_one_level_at_a_time(cells: list[Any]) -> None:
    text = "\n\n".join(_CODE_BLOCK.sub("", cell.source) for cell in markdown(cells))
    levels = [len(match[1]) for match in _HEADING.finditer(text)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_pictures_have_words(cells: list[Any]) -> None:
    for cell in markdown(cells):
        assert not re.search(r"!\[\s*\]", cell.source), f"{cell.id}: a picture without alt text"
        for image in re.findall(r"<img\b[^>]*>", cell.source):
            assert re.search(r"""\balt=["'][^"']+["']""", image), f"{cell.id}: a picture without alt text"
    # Figures come from ampcourse.plots, which gives every one its words; pyplot's have none.
    drawn = [cell.id for cell in code(cells) if re.search(r"pyplot|\bplt\.|Image\(", cell.source)]
    assert not drawn


def test_nothing_was_left_from_a_run(cells: list[Any]) -> None:
    assert not [cell.id for cell in code(cells) if cell.outputs or cell.execution_count is not None]
