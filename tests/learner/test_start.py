"""`ampcourse start`: copies, updates, and never costs a learner a line of work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampcourse.course import Course, CourseError, load_course
from ampcourse.learner import ledger
from ampcourse.learner.start import Started, StartError, report, start

from .conftest import TOML, hand_out


def whats(started: Started) -> dict[str, str]:
    return {step.name: step.what for step in started.steps}


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


ALL_NEW = {"01_tiny.ipynb": "new", "02_small.ipynb": "new"}


@pytest.mark.parametrize("name", ["lessons", "mit Leerzeichen/Übung 気温", "deep/er/still"])
def test_copies_every_lesson_into_a_folder_that_did_not_exist(small_course: Course, tmp_path: Path, name: str) -> None:
    started = start(tmp_path / name, small_course)
    assert whats(started) == ALL_NEW
    for lesson in small_course.lessons:
        assert (tmp_path / name / f"{lesson.slug}.ipynb").read_bytes() == small_course.release(lesson).read_bytes()


def test_a_second_call_changes_nothing(small_course: Course, tmp_path: Path) -> None:
    start(tmp_path / "d", small_course)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "d").iterdir()}
    assert set(whats(start(tmp_path / "d", small_course)).values()) == {"unchanged"}
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "d").iterdir()} == before


def test_files_that_lie_beside_a_lesson_come_along(small_course: Course, tmp_path: Path) -> None:
    picture = small_course.root / "release" / "01_tiny" / "pictures" / "a b.png"
    picture.parent.mkdir()
    picture.write_bytes(b"png")
    hidden = small_course.root / "release" / "01_tiny" / ".ipynb_checkpoints" / "x.ipynb"
    hidden.parent.mkdir()
    hidden.write_bytes(b"old")
    start(tmp_path / "d", small_course)
    assert set(content(tmp_path / "d")) == {*ALL_NEW, "pictures/a b.png", ledger.NAME}


def test_untouched_copies_are_updated_when_the_course_has_a_newer_version(small_course: Course, tmp_path: Path) -> None:
    start(tmp_path / "d", small_course)
    hand_out(small_course, "01_tiny", "# Tiny, better")
    assert whats(start(tmp_path / "d", small_course)) == {"01_tiny.ipynb": "updated", "02_small.ipynb": "unchanged"}
    assert b"better" in (tmp_path / "d" / "01_tiny.ipynb").read_bytes()
    assert not list((tmp_path / "d").glob("*.new*"))


def test_work_is_kept_and_the_newer_version_laid_beside_once(small_course: Course, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    start(folder, small_course)
    (folder / "01_tiny.ipynb").write_text("my work")
    assert whats(start(folder, small_course))["01_tiny.ipynb"] == "yours"
    assert not (folder / "01_tiny.new.ipynb").exists()

    hand_out(small_course, "01_tiny", "# Second")
    started = start(folder, small_course)
    assert whats(started)["01_tiny.ipynb"] == "yours, newer beside"
    assert "01_tiny.new.ipynb" in started.steps[0].note
    assert (folder / "01_tiny.ipynb").read_text() == "my work"
    assert b"Second" in (folder / "01_tiny.new.ipynb").read_bytes()

    hand_out(small_course, "01_tiny", "# Third")  # the untouched .new follows the course
    start(folder, small_course)
    assert b"Third" in (folder / "01_tiny.new.ipynb").read_bytes()
    assert len(list(folder.glob("*.new*"))) == 1

    (folder / "01_tiny.new.ipynb").unlink()  # the learner is done with it
    assert whats(start(folder, small_course))["01_tiny.ipynb"] == "yours"
    assert not (folder / "01_tiny.new.ipynb").exists()


def test_work_done_in_the_new_file_is_kept_too(small_course: Course, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    start(folder, small_course)
    (folder / "01_tiny.ipynb").write_text("my work")
    hand_out(small_course, "01_tiny", "# Second")
    start(folder, small_course)
    (folder / "01_tiny.new.ipynb").write_text("my work there")
    hand_out(small_course, "01_tiny", "# Third")
    start(folder, small_course)
    assert (folder / "01_tiny.new.ipynb").read_text() == "my work there"
    assert b"Third" in (folder / "01_tiny.new2.ipynb").read_bytes()


def test_deleted_copies_are_put_back_and_new_lessons_added(small_course: Course, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    start(folder, small_course)
    (folder / "01_tiny.ipynb").unlink()
    assert whats(start(folder, small_course)) == {"01_tiny.ipynb": "put back", "02_small.ipynb": "unchanged"}
    toml = small_course.root / "course.toml"
    toml.write_text(toml.read_text() + TOML[TOML.index('[[lesson]]\nslug = "02') :].replace("02_small", "03_late"))
    hand_out(small_course, "03_late", "# Late")
    assert whats(start(folder, load_course(small_course.root)))["03_late.ipynb"] == "new"


def test_foreign_files_are_left_alone_even_under_a_lessons_name(small_course: Course, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "01_tiny.ipynb").write_text("also mine")
    assert whats(start(folder, small_course))["01_tiny.ipynb"] == "yours, newer beside"
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "01_tiny.ipynb").read_text() == "also mine"
    before = content(folder)
    start(folder, small_course)
    assert content(folder) == before


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"files": 3}', '{"files": {"01_tiny.ipynb": {}}}', "\udcff", "[" * 5000]
)
def test_a_damaged_record_costs_no_work(small_course: Course, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "d"
    start(folder, small_course)
    (folder / "01_tiny.ipynb").write_text("my work")
    (folder / ledger.NAME).write_bytes(damage.encode("utf-8", "surrogateescape"))
    hand_out(small_course, "01_tiny", "# Second")
    hand_out(small_course, "02_small", "# Second")
    assert set(whats(start(folder, small_course)).values()) == {"yours, newer beside"}
    assert (folder / "01_tiny.ipynb").read_text() == "my work"


def test_links_are_neither_followed_nor_replaced(small_course: Course, tmp_path: Path) -> None:
    folder, outside = tmp_path / "d", tmp_path / "outside.ipynb"
    folder.mkdir()
    outside.write_text("not ours")
    (folder / "01_tiny.ipynb").symlink_to(outside)
    (folder / "02_small.ipynb").symlink_to(tmp_path / "nowhere")
    (folder / ledger.NAME).symlink_to(outside)
    (folder / "01_tiny.new.ipynb").symlink_to(tmp_path / "nowhere")
    started = start(folder, small_course)
    assert all("left alone" in step.note for step in started.steps)
    assert outside.read_text() == "not ours"
    assert not (tmp_path / "nowhere").exists()
    assert (folder / "01_tiny.ipynb").is_symlink()
    assert (folder / "01_tiny.new2.ipynb").is_file()


def test_a_linked_subfolder_that_leads_outside_is_refused(small_course: Course, tmp_path: Path) -> None:
    picture = small_course.root / "release" / "01_tiny" / "pictures" / "a.png"
    picture.parent.mkdir()
    picture.write_bytes(b"png")
    (tmp_path / "outside").mkdir()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "pictures").symlink_to(tmp_path / "outside")
    with pytest.raises(StartError, match="leads out of"):
        start(tmp_path / "d", small_course)
    assert content(tmp_path / "outside") == content(tmp_path / "d") == {}


def test_a_folder_or_pipe_in_a_lessons_place_is_left_alone(small_course: Course, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    (folder / "01_tiny.ipynb").mkdir(parents=True)
    os.mkfifo(folder / "02_small.ipynb")
    assert set(whats(start(folder, small_course)).values()) == {"yours, newer beside"}
    assert (folder / "01_tiny.ipynb").is_dir()


def test_a_file_a_dangling_link_or_the_course_itself_is_no_place(small_course: Course, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for bad in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "link"):
        with pytest.raises(StartError, match="folder"):
            start(bad, small_course)
    for bad in (small_course.root, small_course.root / "release" / "01_tiny", small_course.root / "mine"):
        with pytest.raises(StartError, match="course itself"):
            start(bad, small_course)
    assert (tmp_path / "file").read_text() == "x"
    assert not (small_course.root / "mine").exists()


def test_a_link_to_a_folder_is_followed_because_the_learner_named_it(small_course: Course, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert whats(start(tmp_path / "link", small_course)) == ALL_NEW
    assert (tmp_path / "real" / "01_tiny.ipynb").is_file()


def test_a_course_without_its_release_says_so(small_course: Course, tmp_path: Path) -> None:
    small_course.release(small_course.lessons[1]).unlink()
    with pytest.raises(CourseError, match="ampcourse release"):
        start(tmp_path / "d", small_course)
    assert not (tmp_path / "d").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(small_course: Course) -> None:
    for place in ("/proc/ampcourse-lessons", "/proc"):
        with pytest.raises(StartError, match=f"'{place}' cannot be used .* nothing was changed") as caught:
            start(Path(place), small_course)
        assert "\n" not in str(caught.value)


FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from pathlib import Path
from ampcourse.course import load_course
from ampcourse.learner.start import StartError, start
course = load_course(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    start(Path(sys.argv[2]), course)
except StartError as error:
    print(error)
else:
    print("no error")
"""


@pytest.mark.parametrize("limit", [0, 100, 2000])
@pytest.mark.parametrize("existing", [False, True])
def test_a_write_that_fails_half_way_leaves_nothing(
    small_course: Course, tmp_path: Path, limit: int, existing: bool
) -> None:
    """The kernel itself refuses to write more than `limit` bytes to a file, as a full disk would."""
    hand_out(small_course, "02_small", "x" * 5000)
    folder = tmp_path / "parent" / "d"
    if existing:
        folder.mkdir(parents=True)
        (folder / "mine.txt").write_text("mine")
    arguments = [sys.executable, "-c", FULL_DISK, str(small_course.root), str(folder), str(limit)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "nothing was changed" in done.stdout
    assert done.stdout.count("\n") == 1
    if existing:
        assert content(folder) == {"mine.txt": b"mine"}
    else:
        assert not (tmp_path / "parent").exists()


def test_the_report_says_what_is_new_and_how_to_go_on(
    small_course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my lessons"
    report(start(folder, small_course))
    assert "2 new" in capsys.readouterr().out
    (folder / "01_tiny.ipynb").write_text("work")
    (folder / "02_small.ipynb").unlink()
    hand_out(small_course, "01_tiny", "# Second")
    report(start(folder, small_course))
    said = capsys.readouterr().out
    for part in ("1 put back", "1 yours, newer beside", "see 01_tiny.new.ipynb", f"jupyter lab '{folder}'"):
        assert part in said
    report(start(folder, small_course))
    assert "put back" not in capsys.readouterr().out


ACTIONS = st.lists(
    st.sampled_from(["start", "edit", "edit new", "delete", "delete new", "course", "forget"]), min_size=1, max_size=12
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
def test_no_order_of_events_loses_what_a_learner_wrote(
    small_course: Course, tmp_path_factory: pytest.TempPathFactory, actions: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("any") / "d"
    start(folder, small_course)
    mine: dict[Path, str] = {}
    for number, action in enumerate(actions):
        path = folder / ("01_tiny.new.ipynb" if "new" in action else "01_tiny.ipynb")
        if action == "start":
            start(folder, small_course)
        elif action == "course":
            hand_out(small_course, "01_tiny", f"# Version {number}")
        elif action == "forget":
            (folder / ledger.NAME).unlink(missing_ok=True)
        elif action.startswith("edit"):
            path.write_text(mine.setdefault(path, f"work {number}"))
        else:
            path.unlink(missing_ok=True)
            mine.pop(path, None)
        assert {path: path.read_text() for path in mine} == mine
    first = start(folder, small_course)
    before = content(folder)
    assert {path: path.read_text() for path in mine} == mine
    assert not any(step.target for step in start(folder, small_course).steps), first
    assert content(folder) == before
