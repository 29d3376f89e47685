"""nbgrader's gradebook in a real PostgreSQL server."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import KINDS, LESSON, RIGHT, WRONG, fill, filled, make_course, submit

from ampcourse.grading import database
from ampcourse.grading.batch import grade_lesson
from ampcourse.grading.database import reading
from ampcourse.grading.model import GradingError

pytestmark = pytest.mark.postgresql


def programs() -> Path | None:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = str(places[-1]) if places else shutil.which("initdb")
    return Path(found).parent if found else None


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The folder of its socket. PostgreSQL refuses to run as root, so another user runs it then."""
    place = programs()
    if place is None:
        pytest.skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as name:
        folder, other = Path(name), []
        if os.getuid() == 0:
            user = next((u for u in pwd.getpwall() if u.pw_name == "postgres"), pwd.getpwnam("nobody"))
            os.chown(folder, user.pw_uid, user.pw_gid)
            other = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

        def run(*command: str) -> None:
            full = [*other, str(place / command[0]), *command[1:]]
            subprocess.run(full, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=120)

        run("initdb", "-D", f"{folder}/data", "-U", "amp", "-A", "trust", "-E", "UTF8", "--no-sync")
        control = ("pg_ctl", "-D", f"{folder}/data", "-w")
        run(*control, "-l", f"{folder}/log", "-o", f"-k {folder} -c listen_addresses='' -c fsync=off", "start")
        try:
            yield name
        finally:
            run(*control, "-m", "immediate", "stop")


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> Iterator[str]:
    import psycopg2

    admin = psycopg2.connect(host=server, user="amp", dbname="postgres")
    admin.autocommit = True
    with admin.cursor() as cursor:
        cursor.execute("drop database if exists course")
        cursor.execute("create database course")
    yield f"postgresql://amp@/course?host={server}"
    admin.close()


def test_a_class_is_graded_and_regraded(course: Path, standin: Any, book: Callable[..., Any], url: str) -> None:
    made = fill(course, len(KINDS))
    grade_lesson(course, LESSON, jobs=2, db=url)
    assert {s: row.score for s, row in book(course, url).items()} == {s: k.score or 0 for s, k in made.items()}
    assert not (course / "gradebook.db").exists()
    assert grade_lesson(course, LESSON, jobs=2, db=url).graded == 0
    submit(course, "s0000", nbformat.writes(filled(RIGHT[0], WRONG[1])).encode())
    assert grade_lesson(course, LESSON, jobs=2, db=url).graded == 1
    assert book(course, url)["s0000"].score == 2
    assert grade_lesson(course, LESSON, jobs=2).graded == len(made), "another gradebook knows nobody yet"


def test_it_is_the_same_gradebook_as_in_sqlite(
    tmp_path: Path, standin: Any, book: Callable[..., Any], url: str
) -> None:
    one = make_course(tmp_path / "one", "c.LateSubmissionPlugin.penalty_method = 'zero'")
    made = fill(one, len(KINDS))
    for student in made:
        (one / "submitted" / student / LESSON / "timestamp.txt").write_text("2026-01-03 10:00:00 +0200", "utf-8")
    for db in (None, url):
        grade_lesson(one, LESSON, jobs=1, db=db, students=["s0000"])
        with reading(one, db) as gradebook:
            gradebook.update_or_create_assignment(LESSON, duedate="2026-01-01 10:00:00 UTC")
        grade_lesson(one, LESSON, jobs=2, db=db, fresh=True)
    sqlite, postgresql = book(one), book(one, url)
    assert sqlite == postgresql and sqlite["s0000"].penalty == 5


def test_nbgraders_own_commands_read_it(tmp_path: Path, standin: Any, url: str) -> None:
    own = url.replace("postgresql:", "postgresql+psycopg2:")
    course = make_course(tmp_path / "course", f"c.CourseDirectory.db_url = {own!r}")
    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    grade_lesson(course, LESSON, jobs=1)
    command = [str(Path(sys.executable).parent / "nbgrader"), "export", "--to", "grades.csv"]
    subprocess.run(command, cwd=course, check=True, capture_output=True, timeout=120)
    assert ",ada," in (course / "grades.csv").read_text("utf-8")
    with reading(course) as gradebook:
        grade = gradebook.find_grade("why", LESSON, LESSON, "ada")
        grade.manual_score = 2
        gradebook.db.commit()
    grade_lesson(course, LESSON, jobs=1, fresh=True)
    with reading(course) as gradebook:
        assert gradebook.find_submission(LESSON, "ada").score == 7


def test_odd_text_and_long_names_cost_nobody_else_anything(
    course: Path, standin: Any, book: Callable[..., Any], url: str
) -> None:
    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    submit(course, "é" * 100, nbformat.writes(filled(*RIGHT)).encode())
    submit(course, "x" * 200, nbformat.writes(filled(*RIGHT)).encode())
    results = {r.student: r for r in grade_lesson(course, LESSON, jobs=1, db=url).results}
    assert results["ada"].score == 5
    assert results["x" * 200].status == "failed" and results["x" * 200].reason
    assert book(course, url)["ada"].score == 5


def test_rows_that_another_program_holds_are_waited_for(
    course: Path, standin: Any, book: Callable[..., Any], url: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg2

    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    grade_lesson(course, LESSON, jobs=1, db=url)
    submit(course, "ada", nbformat.writes(filled(RIGHT[0], WRONG[1])).encode())
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.5)
    holder = psycopg2.connect(host=server, user="amp", dbname="course")
    with holder.cursor() as cursor:
        cursor.execute("lock table grade in access exclusive mode")
        with pytest.raises(GradingError, match="was locked by another program"):
            grade_lesson(course, LESSON, jobs=1, db=url)
    holder.rollback()
    holder.close()
    assert book(course, url)["ada"].score == 5
    grade_lesson(course, LESSON, jobs=1, db=url)
    assert book(course, url)["ada"].score == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda url: url.replace("/course?", "/nowhere?"), 'database "nowhere" does not exist'),
        (lambda url: url.replace("//amp@", "//eve:secret@"), 'role "eve" does not exist'),
        (lambda url: f"{url}/nowhere", "is the server running"),
    ],
)
def test_what_a_server_refuses_is_one_sentence(
    course: Path, standin: Any, url: str, change: Callable[[str], str], says: str
) -> None:
    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    with pytest.raises(GradingError, match=says) as caught:
        grade_lesson(course, LESSON, jobs=1, db=change(url))
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)
