"""Before term starts: do the release, the source, the points, the gradebook and this machine fit each other?"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat

from ampcourse.course import UserError, load_course
from ampcourse.exercises import private
from ampcourse.exercises.model import BrokenExercise
from ampcourse.grading.cells import about
from ampcourse.grading.desk.survey import gradebook, lists_lessons
from ampcourse.grading.model import Assignment, Graded, QuestionResult, Starter, Submission
from ampcourse.grading.place import Place
from ampcourse.grading.release import is_current
from ampcourse.grading.rules import check_source
from ampcourse.grading.settings import exercises_folder, load_settings

_FREE_MIB = 1024  # what a class's autograded notebooks, records and logs take, generously
_EXTRAS = ("grading",)
_LOCK = Path(__file__).resolve().parents[3] / "requirements.lock"


@dataclass(frozen=True)
class Check:
    """One thing looked at: whether it is as it must be, what was found, and what to do if not."""

    good: bool
    what: str
    found: str
    todo: str = ""


def environment(place: Place) -> Iterator[Check]:
    """This machine: packages, isolation, disk, gradebook, the course's settings."""
    yield _packages()
    yield _locked_versions()
    yield _isolation()
    yield from (_disk(folder) for folder in dict.fromkeys((place.root, Path(tempfile.gettempdir()))))
    yield _settings(place)
    yield _database(place)


def lesson(
    place: Place, name: str, *, exercises_dir: Path | None = None, run: bool = False, unsafe: bool = False
) -> Iterator[Check]:
    """One lesson: source, release, gradebook, questions, and with `run` a right and an untouched submission."""
    with private.using(exercises_folder(place.root, exercises_dir)):
        source = _guarded(f"{name}: source", lambda: _source(place, name))
        yield source
        if not source.good:
            return
        yield _guarded(f"{name}: release", lambda: _release(place, name))
        yield _guarded(f"{name}: gradebook", lambda: _booked(place, name))
        made: list[Assignment] = []
        yield _guarded(f"{name}: questions", lambda: _questions(place, name, exercises_dir, made))
        for assignment in made if run else ():
            yield from _trial(place, assignment, unsafe)


def _guarded(what: str, check: Callable[[], Check]) -> Check:
    """A check whose refusal is its finding."""
    try:
        return replace(check(), what=what)
    except (UserError, BrokenExercise) as error:
        says, _, todo = " ".join(str(error).split()).rpartition(": ")
        return Check(False, what, says or todo, todo if says else "")


def _packages() -> Check:
    from packaging.requirements import Requirement

    wrong, count = [], 0
    for line in metadata.requires("ampcourse") or ():
        asked = Requirement(line)
        if asked.marker and not any(asked.marker.evaluate({"extra": extra}) for extra in ("", *_EXTRAS)):
            continue
        count += 1
        try:
            here = metadata.version(asked.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{asked.name} is missing")
            continue
        if not asked.specifier.contains(here, prereleases=True):
            wrong.append(f"{asked.name} is {here}, not {asked.specifier}")
    if wrong:
        return Check(False, "packages", "; ".join(wrong), "pip install 'ampcourse[grading]', or make setup in a clone")
    python = ".".join(map(str, sys.version_info[:3]))
    return Check(True, "packages", f"all {count} that grading asks for, Python {python}")


def _locked_versions() -> Check:
    if not _LOCK.is_file():
        return Check(True, "versions", "installed as a package, without a lock to compare with")
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", _LOCK.read_text("utf-8"), re.MULTILINE)
    allowed: dict[str, set[str]] = {}
    for name, version in pinned:  # a package can have a version for each Python
        allowed.setdefault(name, set()).add(version)
    different = []
    for name, versions in allowed.items():
        try:
            here = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # for another Python or system, or not asked for here
        if here not in versions:
            different.append(f"{name} is {here}, locked is {' or '.join(sorted(versions))}")
    if different:
        more = f" and {len(different) - 5} more" if len(different) > 5 else ""
        return Check(False, "versions", "; ".join(different[:5]) + more, "make setup")
    return Check(True, "versions", "as locked")


def _isolation() -> Check:
    from ampcourse.grading.sandbox import probe

    layers = probe()
    if layers.complete:
        return Check(True, "isolation", "complete")
    reasons = " ".join(layers.reasons)
    return Check(False, "isolation", reasons or "not complete", "grading refuses here; see docs/threat-model.md")


def _disk(folder: Path) -> Check:
    try:
        free = shutil.disk_usage(folder).free >> 20
    except OSError as error:
        return Check(False, f"disk of '{folder}'", error.strerror or "cannot be read", "choose another place")
    todo = "" if free >= _FREE_MIB else f"free some space: at least {_FREE_MIB} MiB"
    return Check(not todo, f"disk of '{folder}'", f"{free / 1024:.1f} GiB free", todo)


def _settings(place: Place) -> Check:
    def check() -> Check:
        settings = load_settings(place.root)
        says = f"{settings.cell_seconds:g} s a cell, {settings.memory_mib / 1024:g} GiB, {settings.processes} processes"
        return Check(True, "", says)

    return _guarded("limits", check)


def _database(place: Place) -> Check:
    from ampcourse.grading.database import shown

    def check() -> Check:
        with gradebook(place) as session:
            where = shown(place.db_url)
            return Check(True, "", f"{where} can be read" if session else f"{where} is made by the first grading")

    return _guarded("database", check)


def _source(place: Place, name: str) -> Check:
    cells = graded = 0
    points = 0.0
    for notebook in place.notebooks(name):
        path = place.source(name) / f"{notebook}.ipynb"
        try:
            document = nbformat.read(path, as_version=4)
        except Exception as error:
            said = " ".join(str(error).split())[:200]
            return Check(False, "", f"'{path}' cannot be read ({said})", "mend it")
        if listed := _listed(place, name):
            check_source(listed, document)
        cells += len(document.cells)
        for cell in document.cells:
            graded += bool(about(cell).get("grade"))
            points += float(about(cell).get("points", 0)) if about(cell).get("grade") else 0.0
    fits = "as in course.toml" if _listed(place, name) else "course.toml does not list it"
    return Check(True, "", f"{cells} cells, {graded} graded, {points:g} points, {fits}")


def _listed(place: Place, name: str) -> Any | None:
    """The lesson in course.toml; None if it is not listed there, as in a plain course of nbgrader's."""
    if not lists_lessons(place.root / "course.toml"):
        return None
    return next((lesson for lesson in load_course(place.root).lessons if lesson.slug == name), None)


def _release(place: Place, name: str) -> Check:
    if _listed(place, name) is None:
        return Check(True, "", "not looked at: course.toml does not list it")
    if is_current(name, place.root):
        return Check(True, "", "what the source gives, and no solution in it")
    return Check(
        False, "", "it is not what the source gives now", f"nbgrader generate_assignment {name}, in '{place.root}'"
    )


def _booked(place: Place, name: str) -> Check:
    """Whether nbgrader's entry of the assignment has the cells and points of the source."""
    from nbgrader.api import Assignment as Entry

    with gradebook(place) as session:
        query = session.query(Entry).filter(Entry.name == name) if session is not None else None
        entry = query.first() if query is not None else None
        if entry is None:
            return Check(True, "", "not entered yet; the first grading enters it")
        there = {(n.name, c.name): float(c.max_score) for n in entry.notebooks for c in [*n.grade_cells, *n.task_cells]}
    wanted = {}
    for notebook in place.notebooks(name):
        for cell in nbformat.read(place.source(name) / f"{notebook}.ipynb", as_version=4).cells:
            if about(cell).get("grade") or about(cell).get("task"):
                wanted[notebook, about(cell)["grade_id"]] = float(about(cell)["points"])
    different = sorted({cell for (_, cell), _ in there.items() ^ wanted.items()})
    if different:
        todo = f"nbgrader generate_assignment {name} --force, in '{place.root}'"
        return Check(False, "", f"cells or points differ from the source: {', '.join(different)}", todo)
    return Check(True, "", f"{sum(there.values()):g} points in {len(there)} cells, as the source has")


def _questions(place: Place, name: str, exercises_dir: Path | None, made: list[Assignment]) -> Check:
    """Whether this round's inputs can be drawn, and the right answers and known mistakes still say what they did."""
    from ampcourse.grading.assignment import assignments

    made += assignments(place.root, name, exercises_dir=exercises_dir)
    asked = sum(len(assignment.asked) for assignment in made)
    seeds = sum(len(one.questions) for assignment in made for one in assignment.asked.values())
    return Check(True, "", f"{asked} exercises, {seeds} sets of secret inputs, every reference computed")


def _trial(place: Place, assignment: Assignment, unsafe: bool) -> Iterator[Check]:
    """Grade the source itself and the released notebook as a student's would be."""
    from ampcourse.grading.sandbox import choose_starter

    name = assignment.notebook
    released = place.folder("release", ".", assignment.lesson) / f"{name}.ipynb"
    starter: Starter | None = None
    try:
        starter = choose_starter(assignment.box, assignment.settings, unsafe=unsafe)
        yield _guarded(f"{name}: solved", lambda: _solved(assignment, starter))
        yield _guarded(f"{name}: untouched", lambda: _untouched(assignment, starter, released))
    except UserError as error:
        yield Check(False, f"{name}: trial", " ".join(str(error).split()), "see above")
    finally:
        if starter is not None:
            starter.close()


def _graded(assignment: Assignment, starter: Any, notebook: bytes) -> Graded:
    from ampcourse.grading.submission import grade_submission

    return grade_submission(Submission("verify", notebook), assignment, starter)


def _solved(assignment: Assignment, starter: Any) -> Check:
    graded = _graded(assignment, starter, assignment.source)
    amiss = [_short(q) for q in graded.questions if q.kind != "written" and q.score != q.points]
    if amiss or graded.score is None:
        return Check(False, "", "; ".join(amiss) or graded.reason, "the source's own solution must get full points")
    return Check(True, "", f"full points in {graded.seconds:.1f} s")


def _untouched(assignment: Assignment, starter: Any, released: Path) -> Check:
    try:
        notebook = released.read_bytes()
    except OSError as error:
        return Check(False, "", f"'{released}' cannot be read ({error.strerror})", "make the release")
    graded = _graded(assignment, starter, notebook)
    amiss = [_short(q) for q in graded.questions if q.kind == "judged" and q.outcome != "not attempted"]
    amiss += [_short(q) for q in graded.questions if q.score]
    if amiss or graded.score is None:
        return Check(False, "", "; ".join(amiss) or graded.reason, "the stub must raise NotImplementedError and earn 0")
    return Check(True, "", "0 points, every exercise not attempted")


def _short(question: QuestionResult) -> str:
    score = "no score" if question.score is None else f"{question.score:g} of {question.points:g}"
    return f"'{question.grade_id}' is {question.outcome} ({score})"


def show(checks: Iterator[Check], say: Callable[[str], None], marks: tuple[str, str]) -> bool:
    """Print one line a check, as it comes; whether all are good."""
    good = True
    for check in checks:
        good &= check.good
        todo = f" Do: {check.todo}." if check.todo else ""
        found = check.found.rstrip(".")
        say(f"{marks[not check.good]} {check.what}: {found}.{todo}")
    return good
