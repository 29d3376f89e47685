"""The same submissions through `ampcourse grade`, `nbgrader autograde` and formgrader: one result."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from door_server import Formgrader

from ampcourse.grading.records import load_records
from ampcourse.grading.rounds import load_round

pytestmark = pytest.mark.sandbox

MINI = "07_mini"
LOGIN_PAGE = b"<!DOCTYPE html><html><body>Please sign in</body></html>"
DOORS = ("grade", "autograde", "formgrader")
BAD = {"login_page"}
LATE = {"half"}


def submissions(lesson: Any) -> dict[str, Any]:
    """Ten, with what their code is worth."""
    doubled = lesson.right()
    doubled.cells.insert(5, copy.deepcopy(doubled.cells[4]))
    loose = lesson.right()
    for cell in loose.cells:
        cell.metadata = type(cell.metadata)()
    raises = lesson.right()
    next(cell for cell in raises.cells if cell.id == "total").source += "\nraise SystemExit"
    return {
        "right": lesson.right(),
        "half": lesson.half()[0],
        "untouched": copy.deepcopy(lesson.released),
        "noisy": lesson.noisy(),
        "exceptions": lesson.exceptions(),
        "partly": lesson.filled({"double": "def double(x):\n    return 2 * abs(x)"}.get),
        "copied cell": doubled,
        "no metadata": loose,
        "raises": raises,
        "login_page": LOGIN_PAGE,
    }


SCORES = {
    "right": 6,
    "half": 3,
    "untouched": 0,
    "noisy": 6,
    "exceptions": 0,
    "partly": 2,
    "copied cell": 6,
    "no metadata": 6,
    "raises": 6,  # after what was asked for
    "login_page": 0,
}


@pytest.fixture(scope="module")
def courses(
    tmp_path_factory: pytest.TempPathFactory, make_mini: Any, lesson_of: Callable[..., Any], nbgrader_in: Any
) -> dict[str, Any]:
    """Three copies of one course, in the same grading round."""
    folder = tmp_path_factory.mktemp("doors")
    first = make_mini(folder / "grade é" / "notebooks")
    nbgrader = nbgrader_in(first)
    nbgrader("generate_assignment", MINI, "--GenerateAssignment.force=True")
    nbgrader("db", "assignment", "add", MINI, "--duedate=2026-03-01 12:00:00 UTC")
    for student, notebook in submissions(lesson_of(first, MINI)).items():
        nbgrader.submit(student, MINI, notebook)
        day = "02" if student in LATE else "01"
        (first / "submitted" / student / MINI / "timestamp.txt").write_text(f"2026-03-{day} 11:00:00 UTC")
    config = first / "nbgrader_config.py"
    config.write_text(config.read_text() + "c.LateSubmissionPlugin.penalty_method = 'zero'\n")
    load_round(first, MINI)
    made = {"grade": nbgrader}
    for door in ("autograde", "formgrader"):
        shutil.copytree(first.parent, folder / f"{door} é")
        made[door] = nbgrader_in(folder / f"{door} é" / "notebooks")
    return made


EVERY_DAY = ("right", "half", "login_page")  # through formgrader, which starts anew for each; all in the long tests


@pytest.fixture(scope="module")
def graded(request: pytest.FixtureRequest, courses: dict[str, Any], patience: float) -> Iterator[dict[str, Any]]:
    """Each course graded through its own door; `who` went through which."""
    said, who = {}, {door: set(SCORES) for door in DOORS}
    if not request.config.getoption("--full"):
        who["formgrader"] = set(EVERY_DAY)
    course = courses["grade"]
    ran = subprocess.run(
        [Path(sys.executable).parent / "ampcourse", "grade", MINI, "--course", course.root],
        env=course.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    said["grade"] = ran.stdout
    said["autograde"] = courses["autograde"]("autograde", MINI, code=1)
    course = courses["formgrader"]
    with Formgrader(course.root, course.environment, patience) as server:
        said["formgrader"] = {student: server.autograde(MINI, student) for student in sorted(who["formgrader"])}
        course.server = server
        yield courses | {"said": said, "who": who}


@pytest.mark.parametrize("door", DOORS)
def test_scores_are_what_was_earned(graded: dict[str, Any], door: str) -> None:
    wanted = {name: score for name, score in SCORES.items() if name in graded["who"][door]}
    assert {name: found.score for name, found in graded[door].grades(MINI).items()} == wanted


@pytest.mark.parametrize("door", DOORS[1:])
def test_the_gradebook_is_the_same(graded: dict[str, Any], door: str) -> None:
    same(graded, door, lambda course: course.grades(MINI))


@pytest.mark.parametrize("door", DOORS[1:])
def test_autograded_notebooks_are_the_same(graded: dict[str, Any], door: str) -> None:
    same(graded, door, lambda course: autograded(course.root))


@pytest.mark.parametrize("door", DOORS[1:])
def test_records_are_the_same(graded: dict[str, Any], door: str) -> None:
    same(graded, door, lambda course: records(course.root))


def same(graded: dict[str, Any], door: str, of: Callable[[Any], dict[str, Any]]) -> None:
    """Everybody who went through that door got there what `ampcourse grade` gave."""
    got, wanted = of(graded[door]), of(graded["grade"])
    assert got.keys() == graded["who"][door]
    assert got == {name: found for name, found in wanted.items() if name in got}


@pytest.mark.parametrize("door", DOORS)
def test_who_came_late_pays_the_courses_penalty(graded: dict[str, Any], door: str) -> None:
    rows = graded[door].exported()
    late = LATE & graded["who"][door]
    assert {name for name, row in rows.items() if float(row["late_submission_penalty"] or 0)} == late
    assert all(float(rows[name]["late_submission_penalty"]) == SCORES[name] for name in late)
    assert float(rows["right"]["late_submission_penalty"] or 0) == 0


def test_every_door_says_what_is_wrong_in_one_sentence(graded: dict[str, Any]) -> None:
    reason = load_records(graded["grade"].root, MINI)["login_page"].reason
    assert reason.endswith(".") and "\n" not in reason
    said = graded["said"]
    assert reason in said["grade"]
    assert said["autograde"].strip().splitlines()[-1].endswith(f"login_page: {reason}")
    assert "Traceback" not in said["autograde"]
    assert said["formgrader"]["login_page"]["success"] is False
    assert said["formgrader"]["login_page"]["error"] == f"{MINI}, login_page: {reason}"
    assert {name for name, answer in said["formgrader"].items() if not answer["success"]} == BAD
    assert said["formgrader"]["right"]["log"]


def test_points_given_by_hand_stay_through_a_regrade(graded: dict[str, Any]) -> None:
    course = graded["formgrader"]
    server = course.server
    address = server.pages(MINI, MINI)["right"]
    asked = f"/formgrader/api/grades?submission_id={address.split('/')[3]}"
    why = next(grade for grade in json.loads(server.get(asked)[1]) if grade["name"] == "why")
    assert why["needs_manual_grade"]
    server.send("PUT", f"/formgrader/api/grade/{why['id']}", {"manual_score": 1.5, "extra_credit": 0.5})
    assert server.autograde(MINI, "right")["success"]
    after = {grade["name"]: grade for grade in json.loads(server.get(asked)[1])}
    assert (after["why"]["manual_score"], after["why"]["extra_credit"]) == (1.5, 0.5)
    assert not after["why"]["needs_manual_grade"]
    assert after["total-check"]["auto_score"] == 3
    assert "Skipping existing assignment: 07_mini, right" in course("autograde", MINI, "--student=right")
    assert course.grades(MINI)["right"].score == 6 + 1.5 + 0.5


def test_formgrader_lists_who_needs_a_person(graded: dict[str, Any]) -> None:
    server = graded["formgrader"].server
    listed = json.loads(server.get(f"/formgrader/api/submitted_notebooks/{MINI}/{MINI}")[1])
    waiting = {entry["student"] for entry in listed if entry["needs_manual_grade"]}
    assert waiting >= BAD
    status, page, _ = server.get(server.pages(MINI, MINI)["login_page"])
    assert status == 200
    assert load_records(graded["grade"].root, MINI)["login_page"].reason in page


def autograded(root: Path) -> dict[str, Any]:
    """Every autograded notebook, without what tells one run from another."""
    found = {}
    for path in sorted((root / "autograded").glob(f"*/{MINI}/*")):
        text = re.sub(r"ipykernel_\d+", "ipykernel_N", path.read_text("utf-8"))
        content = _in_order(json.loads(text)) if path.suffix == ".ipynb" else text
        found.setdefault(path.parts[-3], {})[path.name] = content
    return found


def _in_order(notebook: dict[str, Any]) -> dict[str, Any]:
    """Without what a program wrote as it ran: that comes from several threads, in no order of its own."""
    for cell in notebook["cells"]:
        outputs = [o for o in cell.get("outputs", []) if o["output_type"] != "stream"]
        cell["outputs"] = [o for o in outputs if "a line on stderr" not in str(o)]
    return notebook


def records(root: Path) -> dict[str, Any]:
    """Every record, without times and places."""
    found = {}
    for path in sorted((root / "grading" / "records" / MINI).glob("*.json")):
        found[path.stem] = _without_times(json.loads(path.read_text("utf-8")))
    return found


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(held) for name, held in value.items() if name not in ("when", "seconds", "log")}
    return [_without_times(held) for held in value] if isinstance(value, list) else value
