"""A faulty question counts as right for everybody: graded before or later, marked by hand or not, and back again."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampcourse.grading import decisions
from ampcourse.grading.decisions import Decision
from ampcourse.grading.model import GradingError
from ampcourse.grading.place import open_place
from ampcourse.grading.records import record_path

MINI = "07_mini"
WHY = "It could be read in two ways."
Run = Callable[..., tuple[int, str, str]]


def test_those_graded_before_and_after_get_the_points(desk: Any, commands: Run) -> None:
    desk.grade("ada", total_check=0.0)
    desk.grade("grace")
    code, out, err = commands("full-points", "mini", "total", "--reason", WHY)
    assert (code, err) == (0, "") and WHY in out and "1 submission graded before" in out
    desk.grade("alan", "partly", "It timed out.", total_check=1.0, double_check=0.0)
    assert desk.grades("ada")["total-check"] == (3.0, None, False)
    assert desk.grades("alan")["total-check"] == (3.0, None, False)
    assert desk.grades("alan")["double-check"] == (0.0, None, False)
    _, out, _ = commands("export", "-")
    assert out.count(WHY) == 3
    _, out, _ = commands("status")
    assert WHY in out
    (entry,) = tomllib.loads((desk.place.root / "grading" / "decisions.toml").read_text("utf-8"))["full_points"]
    assert (entry["lesson"], entry["question"], entry["reason"]) == (MINI, "total-check", WHY)
    assert entry["user"] and entry["date"].endswith("+00:00")


def test_undo_gives_back_what_was_judged_and_what_a_person_gave(desk: Any, commands: Run) -> None:
    desk.grade("ada", total_check=1.0)
    desk.grade("grace", total_check=0.0)
    desk.mark("grace", "total-check", 2.5)
    desk.grade("alan", total_check=0.0)
    desk.mark("alan", "total-check", 4.0)  # more than full: a person's generosity stays
    before = {name: desk.grades(name) for name in ("ada", "grace", "alan")}
    assert commands("full-points", MINI, "total-check", "--reason", WHY)[0] == 0
    assert [desk.grades(name)["total-check"][:2] for name in before] == [(3.0, None), (3.0, None), (3.0, 4.0)]
    assert commands("full-points", MINI, "total-check", "--reason", "Again.")[0] == 0  # the marks are not forgotten
    code, out, err = commands("full-points", MINI, "total-check", "--undo")
    assert (code, err) == (0, "") and "as it was judged; 3 submissions changed" in out
    assert {name: desk.grades(name) for name in before} == before
    assert decisions.load(desk.place.root) == ()
    code, _, err = commands("full-points", MINI, "total-check", "--undo")
    assert code == 1 and "nothing to take back" in err


def test_what_a_person_marks_after_the_decision_stays(desk: Any, commands: Run) -> None:
    desk.grade("ada", total_check=0.0)
    desk.mark("ada", "total-check", 1.0)
    commands("full-points", MINI, "total", "--reason", WHY)
    desk.mark("ada", "total-check", 2.0)
    desk.grade("ada", total_check=0.0)
    assert desk.grades("ada")["total-check"][:2] == (3.0, 2.0)
    commands("full-points", MINI, "total", "--undo")
    assert desk.grades("ada")["total-check"][:2] == (0.0, 2.0)


def test_a_written_question_counts_as_marked(desk: Any, commands: Run) -> None:
    desk.grade("ada")
    desk.grade("grace")
    desk.mark("grace", "why", 0.5)
    commands("full-points", MINI, "why", "--reason", WHY)
    assert desk.grades("ada")["why"] == (2.0, None, False) and desk.grades("grace")["why"] == (2.0, None, False)
    commands("full-points", MINI, "why", "--undo")
    assert desk.grades("ada")["why"] == (None, None, True) and desk.grades("grace")["why"] == (None, 0.5, False)


def test_where_there_is_no_score_there_are_no_points(desk: Any, commands: Run) -> None:
    desk.grade("emmy", "unreadable", "The file is a web page.")
    commands("full-points", MINI, "total", "--reason", WHY)
    assert desk.grades("emmy")["total-check"][0] == 0.0
    _, out, _ = commands("export", "-")
    assert f"emmy,{MINI},,8,unreadable,The file is a web page.,0,true" in out.splitlines()


def test_the_late_penalty_follows_the_new_score(desk: Any, commands: Run) -> None:
    with (desk.place.root / "nbgrader_config.py").open("a") as config:
        config.write("\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    desk.place = open_place(desk.place.root)
    desk.grade("ada", late=60, total_check=0.0)
    assert desk.penalty("ada") == 3.0
    commands("full-points", MINI, "total", "--reason", WHY)
    assert desk.penalty("ada") == 6.0
    commands("full-points", MINI, "total", "--undo")
    assert desk.penalty("ada") == 3.0


def test_without_a_record_the_former_points_come_from_the_autograded_notebook(desk: Any, commands: Run) -> None:
    import nbformat

    for name in ("ada", "grace"):
        desk.grade(name, total_check=1.0)
    commands("full-points", MINI, "total", "--reason", WHY)
    for name in ("ada", "grace"):
        record_path(desk.place.root, MINI, name).unlink()
    source = nbformat.read(desk.place.source(MINI) / f"{MINI}.ipynb", as_version=4)
    cell = next(c for c in source.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "total-check")
    cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "1.0"}, execution_count=1)]
    folder = desk.place.folder("autograded", "ada", MINI)
    folder.mkdir(parents=True)
    nbformat.write(source, folder / f"{MINI}.ipynb")
    code, _, err = commands("full-points", MINI, "total", "--undo")
    assert code == 1 and "'grace'" in err and "'ada'" not in err
    assert desk.grades("ada")["total-check"][0] == 1.0 and desk.grades("grace")["total-check"][0] == 3.0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["mini", "total"], 2, "--reason"),
        (["mini", "total", "--reason", "  "], 2, "--reason"),
        (["mini", "total", "--undo", "--reason", "x"], 2, "no --reason"),
        (["mini", "nothing", "--reason", "x"], 1, "choose from: double-check, total-check, own-test, why"),
        (["13", "total", "--reason", "x"], 1, "choose from: 07_mini"),
    ],
)
def test_what_is_meant_must_be_clear(commands: Run, words: list[str], code: int, says: str) -> None:
    found, _, err = commands("full-points", *words)
    assert found == code and says in err


@pytest.mark.parametrize("name", ["total-check", "total", "mini.total", f"{MINI}/total-check", f"{MINI}/total"])
def test_a_question_may_be_named_in_several_ways(desk: Any, commands: Run, name: str) -> None:
    assert commands("full-points", "7", name, "--reason", WHY)[0] == 0  # also before anybody is graded
    (decision,) = decisions.load(desk.place.root, MINI)
    assert decision.question == "total-check" and not (desk.place.root / "gradebook.db").exists()


def test_a_locked_gradebook_changes_nothing_and_can_be_tried_again(
    desk: Any, commands: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    from ampcourse.grading import database

    desk.grade("ada", total_check=0.0)
    desk.mark("ada", "total-check", 1.0)
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.1)
    other = sqlite3.connect(desk.place.root / "gradebook.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    code, _, err = commands("full-points", MINI, "total", "--reason", WHY)
    other.execute("ROLLBACK")
    assert code == 1 and "locked" in err
    assert desk.grades("ada")["total-check"][:2] == (0.0, 1.0)
    assert commands("full-points", MINI, "total", "--reason", WHY)[0] == 0
    assert desk.grades("ada")["total-check"][:2] == (3.0, None)
    commands("full-points", MINI, "total", "--undo")
    assert desk.grades("ada")["total-check"][:2] == (0.0, 1.0)


@given(st.text(), st.text(min_size=1), st.dictionaries(st.text(), st.floats(0, 100), max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
def test_what_is_kept_is_what_is_read(tmp_path: Path, reason: str, question: str, before: dict[str, float]) -> None:
    file = tmp_path / decisions.FILE
    file.unlink(missing_ok=True)
    decisions.add(tmp_path, Decision("1", question, reason, before=before))
    assert decisions.load(tmp_path) == (Decision("1", question, reason, before=before),)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_several_at_once_lose_none(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: decisions.add(tmp_path, Decision("1", f"q{i}", "why")), range(40)))
    assert len(decisions.load(tmp_path)) == 40


@pytest.mark.parametrize(
    "content", [b"\xff", b"[[full_points]", b"full_points = 3", b"[[full_points]]\nlesson = '1'\n"]
)
def test_a_file_that_a_person_broke_is_told_and_stops_grading(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "grading").mkdir()
    (tmp_path / decisions.FILE).write_bytes(content)
    with pytest.raises(GradingError, match=r"decisions\.toml.*mend it"):
        decisions.load(tmp_path)
    with pytest.raises(GradingError):
        decisions.add(tmp_path, Decision("1", "q", "why"))
    assert (tmp_path / decisions.FILE).read_bytes() == content


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_refuses_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(GradingError, match="cannot be written"):
        decisions.add(tmp_path, Decision("1", "q", "why"))
