"""From inside a lesson's box nothing can be reached that answers one of its exercises, whatever way is tried."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ampcourse.exercises import check
from ampcourse.grading import boxes
from ampcourse.grading.boxes import asked_exercises, make_box
from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.modules import below, home, modules
from ampcourse.grading.withhold import never, runs_instead

from .conftest import LESSONS, box_of, source_of

NEVER = ("engine", "model", "check", "progress", "answers", "claim", "compare", "shrink", "recorded", "private")


def real_modules(box: Box) -> set[str]:
    """The modules of a box that are no placeholders."""
    paths = {module.path: name for name, module in modules().items()}
    return {paths[path] for path in box.package if path in paths} - set(box.withheld)


def asked_for(slug: str) -> list[str]:
    return sorted({name for e in asked_exercises(slug, source_of(slug)) for name in e.asks_for})


@pytest.mark.parametrize("slug", LESSONS)
def test_nothing_that_an_exercise_asks_for_can_be_reached(slug: str, inside: Callable[..., Any]) -> None:
    names = asked_for(slug)
    found = inside(box_of(slug), "reach", names=names)
    for name in names:
        for outcome in found["tried"][name]:
            assert not outcome.startswith("got it"), f"{name}: {outcome}"
    homes = {m for name in names for m in below(home(name) or "")}
    loaded = {name for name in found["defined"] if name.rpartition(".")[0] in homes}
    assert {name.rpartition(".")[2] for name in loaded} <= {"__getattr__"}, "more than a placeholder in what answers"


@pytest.mark.parametrize("slug", LESSONS)
def test_a_box_holds_neither_answers_nor_what_judges(slug: str) -> None:
    there = real_modules(box_of(slug))
    assert not there & never()
    assert not [name for name in there if name.split(".")[-1] in NEVER or "answers" in name]
    assert {"ampcourse", "ampcourse.exercises.observe", "ampcourse.reproduce.record"} <= there
    assert not [path for path in box_of(slug).package if not path.endswith(".py")], "no data file of any kind"


@pytest.mark.parametrize("slug", LESSONS)
def test_no_right_answer_or_mistake_stands_anywhere_in_a_box(slug: str) -> None:
    """The text of what is there, not only what can be imported."""
    text = b"\n".join(box_of(slug).package.values()).decode("utf-8")
    for exercise in asked_exercises(slug, source_of(slug)):
        assert not exercise.insight or exercise.insight[:60] not in text
        assert not [m.says for m in exercise.mistakes if m.says in text]
        assert not [hint for hint in exercise.hints if len(hint) > 30 and hint in text]


def test_a_new_name_in_asks_for_is_withheld_with_all_that_imports_it(
    monkeypatch: pytest.MonkeyPatch, inside: Callable[..., Any]
) -> None:
    slug = "08_vit"
    assert "ampcourse.plots.vision" in real_modules(box_of(slug))
    real = asked_exercises(slug, source_of(slug))
    more = dataclasses.replace(real[0], asks_for=("ampcourse.plots.words.percent",))
    monkeypatch.setattr(boxes, "asked_exercises", lambda *_: [more, *real[1:]])
    box = make_box(slug, source_of(slug))
    assert {"ampcourse.plots", "ampcourse.plots.vision", "ampcourse.plots.words"} <= set(box.withheld)
    found = inside(box, "reach", names=["ampcourse.plots.words.percent", "ampcourse.plots.picture_patches"])
    assert all("withheld while grading" in one for tried in found["tried"].values() for one in tried), found["tried"]


def test_a_name_that_is_not_there_is_no_silent_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    real = asked_exercises("08_vit", source_of("08_vit"))
    wrong = dataclasses.replace(real[0], asks_for=("ampcourse.numerics.renamed",))
    monkeypatch.setattr(boxes, "asked_exercises", lambda *_: [wrong])
    with pytest.raises(GradingError, match=r"'ampcourse\.numerics\.renamed'"):
        make_box("08_vit", source_of("08_vit"))


def test_what_is_withheld_can_be_imported_and_says_why_it_cannot_be_used(inside: Callable[..., Any]) -> None:
    cells = [
        "from ampcourse import check, hint, numerics, plots\nfrom ampcourse.numerics import FLOAT16, Format",
        "import ampcourse.numerics.formats as formats",
        "score = check('fp16_range.ulp', None)\nhint('fp16_range.ulp')",
        "assert score == 0.0",
        "numerics.FLOAT16.ulp(1.0)",
        "FLOAT16 == 1",
        "class Mine(Format): pass",
        "formats.get_format('float16')",
        "[x for x in numerics.FORMATS]",
        "from ampcourse.exercises import answers",
        "from ampcourse.exercises.check import exercise",
    ]
    errors = dict(inside(box_of("01_fp16_range"), "run", cells=cells, asked={})["errors"])
    assert set(errors) == {4, 5, 6, 7, 8, 9, 10}
    for number in (4, 5, 6, 7, 8):
        assert "because it would answer an exercise: write it yourself" in errors[number]
    assert "ImportError" in errors[9]
    assert "ModuleNotFoundError" in errors[10]


def test_a_name_of_a_given_cell_that_was_left_out_says_so_when_it_is_used(inside: Callable[..., Any]) -> None:
    slug = "01_fp16_range"
    given = next(cell.source for cell in source_of(slug).cells if "half = " in cell.source)
    cells = ["seed = 0", runs_instead(source_of(slug), box_of(slug).withheld)[given.strip()], "half.ulp(1.0)"]
    errors = dict(inside(box_of(slug), "run", cells=cells, asked={})["errors"])
    assert set(errors) == {2}
    assert "'half' is not there while grading: what makes it would answer an exercise." in errors[2]


def test_every_exercise_of_the_course_belongs_to_a_lesson_whose_box_withholds_it() -> None:
    """Whatever a lesson's graded cells check, its box was made with those exercises in mind."""
    for slug in LESSONS:
        ids = {exercise.id for exercise in asked_exercises(slug, source_of(slug))}
        assert set(boxes.checked(source_of(slug))) <= ids
        assert {e.id for e in check.exercises(boxes.lesson_name(slug))} <= ids
