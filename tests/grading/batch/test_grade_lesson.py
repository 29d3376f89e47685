"""A class is graded once, and again only where something changed."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import KINDS, LESSON, MAXIMUM, RIGHT, WRONG, fill, filled, submit

from ampcourse.grading.batch import grade_lesson
from ampcourse.grading.batch.classlist import digest_now
from ampcourse.grading.model import GradingError
from ampcourse.grading.place import open_place
from ampcourse.grading.records import load_records, record_path
from ampcourse.grading.settings import load_settings


def content(*answers: str | None) -> bytes:
    return nbformat.writes(filled(*answers)).encode()


def scores(summary: Any) -> dict[str, float | None]:
    return {result.student: result.score for result in summary.results}


def graded(summary: Any) -> set[str]:
    return {result.student for result in summary.results if result.graded}


def test_every_kind_of_submission_gets_its_score(course: Path, standin: Any, book: Callable[..., Any]) -> None:
    made = fill(course, 2 * len(KINDS))
    summary = grade_lesson(course, LESSON, jobs=2)
    assert scores(summary) == {student: kind.score for student, kind in made.items()}
    records, rows = load_records(course, LESSON), book(course)
    assert {student: record.score for student, record in records.items()} == scores(summary)
    for student, kind in made.items():
        assert rows[student].maximum == MAXIMUM == records[student].maximum
        assert rows[student].score == (kind.score or 0.0)
    assert standin.starters[0].closed
    assert len(summary.problems) == 2 and not summary.ok


def test_written_answers_wait_for_a_person_and_untouched_ones_do_not(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    submit(course, "ada", content(*RIGHT, "It grows."))
    submit(course, "bob", content(*RIGHT))
    submit(course, "eve", b"no notebook")
    grade_lesson(course, LESSON, jobs=1)
    rows = book(course)
    assert rows["ada"].waiting == {"why"} and rows["ada"].points["why"] is None
    assert not rows["bob"].waiting and rows["bob"].points["why"] == 0
    assert rows["eve"].waiting == {"why", "square-test", "cube-test"}
    assert "The file is not a notebook." in rows["eve"].comments.values()
    shown = nbformat.read(course / "autograded" / "eve" / LESSON / f"{LESSON}.ipynb", as_version=4)
    assert "The file is not a notebook" in shown.cells[0].source.replace("\\", "")
    assert all(cell.outputs[0].output_type == "error" for cell in shown.cells if cell.id in ("cell-2", "cell-4"))
    assert "x * x" not in "".join(cell.source for cell in shown.cells)


def test_a_second_run_grades_only_what_changed(course: Path, standin: Any) -> None:
    fill(course, 4)
    first = grade_lesson(course, LESSON, jobs=1)
    assert grade_lesson(course, LESSON, jobs=1).graded == 0
    assert len(standin.hosts) == 1, "nothing to do starts nothing"
    submit(course, "s0002", content(*RIGHT))
    submit(course, "new", content(*WRONG))
    second = grade_lesson(course, LESSON, jobs=1)
    assert graded(second) == {"s0002", "new"}
    assert scores(second) == scores(first) | {"s0002": 5.0, "new": 0.0}


def _other_time(root: Path) -> None:
    (root / "submitted" / "ada" / LESSON / "timestamp.txt").write_text("2026-01-02 10:00:00 UTC", "utf-8")


def _other_source(root: Path) -> None:
    path = root / "source" / LESSON / f"{LESSON}.ipynb"
    path.write_text(path.read_text("utf-8").replace("# Powers", "# Powers of x"), "utf-8")


def _other_file(root: Path) -> None:
    (root / "source" / LESSON / "data.csv").write_text("1,2", "utf-8")


def _no_autograded(root: Path) -> None:
    shutil.rmtree(root / "autograded" / "ada")


def _no_gradebook(root: Path) -> None:
    (root / "gradebook.db").unlink()


def _damaged_record(root: Path) -> None:
    record_path(root, LESSON, "ada").write_text('{"form": 1, "parts": [', "utf-8")


def _no_record(root: Path) -> None:
    record_path(root, LESSON, "ada").unlink()


@pytest.mark.parametrize(
    "change", [_other_time, _other_source, _other_file, _no_autograded, _no_gradebook, _damaged_record, _no_record]
)
def test_what_makes_a_submission_be_graded_again(
    course: Path, standin: Any, book: Callable[..., Any], change: Callable[[Path], None]
) -> None:
    submit(course, "ada", content(*RIGHT))
    grade_lesson(course, LESSON, jobs=1)
    change(course)
    again = grade_lesson(course, LESSON, jobs=1)
    assert graded(again) == {"ada"} and scores(again) == {"ada": 5.0}
    assert book(course)["ada"].score == 5
    assert (course / "autograded" / "ada" / LESSON / f"{LESSON}.ipynb").is_file()
    assert ("damaged" in str(again.told)) == (change is _damaged_record)
    assert grade_lesson(course, LESSON, jobs=1).graded == 0


def test_it_is_said_why_a_class_that_handed_in_nothing_new_is_graded_again(course: Path, standin: Any) -> None:
    fill(course, 3)
    grade_lesson(course, LESSON, jobs=1)
    said: list[str] = []
    assert grade_lesson(course, LESSON, jobs=1, tell=lambda _, sentence: said.append(sentence)).graded == 0
    assert not any("graded again" in sentence for sentence in said)
    _other_source(course)
    again = grade_lesson(course, LESSON, jobs=1, tell=lambda _, sentence: said.append(sentence))
    assert again.graded == 3
    assert next(s for s in said if "graded again" in s).startswith("3 were graded under another source")


def test_a_time_that_cannot_be_read_deserves_a_look(course: Path, standin: Any) -> None:
    submit(course, "ada", content(*RIGHT))
    (course / "submitted" / "ada" / LESSON / "timestamp.txt").write_text("yesterday", "utf-8")
    (found,) = grade_lesson(course, LESSON, jobs=1).results
    assert (found.status, found.score) == ("partly", 5.0)
    assert "'timestamp.txt' holds no time" in found.reason


def test_fresh_grades_everybody_and_student_only_those(course: Path, standin: Any) -> None:
    fill(course, 3)
    assert graded(grade_lesson(course, LESSON, students=["s0001"], jobs=1)) == {"s0001"}
    assert graded(grade_lesson(course, LESSON, jobs=1)) == {"s0000", "s0002"}
    assert graded(grade_lesson(course, LESSON, jobs=1, fresh=True)) == {"s0000", "s0001", "s0002"}
    with pytest.raises(GradingError, match=r"'s001' has handed in nothing.* did you mean 's0001'"):
        grade_lesson(course, LESSON, students=["s001"])


def test_a_folder_without_a_notebook_is_missing_and_enters_nothing(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    submit(course, "ada", content(*RIGHT))
    (course / "submitted" / "bob" / LESSON).mkdir(parents=True)
    summary = grade_lesson(course, LESSON, jobs=1)
    assert {r.student: r.status for r in summary.results} == {"ada": "graded", "bob": "missing"}
    assert summary.ok and "1 without a notebook" in summary.lines()[0]
    assert book(course).keys() == {"ada"}
    assert grade_lesson(course, LESSON, jobs=1).graded == 0


def test_a_deleted_submission_keeps_its_score_and_that_is_said(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    submit(course, "ada", content(*RIGHT))
    grade_lesson(course, LESSON, jobs=1)
    shutil.rmtree(course / "submitted" / "ada")
    summary = grade_lesson(course, LESSON, jobs=1)
    assert "is gone since it was graded; its score of 5 is kept" in dict(summary.told)["ada"]
    assert book(course)["ada"].score == 5 and load_records(course, LESSON)["ada"].score == 5


def test_a_submission_is_never_changed_and_its_files_come_along(course: Path, standin: Any) -> None:
    (course / "source" / LESSON / "data.csv").write_text("right", "utf-8")
    folder = submit(course, "ada", content(*RIGHT), stamp="2026-01-01 10:00:00 UTC")
    for name, text in {"data.csv": "changed", "mine.txt": "mine", "submission_secret.txt": "abc"}.items():
        (folder / name).write_text(text, "utf-8")
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    grade_lesson(course, LESSON, jobs=1)
    assert {path: path.read_bytes() for path in folder.rglob("*")} == before
    made = course / "autograded" / "ada" / LESSON
    found = {path.name: path.read_text("utf-8") for path in made.iterdir() if path.suffix != ".ipynb"}
    assert found == {
        "data.csv": "right",
        "mine.txt": "mine",
        "submission_secret.txt": "abc",
        "timestamp.txt": "2026-01-01 10:00:00 UTC",
    }
    assert {path.stat().st_mode & 0o777 for path in made.iterdir()} == {0o444}
    assert not [path.name for path in made.parent.iterdir() if path.name.startswith(".")]


def test_release_is_not_touched_and_what_is_kept_is_private(course: Path, standin: Any) -> None:
    submit(course, "ada", content(*RIGHT))
    grade_lesson(course, LESSON, jobs=1)
    assert not (course / "release").exists()
    for path in (course / "grading").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    log = (course / "grading" / "logs" / LESSON / "ada.log").read_text("utf-8")
    assert "score 5 of 7" in log and "square-test: 2 of 2, right" in log and log.endswith("ran\n")


def test_the_digest_of_now_is_that_of_the_record_until_something_changes(course: Path, standin: Any) -> None:
    submit(course, "ada", content(*RIGHT))
    grade_lesson(course, LESSON, jobs=1)
    record, place, settings = load_records(course, LESSON)["ada"], open_place(course), load_settings(course)
    assert digest_now(place, LESSON, "ada", settings) == record.submission != ""
    submit(course, "ada", content(*WRONG))
    assert digest_now(place, LESSON, "ada", settings) != record.submission
    assert digest_now(place, LESSON, "bob", settings) == ""


def test_a_record_comes_back_from_its_file_as_it_was(course: Path, standin: Any) -> None:
    from ampcourse.grading import records

    submit(course, "ada", content(*RIGHT, "It grows."))
    grade_lesson(course, LESSON, jobs=1)
    record = load_records(course, LESSON)["ada"]
    part = dataclasses.replace(record.parts[0], reason="é \ud800 \x00", repairs=("a",), notes=("b", "c"))
    changed = dataclasses.replace(record, parts=(part,), late_penalty=1.5)
    records.save_record(course, changed)
    assert load_records(course, LESSON) == {"ada": changed}
    assert record.questions[0].score == 2 and record.score == 5 and record.sandbox == "unsafe"


def test_graded_cells_that_were_added_after_the_class_was_graded_are_refused(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    submit(course, "ada", content(*RIGHT))
    grade_lesson(course, LESSON, jobs=1)
    path = course / "source" / LESSON / f"{LESSON}.ipynb"
    source = path.read_text("utf-8")
    path.write_text(source.replace('"cube-test"', '"other-test"'), "utf-8")
    with pytest.raises(GradingError, match=r"added: ps1: other-test; removed: ps1: cube-test.*db assignment remove"):
        grade_lesson(course, LESSON, jobs=1)
    assert book(course)["ada"].score == 5
    path.write_text(source.replace('"points": 3', '"points": 4'), "utf-8")
    grade_lesson(course, LESSON, jobs=1)
    assert book(course)["ada"].maximum == 8


def test_there_is_no_such_lesson(course: Path, standin: Any) -> None:
    with pytest.raises(GradingError, match="there are: ps1"):
        grade_lesson(course, "ps2")
    for name in ("", "../ps1", ".", "a/b", f"{LESSON}/"):
        with pytest.raises(GradingError, match=f"'{name}' is no name"):
            grade_lesson(course, name)
    with pytest.raises(GradingError, match="is not a folder"):
        grade_lesson(course / "nowhere", LESSON)


def test_a_link_in_place_of_a_folder_brings_nothing_of_another_student(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    folder = submit(course, "ada", content(*RIGHT), stamp="2026-01-01 10:00:00 UTC")
    (folder / "submission_secret.txt").write_text("ada's own", "utf-8")
    for student, link in {"eve": folder, "bob": folder.parent}.items():
        place = course / "submitted" / student
        if student == "eve":
            place.mkdir()
            place = place / LESSON
        place.symlink_to(link)
    summary = grade_lesson(course, LESSON, jobs=1)
    assert {r.student: r.score for r in summary.results} == {"ada": 5, "bob": None, "eve": None}
    for student in ("bob", "eve"):
        assert not (course / "autograded" / student / LESSON / "submission_secret.txt").exists()
        assert "a link" in next(r.reason for r in summary.results if r.student == student)


@pytest.mark.parametrize("name", ["ada lovelace", "o'brien", "zoë", "a+b (2)", 'quo"te'])
def test_awkward_names_are_graded(course: Path, standin: Any, book: Callable[..., Any], name: str) -> None:
    submit(course, name, content(*RIGHT))
    assert scores(grade_lesson(course, LESSON, jobs=1)) == {name: 5.0}
    assert book(course)[name].score == 5 and load_records(course, LESSON)[name].score == 5
    assert grade_lesson(course, LESSON, jobs=1).graded == 0


@pytest.mark.parametrize("name", ["bad\nname", "x" * 200, "a[b]", "bell\a"])
def test_names_that_cannot_be_kept_are_said_and_harm_nobody(course: Path, standin: Any, name: str) -> None:
    submit(course, "ada", content(*RIGHT))
    submit(course, name, content(*RIGHT))
    summary = grade_lesson(course, LESSON, jobs=1)
    results = {r.student: r for r in summary.results}
    assert results["ada"].score == 5 and results[name].status == "failed" and "rename" in results[name].reason
    assert (summary.graded, summary.up_to_date, summary.ok) == (1, 0, False)


def test_files_of_a_student_never_stand_in_the_way_of_the_courses(course: Path, standin: Any) -> None:
    (course / "source" / LESSON / "data").write_text("the course's", "utf-8")
    folder = submit(course, "ada", content(*RIGHT))
    (folder / "data").mkdir()
    (folder / "data" / "x.txt").write_text("mine", "utf-8")
    assert scores(grade_lesson(course, LESSON, jobs=1)) == {"ada": 5.0}
    assert (course / "autograded" / "ada" / LESSON / "data").read_text("utf-8") == "the course's"
