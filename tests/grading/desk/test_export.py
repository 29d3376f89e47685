"""Exported tables, read back the way each platform's importer reads them."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcourse.grading.desk import cells
from ampcourse.grading.desk.cells import ExportError
from ampcourse.grading.desk.export import COLUMNS, export, write
from ampcourse.grading.desk.roster import Roster, read
from ampcourse.grading.desk.survey import NOT_GRADED, Row

ONE, TWO = "01_fp16_range", "02_loss_scaling"
ROWS = [
    Row("ada", ONE, "graded", score=20.5, max_score=25, late_penalty=1, name=("Ada", "Lovelace")),
    Row("ada", TWO, "partly", "A cell timed out.", score=10, max_score=30, attention="A cell timed out."),
    Row("grace", ONE, "unreadable", "The file is a web page, not a notebook.", max_score=25, name=("Grace", "Hopper")),
    Row("grace", TWO, "graded", score=0.0, max_score=30, waiting=("why",)),
    Row("kurt", ONE, "missing", "Nothing was handed in.", max_score=25),
    Row("kurt", TWO, NOT_GRADED, max_score=30),
]
FIRST = [row for row in ROWS if row.lesson == ONE]

CANVAS = f"""\
Student,ID,SIS User ID,SIS Login ID,Section,{ONE} (4711),Homework (12),Current Score
,,,,,Manual Posting,,
    Points Possible,,,,,100.00,10,(read only)
"Hopper, Grace",1002,S2,ghopper@example.edu,"Lab 1 and Lab 2",17,5,80
"Lovelace, Ada",1001,S1,ada@example.edu,Lab 1,,,
"Student, Test",1009,,fa3c,Lab 1,,,
"""
MOODLE = """\
First name,Last name,ID number,Institution,Department,Email address,Course total (Real)
Ada,Lovelace,0042,,,ada@example.edu,-
Grace,Hopper,0043,,,g.hopper@example.edu,7.00
"""
WORKSHEET = """\
Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,Last modified (submission),\
Last modified (grade),Feedback comments
Participant 77,Ada Lovelace,ada@example.edu,Submitted for grading,,100.00,Yes,"Monday, 1 June 2026, 9:00 AM",-,
Participant 78,Grace Hopper,grace@example.edu,Submitted for grading,3.00,100.00,Yes,-,-,old words
"""


def table(content: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content)))


def dicts(content: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content)))


def roster(tmp_path: Path, content: str | bytes) -> Roster:
    path = tmp_path / "from the platform.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(path)


def canvas_students(content: str) -> tuple[list[str], dict[str, str], dict[str, dict[str, str]]]:
    """Assignments, their points, and each student's grades, found by the rules of Canvas's gradebook importer."""
    rows = table(content)
    head = rows[0]
    assert len(head) > 3 and "Student" in head[0] and "ID" in head[1]
    assert re.search(r"SIS\s+User\s+ID", head[2]) and re.search(r"SIS\s+Login\s+ID", head[3])
    assert "Section" in head[4]
    points, students = {}, {}
    for row in rows[1:]:
        if "Points Possible" in row[0]:
            points = dict(zip(head[5:], row[5:], strict=True))
        elif not all(re.fullmatch(r"\s*(Muted|Manual Posting.*)?\s*", cell, re.IGNORECASE) for cell in row):
            students[row[1] or row[2] or row[3] or row[0]] = dict(zip(head[5:], row[5:], strict=True))
    return head[5:], points, students


def test_one_row_a_student_and_lesson() -> None:
    found = dicts(export(ROWS).content)
    assert (
        list(found[0])
        == list(COLUMNS)
        == ["student_id", "lesson", "score", "max_score", "status", "reason", "late_penalty", "needs_manual"]
    )
    assert [(row["student_id"], row["lesson"], row["score"], row["max_score"]) for row in found] == [
        ("ada", ONE, "20.5", "25"),
        ("ada", TWO, "10", "30"),
        ("grace", ONE, "", "25"),
        ("grace", TWO, "0", "30"),
        ("kurt", ONE, "", "25"),
        ("kurt", TWO, "", "30"),
    ]
    assert [row["status"] for row in found] == ["graded", "partly", "unreadable", "graded", "missing", "not graded"]
    assert [row["needs_manual"] for row in found] == ["false", "false", "true", "true", "false", "false"]
    assert found[0]["late_penalty"] == "1" and found[2]["reason"] == "The file is a web page, not a notebook."


def test_canvas_without_a_roster_knows_students_by_their_login() -> None:
    assignments, points, students = canvas_students(export(ROWS, "canvas").content)
    assert assignments == [ONE, TWO] and points == {ONE: "25", TWO: "30"}
    assert students == {
        "ada": {ONE: "20.5", TWO: "10"},
        "grace": {ONE: "", TWO: "0"},
        "kurt": {ONE: "", TWO: ""},
    }


def test_canvas_roster_gives_ids_and_the_assignment_that_is_there(tmp_path: Path) -> None:
    rows = [*FIRST, Row("ghopper", ONE, "graded", score=21, max_score=25)]
    made = export([row for row in rows if row.student != "grace"], "canvas", roster(tmp_path, CANVAS))
    assignments, points, students = canvas_students(made.content)
    assert assignments == [f"{ONE} (4711)"] and points == {f"{ONE} (4711)": "25"}
    assert students == {"1001": {f"{ONE} (4711)": "20.5"}, "1002": {f"{ONE} (4711)": "21"}}
    assert made.left_out == ("kurt",) and (made.students, made.without) == (2, 0)
    assert any("'kurt'" in remark for remark in made.remarks)
    assert any("100 points" in remark and "25" in remark for remark in made.remarks)


def test_canvas_keeps_a_grade_where_there_is_none_here(tmp_path: Path) -> None:
    row = Row("ghopper", ONE, "unreadable", max_score=25)
    _, _, students = canvas_students(export([row], "canvas", roster(tmp_path, CANVAS)).content)
    assert students["1002"] == {f"{ONE} (4711)": "17"}


@pytest.mark.parametrize(
    "name", ["ada", "ADA@example.edu", "1001", "S1", "lovelaceada", "Lovelace, Ada", "Ada Lovelace"]
)
def test_students_are_found_by_what_platforms_call_them(tmp_path: Path, name: str) -> None:
    made = export([Row(name, ONE, "graded", score=1, max_score=25)], "canvas", roster(tmp_path, CANVAS))
    assert list(canvas_students(made.content)[2]) == ["1001"]


def test_a_name_that_two_share_is_nobody_s(tmp_path: Path) -> None:
    twin = '"Lovelace, Ada",1003,S3,ada.l@example.edu,Lab 1,,,\n'
    made = export([Row("lovelaceada", ONE, "graded", score=1)], "canvas", roster(tmp_path, CANVAS + twin))
    assert made.left_out == ("lovelaceada",)


def test_two_folders_of_one_student_are_not_guessed(tmp_path: Path) -> None:
    rows = [Row("ada", ONE, "graded", score=1), Row("lovelaceada", ONE, "graded", score=2)]
    with pytest.raises(ExportError, match=r"'ada' and 'lovelaceada' are the same student.*rename one"):
        export(rows, "canvas", roster(tmp_path, CANVAS))


@pytest.mark.parametrize("how", ["semicolons", "mark", "utf-16", "windows lines"])
def test_rosters_as_spreadsheets_save_them(tmp_path: Path, how: str) -> None:
    content = CANVAS.replace('"Lab 1 and Lab 2"', "Lab 1")
    if how == "semicolons":
        rows = table(content)
        out = io.StringIO()
        csv.writer(out, delimiter=";").writerows(rows)
        content = out.getvalue()
    raw = {"mark": "\ufeff".encode() + content.encode(), "utf-16": content.encode("utf-16")}.get(how)
    raw = raw or content.replace("\n", "\r\n" if how == "windows lines" else "\n").encode()
    made = export(FIRST[:1], "canvas", roster(tmp_path, raw))
    assert canvas_students(made.content)[2] == {"1001": {f"{ONE} (4711)": "20.5"}}


def test_moodle_names_a_missing_grade_and_sends_feedback_with_a_grade_only_together() -> None:
    found = dicts(export(ROWS, "moodle").content)
    assert list(found[0]) == ["Username", ONE, f"{ONE} feedback", TWO, f"{TWO} feedback"]
    ada, grace, kurt = found
    assert ada["Username"] == "ada" and ada[ONE] == "20.5" and "late, which cost 1 point" in ada[f"{ONE} feedback"]
    assert ada[f"{TWO} feedback"] == "A cell timed out."
    # An empty cell would become a grade of a new item; Moodle's importer takes "-" as none everywhere.
    assert grace[ONE] == "-" and grace[TWO] == "0" and kurt[ONE] == kurt[TWO] == "-"


def test_moodle_roster_gives_the_keys_that_moodle_knows(tmp_path: Path) -> None:
    rows = [*FIRST[:1], Row("Grace Hopper", ONE, "graded", score=9, max_score=25), *FIRST[2:]]
    made = export(rows, "moodle", roster(tmp_path, MOODLE))
    found = dicts(made.content)
    assert [row["ID number"] for row in found] == ["0042", "0043"]
    assert [row[ONE] for row in found] == ["20.5", "9"]
    assert "Course total (Real)" not in found[0]
    assert made.left_out == ("kurt",)  # one unknown name, and Moodle refuses the whole file


def test_moodle_grading_worksheet_is_filled(tmp_path: Path) -> None:
    rows = [FIRST[0], FIRST[1]]
    made = export(rows, "moodle", roster(tmp_path, WORKSHEET))
    ada, grace = dicts(made.content)
    assert list(ada) == WORKSHEET.partition("\n")[0].split(",")
    assert (ada["Identifier"], ada["Grade"], ada["Last modified (grade)"]) == ("Participant 77", "20.5", "-")
    assert (grace["Grade"], grace["Feedback comments"]) == ("3.00", "The file is a web page, not a notebook.")
    assert any("100 points" in remark for remark in made.remarks)
    with pytest.raises(ExportError, match="--lesson"):
        export(ROWS, "moodle", roster(tmp_path, WORKSHEET))


@pytest.mark.parametrize(
    ("kind", "content", "says"),
    [
        ("canvas", "a,b\n1,2\n", "no columns 'ID' and 'Section'"),
        ("moodle", "a,b\n1,2\n", "none of the columns 'Username'"),
        ("canvas", "", "no table of students"),
        ("canvas", b"\xff\x00\xfe", "not UTF-8"),
        ("canvas", b'a,b\n"' + b"x" * 200_000 + b'",1\n', "not CSV"),
    ],
)
def test_a_roster_that_is_none_is_told(tmp_path: Path, kind: str, content: str | bytes, says: str) -> None:
    with pytest.raises(ExportError, match=says):
        export(FIRST, kind, roster(tmp_path, content))
    with pytest.raises(ExportError, match="cannot be read"):
        read(tmp_path / "nowhere.csv")


FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r\n=1",
    "＝1+1",
    "  =1",
    "a;=1+1",
    "x\t=cmd|' /C calc'!A0",
    'a, "=1"',
]


@pytest.mark.parametrize("words", FORMULAS)
@pytest.mark.parametrize("kind", ["ampcourse", "canvas", "moodle"])
def test_no_cell_from_a_student_is_a_formula(words: str, kind: str) -> None:
    made = export([Row(words, ONE, "partly", words, score=1, max_score=2, name=(words, words))], kind)
    for delimiter in ",;\t":  # whatever the spreadsheet takes for one
        for row in csv.reader(io.StringIO(made.content), delimiter=delimiter):
            assert not [cell for cell in row if cell.strip().startswith(("=", "+", "@", "＝", "-1"))], row


@given(st.text())
def test_any_text_stays_on_one_line_and_harmless(words: str) -> None:
    shown = cells.text(words)
    assert not shown.strip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
    assert len(table(cells.table([[shown, "end"]]))) == 1


def test_roster_keys_stay_as_the_platform_wrote_them(tmp_path: Path) -> None:
    content = CANVAS.replace("S1,ada@example.edu", "-S1,+ada@example.edu").replace("Lovelace, Ada", "=Lovelace, Ada")
    row = table(export([Row("1001", ONE, "graded", score=1)], "canvas", roster(tmp_path, content)).content)[2]
    assert row[:4] == ["'=Lovelace, Ada", "1001", "-S1", "+ada@example.edu"]


def test_written_whole_private_and_through_links(tmp_path: Path) -> None:
    made = export([Row("\udcff é", ONE, "graded", score=1, max_score=2)])
    path = tmp_path / "grades é.csv"
    path.write_text("old")
    (tmp_path / "link.csv").symlink_to(path)
    write(tmp_path / "link.csv", made)
    assert (tmp_path / "link.csv").is_symlink()
    assert path.read_text("utf-8") == made.content.replace("\udcff", "�").encode("utf-8", "backslashreplace").decode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["grades é.csv", "link.csv"]


def test_what_cannot_be_written_is_told_and_changes_nothing(tmp_path: Path) -> None:
    made = export(FIRST)
    with pytest.raises(ExportError, match="is a folder"):
        write(tmp_path, made)
    with pytest.raises(ExportError, match="cannot be written"):
        write(tmp_path / "nowhere" / "grades.csv", made)
    write(Path("/dev/null"), made)
    assert not Path("/dev/null").is_file()
    if os.getuid():
        tmp_path.chmod(0o500)
        with pytest.raises(ExportError, match="read-only"):
            write(tmp_path / "grades.csv", made)
        tmp_path.chmod(0o700)


def test_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grades.csv"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ExportError, match="disk is full"):
        write(path, export(FIRST))
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1
