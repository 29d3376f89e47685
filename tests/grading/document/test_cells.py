"""What happens to single cells: deleted, copied, split, moved, changed; and what is said about it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .samples import (
    ALL,
    STUB,
    answers,
    at,
    cell_of,
    code,
    markdown,
    mended,
    order,
    own_cells,
    release,
    solutions,
    solved,
    source,
)


def _without(*names: str, lesson: str = "mini") -> dict[str, Any]:
    data = solved(lesson)
    for name in names:
        del data["cells"][at(data, name)]
    return data


def _set(name: str, text: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    data = data or solved("mini")
    data["cells"][at(data, name)]["source"] = text
    return data


def _after(name: str, *cells: dict[str, Any], data: dict[str, Any] | None = None) -> dict[str, Any]:
    data = data or solved("mini")
    place = at(data, name) + 1
    data["cells"][place:place] = copy.deepcopy(list(cells))
    return data


def _bare(data: dict[str, Any]) -> dict[str, Any]:
    """Without any metadata and ids."""
    for cell in data["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    return data


@pytest.mark.parametrize("lesson", ALL)
def test_each_deleted_cell_is_put_back_without_its_solution(lesson: str) -> None:
    for cell in release(lesson)["cells"]:
        name = cell["id"]
        found = mended(_without(name, lesson=lesson), lesson)
        back = cell_of(found, name)
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if grade_id in solutions(lesson):
            assert back.source == cell["source"]
            assert found.missing == (grade_id,)
            assert f"There is no answer cell '{grade_id}' in the submission" in found.troubles[0]
        else:
            assert back.source.startswith(cell["source"].rstrip("\n")[:50])
            assert found.missing == found.troubles == () and len(found.repairs) == 1
        others = {k: v for k, v in answers(found).items() if k != grade_id}
        assert others == {k: v for k, v in solutions(lesson).items() if k != grade_id}


def test_a_deleted_test_cell_comes_back_with_its_hidden_tests() -> None:
    found = mended(_without("own"))
    assert cell_of(found, "own").source == next(c.source for c in source("mini").cells if c.id == "own")
    assert found.repairs == ("The cell 'own' was missing; it was put back.",)


def test_several_missing_cells_make_one_sentence() -> None:
    found = mended(_without("own", "double-check", "title", "question"))
    assert found.repairs == (
        "The cells 'double-check' and 'own' were missing; they were put back.",
        "2 other cells of the lesson were missing; they were put back.",
    )


def test_a_copied_test_cell_is_as_if_it_were_not_there() -> None:
    data = solved("mini")
    data["cells"].append(copy.deepcopy(data["cells"][at(data, "double-check")]))
    bare = code('check("mini.double", double)')
    found = mended(_after("title", bare, data=data))
    assert found.notebook == mended(solved("mini")).notebook
    assert found.repairs == ("The cell 'double-check' was there more than once; the copies were left out.",)


def test_a_split_test_cell_is_put_together() -> None:
    data = solved("mini")
    place = at(data, "own")
    whole = data["cells"][place]
    first, second = whole["source"].split("\n", 1)
    for marks in (whole["metadata"], {}):
        pieces = [whole | {"source": first}, whole | {"source": second, "metadata": marks, "id": "new"}]
        split = data | {"cells": [*data["cells"][:place], *pieces, *data["cells"][place + 1 :]]}
        assert mended(split).notebook == mended(data).notebook


@pytest.mark.parametrize("text", ["check('mini.double', abs)", "1.0", "", "pass\n" * 30])
def test_a_changed_locked_cell_is_restored(text: str) -> None:
    found = mended(_set("double-check", text))
    assert own_cells(found) == [] and found.troubles == ()
    assert cell_of(found, "double-check").source == 'check("mini.double", double)'
    assert found.repairs == ("The cell 'double-check' must not be changed but was; the lesson's own text is used.",)


def test_an_answer_written_into_a_locked_cell_is_not_lost() -> None:
    text = "def double(x):\n    return 0\ncheck('mini.double', double)"
    found = mended(_set("double-check", text))
    assert order(found)[order(found).index(text) - 1 :][:3] == ["double", text, "double-check"]
    assert cell_of(found, "double-check").source == 'check("mini.double", double)'
    assert found.repairs == ("The cell 'double-check' must not be changed but was; the lesson's own text is used.",)


def test_answers_moved_elsewhere_are_found_by_what_they_define() -> None:
    data = solved("mini")
    data["cells"].append(data["cells"].pop(at(data, "double")))
    for submission in (copy.deepcopy(data), _bare(data)):
        found = mended(submission)
        assert answers(found) == solutions("mini")
        assert found.repairs[-1].startswith("Some cells stood in another order")


def test_own_cells_stay_behind_their_neighbours() -> None:
    data = _after("double", code("first = 1"), code("second = 2"))
    data["cells"].insert(0, markdown("On top"))
    data["cells"].append(code("last = 3"))
    found = mended(data)
    assert order(found)[0] == "On top" and order(found)[-1] == "last = 3"
    place = order(found).index("double")
    assert order(found)[place : place + 4] == ["double", "first = 1", "second = 2", "double-check"]
    assert found.repairs == found.troubles == ()
    bare = mended(_bare(data))
    assert order(bare) == order(found)


def test_own_cells_stay_before_a_check_that_was_deleted() -> None:
    data = _after("double", code("double = double"))
    del data["cells"][at(data, "double-check")]
    names = order(mended(data))
    assert names.index("double = double") == names.index("double") + 1 == names.index("double-check") - 1


def test_a_later_definition_stays_where_it_is() -> None:
    again = "def double(x):\n    return x + x"
    before, after = mended(_after("double", code(again))), mended(_after("double-check", code(again)))
    assert order(before)[order(before).index("double") :][:3] == ["double", again, "double-check"]
    assert order(after)[order(after).index("double") :][:3] == ["double", "double-check", again]
    assert answers(before) == answers(after) == solutions("mini")


def test_a_copied_answer_runs_as_in_jupyter_and_an_untouched_copy_never_wins() -> None:
    data = solved("mini")
    place = at(data, "double")
    stub = copy.deepcopy(release("mini")["cells"][place])
    other = copy.deepcopy(data["cells"][place]) | {"source": "def double(x):\n    return x + x"}
    for cells in ([stub, data["cells"][place]], [data["cells"][place], stub]):
        found = mended(data | {"cells": [*data["cells"][:place], *cells, *data["cells"][place + 1 :]]})
        assert answers(found) == solutions("mini") and own_cells(found) == []
    found = mended(_after("double", other))
    assert order(found)[order(found).index("double") :][:2] == ["double", other["source"]]
    assert found.repairs == (
        "The answer 'double' is there more than once; as in Jupyter, the last before the check counts.",
    )


@pytest.mark.parametrize("marked", ["both", "first", "second", "none"])
def test_an_answer_split_in_the_middle_of_a_function_is_joined(marked: str) -> None:
    data = solved("mini")
    place = at(data, "double")
    whole = data["cells"][place]
    lines = whole["source"].split("\n")
    pieces = [copy.deepcopy(whole) | {"source": "\n".join(part)} for part in (lines[:2], lines[2:])]
    for piece, side in zip(pieces, ("first", "second"), strict=True):
        piece.pop("id")
        if marked not in ("both", side):
            piece["metadata"] = {}
    data["cells"][place : place + 1] = pieces
    found = mended(data)
    assert answers(found) == solutions("mini") and own_cells(found) == []
    assert "The answer 'double' was split over several cells; they were joined." in found.repairs


def test_a_written_answer_in_pieces_is_joined() -> None:
    data = _set("why", "First thought.")
    second = copy.deepcopy(data["cells"][at(data, "why")]) | {"source": "Second thought."}
    assert answers(mended(_after("why", second, data=data)))["why"] == "First thought.\n\nSecond thought."


def test_a_written_answer_in_a_cell_of_its_own_is_taken() -> None:
    data = _after("why", markdown("Because."), data=_set("why", "YOUR ANSWER HERE"))
    found = mended(data)
    assert answers(found)["why"] == "Because." and own_cells(found) == []
    assert "that is taken as the answer" in found.repairs[0]
    # but what follows a text of the student's own is no part of the answer
    found = mended(_after("why", markdown("More.")))
    assert answers(found)["why"] == solutions("mini")["why"] and own_cells(found) == ["More."]


def test_an_answer_without_marks_and_with_a_new_name_is_recognised_by_its_place() -> None:
    data = _bare(_set("double", "def twice(x):\n    return x * 2"))
    assert answers(mended(data))["double"] == "def twice(x):\n    return x * 2"


def test_two_candidates_are_a_persons_matter() -> None:
    data = _after("double", code("b = 2"), data=_set("double", "a = 1"))
    found = mended(_bare(data))
    assert any("'double'" in trouble and "several" in trouble for trouble in found.troubles)
    assert own_cells(found) == ["a = 1", "b = 2"]


def test_an_answer_defined_with_another_one_is_not_undone_by_the_stub() -> None:
    both = "\n\n".join(solutions("mini")[name] for name in ("double", "total"))
    found = mended(_set("double", both, _without("total")))
    assert "raise" not in answers(found)["total"] and found.missing == found.troubles == ()
    assert "what it asks for is defined in another cell" in found.repairs[0]


def test_an_untouched_answer_with_the_work_elsewhere_is_a_persons_matter() -> None:
    data = _after("double-check", code(solutions("mini")["double"]), data=_set("double", release_text("double")))
    assert "The answer cell 'double' is untouched, but cell" in mended(data).troubles[0]


def release_text(name: str) -> str:
    data = release("mini")
    return data["cells"][at(data, name)]["source"]


def test_an_emptied_answer_stays_empty() -> None:
    found = mended(_set("double", ""))
    assert answers(found)["double"] == "" and found.missing == ()


def test_conflict_marks_inside_a_cell_are_said() -> None:
    found = mended(_set("double", "<<<<<<< HEAD\ndef double(x): ...\n=======\n>>>>>>> theirs"))
    assert "'double' holds git's marks of a conflict" in found.troubles[0]


# Given cells: free to be changed, but a slip in one must cost nothing elsewhere.


def test_a_changed_given_cell_runs_as_it_was_changed() -> None:
    found = mended(_set("given", "LIMIT = 5\nnames = list('abcde')\nextra = 1"))
    place = order(found).index("given")
    assert found.notebook.cells[place].source.startswith("LIMIT = 5") and found.changed == {place}
    assert found.repairs == found.troubles == ()


@pytest.mark.parametrize("text", ["LIMIT = 3", "LIMIT = 3\nnames = [n for n in range(LIMIT", "limit = 3; names = []"])
def test_a_broken_given_cell_runs_after_the_lessons_own(text: str) -> None:
    found = mended(_set("given", text))
    place = order(found).index("given")
    assert found.notebook.cells[place].source == release_text("given")
    assert order(found)[place + 1] == text and found.changed == frozenset()
    assert found.repairs == ("The given cell 'given' was changed; the lesson's own runs first, then the changed one.",)


def test_an_added_import_is_kept_and_the_lessons_own_stay() -> None:
    text = "import math\nimport numpy as np"
    found = mended(_set("imports", text))
    place = order(found).index("imports")
    assert found.notebook.cells[place].source == release_text("imports") and order(found)[place + 1] == text


def test_an_emptied_given_cell_is_the_lessons_own() -> None:
    found = mended(_set("given", ""))
    assert cell_of(found, "given").source == release_text("given") and own_cells(found) == []


@pytest.mark.parametrize("text", ['profile = "gpu"\nseed = 7', "raise SystemExit", ""])
def test_the_parameters_are_the_lessons(text: str) -> None:
    data = _set("parameters", text)
    injected = code('# Parameters\nprofile = "cpu"', tags=["injected-parameters"])
    found = mended(_after("parameters", injected, code("profile = 'gpu'; seed = 3"), data=data))
    assert cell_of(found, "parameters").source == release_text("parameters") and own_cells(found) == []
    kept = mended(_after("parameters", code("seed = 3\nmine = 4")))
    assert own_cells(kept) == ["seed = 3\nmine = 4"]


def test_interpretations_never_appear() -> None:
    data = solved("mini")
    data["cells"].insert(8, markdown("Twice is once and once."))
    assert own_cells(mended(data)) == []


def test_manual_code_and_task_cells() -> None:
    data = _after("task", markdown("![a picture](attachment:a.png)"), data=_set("task", "I changed the task"))
    found = mended(data)
    assert "BEGIN MARK SCHEME" in cell_of(found, "task").source and len(own_cells(found)) == 1
    assert answers(mended(_without("manual")))["manual"] == STUB
    assert answers(mended(_bare(_set("manual", "z = double(3)"))))["manual"] == "z = double(3)"


def test_a_cell_that_became_another_kind_is_turned_back() -> None:
    data = solved("mini")
    data["cells"][at(data, "double")]["cell_type"] = "markdown"
    data["cells"][at(data, "why")]["cell_type"] = "code"
    found = mended(data)
    assert answers(found) == solutions("mini")
    assert found.repairs == ("The cells 'double' and 'why' had become cells of another kind; they were turned back.",)


def test_a_note_between_the_pieces_of_a_split_answer_does_no_harm() -> None:
    lines = solutions("mini")["double"].split("\n")
    data = _after("double", markdown("note"), code("x = 1"), code(lines[2]), data=_set("double", "\n".join(lines[:2])))
    found = mended(_bare(data))
    assert answers(found) == solutions("mini") and own_cells(found) == ["note", "x = 1"]
