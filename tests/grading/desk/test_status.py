"""Who has what, what waits for a person, and why."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ampcourse.grading.desk.status import status
from ampcourse.grading.desk.survey import NOT_GRADED, Row, gradebook, survey
from ampcourse.grading.records import record_path

MINI = "07_mini"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def everyone(desk: Any) -> Any:
    """One student in each state."""
    desk.grade("ada")
    desk.mark("ada", "why", 1.5)
    desk.grade("grace", total_check=0.0)
    desk.grade("alan", "partly", "'total' timed out after 60 s.", total_check=0.0)
    desk.grade("emmy", "unreadable", "The file is a web page, not a notebook.")
    desk.grade("kurt", "failed", "The grader itself failed.")
    desk.hand_in("john")
    desk.students("ida")
    return desk


def rows_of(desk: Any, digest: Callable[[str], str] | None = None) -> dict[str, Row]:
    with gradebook(desk.place) as session:
        return {row.student: row for row in survey(desk.place, MINI, session, digest)}


def test_each_state_is_told_apart(everyone: Any) -> None:
    rows = rows_of(everyone)
    assert {name: row.status for name, row in rows.items()} == {
        "ada": "graded",
        "alan": "partly",
        "emmy": "unreadable",
        "grace": "graded",
        "ida": "missing",
        "john": NOT_GRADED,
        "kurt": "failed",
    }
    assert {name: row.score for name, row in rows.items()} == {
        "ada": 7.5,
        "alan": 3.0,
        "emmy": None,
        "grace": 3.0,
        "ida": None,
        "john": None,
        "kurt": None,
    }
    assert {row.max_score for row in rows.values()} == {8.0}
    assert [name for name, row in rows.items() if row.needs_manual] == ["alan", "emmy", "grace", "kurt"]
    assert rows["grace"].waiting == ("why",) and rows["ada"].waiting == ()


def test_points_that_a_person_gave_to_an_unreadable_one_count(everyone: Any) -> None:
    everyone.mark("emmy", "double-check", 2)
    row = rows_of(everyone)["emmy"]
    assert (row.status, row.score) == ("unreadable", 2.0) and "by hand" in row.reason


def test_handed_in_again_and_gone_are_told(everyone: Any) -> None:
    rows = rows_of(everyone, digest=lambda student: "new" if student == "ada" else student)
    assert [name for name, row in rows.items() if row.changed] == ["ada"]
    folder = everyone.place.folder("submitted", "grace", MINI)
    folder.rename(folder.with_name("elsewhere"))
    row = rows_of(everyone)["grace"]
    assert row.score == 3.0 and "no longer in submitted/" in row.reason


def test_a_damaged_record_loses_no_score(everyone: Any) -> None:
    record_path(everyone.place.root, MINI, "ada").write_text("{")
    row = rows_of(everyone)["ada"]
    assert (row.status, row.score) == ("graded", 7.5) and "damaged" in row.attention


def test_late_penalties_are_taken_off_the_score(desk: Any) -> None:
    with (desk.place.root / "nbgrader_config.py").open("a") as config:
        config.write("\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    from ampcourse.grading.place import open_place

    desk.place = open_place(desk.place.root)
    desk.grade("ada", late=3600)
    row = rows_of(desk)["ada"]
    assert (row.score, row.late_penalty, row.late) == (0.0, 6.0, 3600.0)


def test_the_command_says_what_waits_and_for_whom(everyone: Any, commands: Run) -> None:
    code, out, err = commands("status", MINI)
    assert code == 1 and not err
    said = " ".join(out.split())
    assert "not graded yet" in said and "john ampcourse grade 07_mini" in said
    assert "written answers wait for a mark: why" in said and "alan, grace" in said
    assert "The file is a web page, not a notebook." in said and "timed out" in said


def test_nothing_waits_once_everything_is_done(desk: Any, commands: Run) -> None:
    desk.grade("ada")
    desk.mark("ada", "why", 2)
    record = record_path(desk.place.root, MINI, "ada")
    from ampcourse.grading.batch.classlist import digest_now
    from ampcourse.grading.settings import load_settings

    now = digest_now(desk.place, MINI, "ada", load_settings(desk.place.root))
    record.write_text(record.read_text().replace('"submission": "ada"', f'"submission": "{now}"'))
    code, out, _ = commands("status")
    assert code == 0 and "Nothing waits for a person." in out
    code, out, _ = commands("status", "--json")
    assert code == 0 and json.loads(out)["done"] is True


def test_an_empty_course_is_no_trouble(desk: Any, commands: Run, tmp_path: Path) -> None:
    code, out, _ = commands("status")
    assert code == 0 and "Nothing was handed in yet." in out
    assert not (desk.place.root / "gradebook.db").exists()
    code, _, err = commands("export", tmp_path / "grades.csv")
    assert code == 1 and "nothing to export" in err and not (tmp_path / "grades.csv").exists()
    code, _, err = commands("status", "12_none")
    assert code == 1 and "choose from: 07_mini" in err
    code, _, err = commands("status", "--course", tmp_path, course=False)
    assert code == 1 and "no folder 'source'" in err


def test_json_has_everybody(everyone: Any, commands: Run) -> None:
    code, out, _ = commands("status", "--json")
    found = json.loads(out)
    assert code == 1 and found["done"] is False
    assert {one["student_id"] for one in found["submissions"]} == {
        "ada",
        "alan",
        "emmy",
        "grace",
        "ida",
        "john",
        "kurt",
    }
    counts = found["lessons"][MINI]
    assert (counts["handed in"], counts["graded"], counts["missing"], counts["not graded"]) == (6, 2, 1, 1)


def test_many_with_the_same_need_are_one_line() -> None:
    rows = [Row(f"s{i:03}", "1", "graded", score=1, waiting=("why",)) for i in range(300)]
    found = status(rows)
    assert len(found.needs) == 1 and len(found.needs[0].students) == 300


def test_the_export_has_what_the_gradebook_has(everyone: Any, commands: Run, tmp_path: Path) -> None:
    path = tmp_path / "grades.csv"
    code, out, err = commands("export", path)
    assert code == 0 and not err and "7 students" in out and "4 of 7 scores empty" in out
    rows = {row["student_id"]: row for row in csv.DictReader(io.StringIO(path.read_text()))}
    assert {name: row["score"] for name, row in rows.items()} == {
        "ada": "7.5",
        "alan": "3",
        "emmy": "",
        "grace": "3",
        "ida": "",
        "john": "",
        "kurt": "",
    }
    code, out, err = commands("export", "-", "--lesson", "mini")
    assert code == 0 and len(out.splitlines()) == 8 and "7 students" in err
    code, _, err = commands("export", path, "--roster", path)
    assert code == 2 and "--roster" in err


def test_a_large_class_is_read_in_a_few_queries(desk: Any) -> None:
    from sqlalchemy import event

    from ampcourse.grading.database import open_gradebook

    desk.grade("s000")
    with open_gradebook(desk.place) as book:
        for i in range(1, 100):
            book.add_student(f"s{i:03}")
            book.add_submission(MINI, f"s{i:03}")
    asked: list[str] = []
    with gradebook(desk.place) as session:
        event.listen(session.get_bind(), "before_cursor_execute", lambda *given: asked.append(given[2]))
        assert len(survey(desk.place, MINI, session)) == 100
    assert len(asked) < 12  # however many students there are


def test_a_name_that_cannot_be_graded_says_so_and_not_to_grade_it(desk: Any, commands: Run) -> None:
    desk.grade("ada")
    desk.hand_in("x" * 140)
    code, out, _ = commands("status", MINI)
    said = " ".join(out.split())
    assert code == 1 and "failed" in said and "mend, grade again" in said
    assert "not graded" not in said, "to grade it again would never help"
