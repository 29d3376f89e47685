"""What stands in nbgrader's gradebook after grading, and what a person has put there stays."""

from __future__ import annotations

import datetime
import errno
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import LESSON, RIGHT, WRONG, filled, make_course, submit

from ampcourse.grading import database, decisions
from ampcourse.grading.batch import grade_lesson, store
from ampcourse.grading.database import reading
from ampcourse.grading.model import GradingError

LATE = "c.LateSubmissionPlugin.penalty_method = 'zero'"


def hand_in(root: Path, square: str = RIGHT[0], cube: str = RIGHT[1], why: str | None = None, stamp: str = "") -> None:
    submit(root, "ada", nbformat.writes(filled(square, cube, why)).encode(), stamp=stamp)


def by_hand(root: Path, **points: float) -> None:
    """What formgrader does when a person gives points."""
    with reading(root) as gradebook:
        for name, score in points.items():
            grade = gradebook.find_grade(name.replace("_", "-"), LESSON, LESSON, "ada")
            grade.manual_score, grade.needs_manual_grade = score, False
        gradebook.db.commit()


def due(root: Path, when: str) -> None:
    with reading(root) as gradebook:
        gradebook.update_or_create_assignment(LESSON, duedate=when)


def test_points_given_by_hand_stay_and_nobody_is_asked_again(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    hand_in(course, why="It grows.")
    grade_lesson(course, LESSON, jobs=1)
    by_hand(course, why=1.5)
    hand_in(course, cube=WRONG[1], why="It grows.")
    grade_lesson(course, LESSON, jobs=1)
    row = book(course)["ada"]
    assert row.manual["why"] == 1.5 and not row.waiting and row.score == 2 + 0 + 1.5


def test_a_person_is_asked_again_where_a_written_answer_was_rewritten(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    hand_in(course, why="It grows.")
    grade_lesson(course, LESSON, jobs=1)
    by_hand(course, why=1.5)
    hand_in(course, why="It shrinks.")
    grade_lesson(course, LESSON, jobs=1)
    row = book(course)["ada"]
    assert row.manual["why"] == 1.5 and row.waiting == {"why"}
    grade_lesson(course, LESSON, jobs=1, fresh=True)
    assert book(course)["ada"].waiting == {"why"}, "until a person has looked"


def test_the_text_before_is_known_from_the_autograded_notebook_if_the_record_is_lost(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    hand_in(course, why="It grows.")
    grade_lesson(course, LESSON, jobs=1)
    by_hand(course, why=1.5)
    (course / "grading" / "records" / LESSON / "ada.json").unlink()
    grade_lesson(course, LESSON, jobs=1)
    assert not book(course)["ada"].waiting


def test_a_score_put_over_an_automatic_one_is_looked_at_again_only_if_that_changes(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    hand_in(course, cube=WRONG[1])
    grade_lesson(course, LESSON, jobs=1)
    by_hand(course, cube_test=1)
    grade_lesson(course, LESSON, jobs=1, fresh=True)
    assert not book(course)["ada"].waiting and book(course)["ada"].score == 3
    hand_in(course)
    grade_lesson(course, LESSON, jobs=1)
    row = book(course)["ada"]
    assert row.waiting == {"cube-test"} and row.points["cube-test"] == 3 and row.score == 3


def test_extra_credit_and_comments_of_a_person_stay(course: Path, standin: Any, book: Callable[..., Any]) -> None:
    hand_in(course)
    grade_lesson(course, LESSON, jobs=1)
    with reading(course) as gradebook:
        gradebook.find_grade("square-test", LESSON, LESSON, "ada").extra_credit = 0.5
        gradebook.find_comment("square", LESSON, LESSON, "ada").manual_comment = "Well done."
        gradebook.db.commit()
    grade_lesson(course, LESSON, jobs=1, fresh=True)
    with reading(course) as gradebook:
        assert gradebook.find_submission(LESSON, "ada").score == 5.5
        assert gradebook.find_comment("square", LESSON, LESSON, "ada").comment == "Well done."


def test_an_untouched_answer_is_no_response(course: Path, standin: Any, book: Callable[..., Any]) -> None:
    with_stub = filled(RIGHT[0], None)
    next(c for c in with_stub.cells if c.id == "cube").source = "# YOUR CODE HERE\nraise NotImplementedError()"
    submit(course, "ada", nbformat.writes(with_stub).encode())
    grade_lesson(course, LESSON, jobs=1)
    assert book(course)["ada"].comments["cube"] in ("No response.", None)
    assert book(course)["ada"].comments["square"] is None


@pytest.mark.parametrize(("stamp", "penalty"), [("2026-01-03 10:00:00 UTC", 5.0), ("2026-01-01 10:00:00 UTC", None)])
def test_the_late_policy_of_the_course_is_followed(
    tmp_path: Path, standin: Any, book: Callable[..., Any], stamp: str, penalty: float | None
) -> None:
    course = make_course(tmp_path / "course", LATE)
    hand_in(course)
    grade_lesson(course, LESSON, jobs=1)
    due(course, "2026-01-02 10:00:00 UTC")
    hand_in(course, stamp=stamp)
    summary = grade_lesson(course, LESSON, jobs=1)
    row = book(course)["ada"]
    assert (row.penalty or None) == penalty == summary.results[0].late_penalty
    assert row.timestamp == datetime.datetime.strptime(stamp[:10], "%Y-%m-%d").replace(hour=10)


def test_an_instructors_own_late_policy(tmp_path: Path, standin: Any, book: Callable[..., Any]) -> None:
    own = (
        "from nbgrader.plugins import LateSubmissionPlugin\n"
        "class Own(LateSubmissionPlugin):\n"
        "    def late_submission_penalty(self, student_id, score, total_seconds_late):\n"
        "        return {body}\n"
        "c.AssignLatePenalties.plugin_class = Own"
    )
    course = make_course(tmp_path / "course", own.format(body="total_seconds_late / 3600"))
    hand_in(course, stamp="2026-01-02 12:00:00 UTC")
    grade_lesson(course, LESSON, jobs=1)
    due(course, "2026-01-02 10:00:00 UTC")
    grade_lesson(course, LESSON, jobs=1, fresh=True)
    assert book(course)["ada"].penalty == 2
    (course / "nbgrader_config.py").write_text(f"c = get_config()\n{own.format(body='1 / 0')}", "utf-8")
    failed = grade_lesson(course, LESSON, jobs=1, fresh=True).results[0]
    assert failed.status == "failed" and "late policy failed for 'ada': division by zero" in failed.reason
    assert book(course)["ada"].penalty == 2 and book(course)["ada"].score == 5


@pytest.mark.parametrize(
    "stamp",
    [
        "yesterday",
        "9" * 5000,
        "\x00",
        "2026-99-99 10:00:00 UTC",
        "é" * 50,
        "2026-01-01 10:00:00 /etc/passwd",
        "link",
        "dir",
    ],
)
def test_a_time_that_cannot_be_read_costs_nothing(
    course: Path, standin: Any, book: Callable[..., Any], tmp_path: Path, stamp: str
) -> None:
    hand_in(course)
    path = course / "submitted" / "ada" / LESSON / "timestamp.txt"
    if stamp == "link":
        path.symlink_to("/etc/hostname")
    elif stamp == "dir":
        path.mkdir()
    else:
        path.write_text(stamp, "utf-8")
    summary = grade_lesson(course, LESSON, jobs=1)
    assert summary.results[0].score == 5
    log = (course / "grading" / "logs" / LESSON / "ada.log").read_text("utf-8")
    assert book(course)["ada"].timestamp is None and "timestamp.txt" in log


def test_a_question_that_was_decided_counts_as_right_for_all(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    hand_in(course, cube=WRONG[1])
    submit(course, "eve", b"no notebook")
    grade_lesson(course, LESSON, jobs=1)
    decisions.add(course, decisions.decide(LESSON, "cube-test", "It was ambiguous."))
    summary = grade_lesson(course, LESSON, jobs=1, fresh=True)
    assert book(course)["ada"].score == 5 and summary.results[0].score == 2, "the record keeps what was judged"
    assert book(course)["eve"].score == 0


def test_a_locked_gradebook_is_waited_for(
    course: Path, standin: Any, book: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in(course)
    grade_lesson(course, LESSON, jobs=1)
    hand_in(course, cube=WRONG[1])
    hold = (
        "import sqlite3, sys, time; b = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "b.execute('begin exclusive'); print('held', flush=True); time.sleep(4); b.execute('rollback')"
    )
    command = [sys.executable, "-c", hold, str(course / "gradebook.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        said: list[str] = []
        grade_lesson(course, LESSON, jobs=1, tell=lambda level, sentence: said.append(sentence))
    assert any("is locked by another program; waiting for it" in sentence for sentence in said)
    assert book(course)["ada"].score == 2


def test_a_gradebook_that_stays_locked_is_said_and_nothing_has_changed(
    course: Path, standin: Any, book: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in(course)
    grade_lesson(course, LESSON, jobs=1)
    hand_in(course, cube=WRONG[1])
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.5)
    holder = sqlite3.connect(course / "gradebook.db", isolation_level=None)
    holder.execute("begin exclusive")
    with pytest.raises(GradingError, match="was locked by another program for .* close it and run this again"):
        grade_lesson(course, LESSON, jobs=1)
    holder.execute("rollback")
    holder.close()
    assert book(course)["ada"].score == 5
    grade_lesson(course, LESSON, jobs=1)
    assert book(course)["ada"].score == 2


def test_a_gradebook_locked_in_the_midst_keeps_what_was_written(
    course: Path, standin: Any, book: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        submit(course, f"s{number}", nbformat.writes(filled(*RIGHT)).encode())
    holder = sqlite3.connect(course / "gradebook.db", isolation_level=None, check_same_thread=False)
    holder.close()
    (course / "gradebook.db").unlink()
    held: list[sqlite3.Connection] = []

    def reached(point: str, student: str) -> None:
        if point == "swapped" and not held:
            held.append(sqlite3.connect(course / "gradebook.db", isolation_level=None))
            held[0].execute("begin immediate")

    monkeypatch.setattr(store, "reached", reached)
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.5)
    with pytest.raises(GradingError, match="was locked"):
        grade_lesson(course, LESSON, jobs=1)
    held[0].execute("rollback")
    held[0].close()
    assert len(book(course)) == 1
    assert grade_lesson(course, LESSON, jobs=1).graded == 2
    assert all(row.score == 5 for row in book(course).values())


def test_a_gradebook_that_is_locked_while_the_assignment_is_entered_is_waited_for(
    course: Path, standin: Any, book: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ampcourse.grading import entry

    hand_in(course)
    real, holders = entry._generate, []

    def generate(place: Any, lesson: str) -> None:
        if not holders:
            holders.append(sqlite3.connect(course / "gradebook.db", isolation_level=None, check_same_thread=False))
            holders[0].execute("begin immediate")
            threading.Timer(3, lambda: holders[0].execute("rollback")).start()
        real(place, lesson)

    monkeypatch.setattr(entry, "_generate", generate)
    said: list[str] = []
    grade_lesson(course, LESSON, jobs=1, tell=lambda level, sentence: said.append(sentence))
    assert any("waiting for it" in sentence for sentence in said) and book(course)["ada"].score == 5


@pytest.mark.parametrize("point", ["booked", "filled", "marked", "swapped"])
def test_a_full_disk_is_said_and_old_scores_stay(
    course: Path, standin: Any, book: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    hand_in(course)
    grade_lesson(course, LESSON, jobs=1)
    hand_in(course, cube=WRONG[1])

    def full(here: str, student: str) -> None:
        if here == point:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")

    monkeypatch.setattr(store, "reached", full)
    with pytest.raises(GradingError, match="The disk is full, so 'somewhere' could not be written"):
        grade_lesson(course, LESSON, jobs=1)
    assert book(course)["ada"].score in (5, 2)
    monkeypatch.undo()
    monkeypatch.setattr(store, "reached", lambda *_: None)


def test_a_gradebook_that_is_none(course: Path, standin: Any) -> None:
    hand_in(course)
    (course / "gradebook.db").write_bytes(b"This is not a database, however long it may go on." * 100)
    with pytest.raises(GradingError, match="is damaged, or no gradebook"):
        grade_lesson(course, LESSON, jobs=1)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "URL cannot be read"),
        ("mysterydb://host/x", "of an unknown kind"),
        ("sqlite:////nowhere/at/all/gradebook.db", "its folder does not exist"),
        ("postgresql://ada:secret@127.0.0.1:1/none", r"cannot be reached.*is the server running"),
        ("mysql://ada@127.0.0.1/none", "driver that is not installed"),
    ],
)
def test_a_wrong_url_is_one_sentence_without_the_password(course: Path, standin: Any, url: str, says: str) -> None:
    hand_in(course)
    with pytest.raises(GradingError, match=says) as caught:
        grade_lesson(course, LESSON, jobs=1, db=url)
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_relative_gradebook_is_meant_from_the_course(
    tmp_path: Path, standin: Any, book: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    course = make_course(tmp_path / "course", "c.CourseDirectory.db_url = 'sqlite:///own.db'")
    monkeypatch.chdir(tmp_path)
    hand_in(course)
    grade_lesson(course, LESSON, jobs=1)
    assert (course / "own.db").is_file() and book(course)["ada"].score == 5


def test_asking_a_course_without_a_gradebook_makes_none(course: Path) -> None:
    with pytest.raises(GradingError, match="There is no gradebook yet"), reading(course):
        pass
    assert not (course / "gradebook.db").exists()


def test_students_that_the_course_does_not_know_are_entered_or_refused(
    course: Path, standin: Any, book: Callable[..., Any]
) -> None:
    hand_in(course)
    summary = grade_lesson(course, LESSON, jobs=1, create_students=False)
    assert summary.results[0].status == "failed" and "is no student of the gradebook" in summary.results[0].reason
    assert not book(course)
    grade_lesson(course, LESSON, jobs=1)
    assert book(course)["ada"].score == 5


def test_writing_a_submission_takes_little_time(course: Path, standin: Any) -> None:
    """The head does it for everybody, one after the other."""
    spent: list[float] = []
    real = store.Store.save

    def timed(self: Any, *arguments: Any) -> Any:
        started = time.process_time()
        saved = real(self, *arguments)
        spent.append(time.process_time() - started)
        return saved

    store.Store.save = timed  # type: ignore[method-assign]
    try:
        for number in range(12):
            submit(course, f"s{number}", nbformat.writes(filled(*RIGHT, "It grows.")).encode())
        grade_lesson(course, LESSON, jobs=2)
    finally:
        store.Store.save = real  # type: ignore[method-assign]
    assert sorted(spent)[6] < 0.04
