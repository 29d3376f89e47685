"""Grading all submissions of a lesson: the function behind `ampcourse grade`, `nbgrader autograde` and formgrader."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ampcourse.course import CourseError, load_course
from ampcourse.exercises.model import BrokenExercise
from ampcourse.grading import records
from ampcourse.grading.batch.classlist import ClassList, Planned
from ampcourse.grading.batch.host import make_host
from ampcourse.grading.batch.pool import Grades, Pool
from ampcourse.grading.batch.store import Store
from ampcourse.grading.batch.summary import Result, Summary, Tell, Telling, Watcher
from ampcourse.grading.batch.work import GRADER, Work
from ampcourse.grading.entry import enter_assignment
from ampcourse.grading.files import private_folder
from ampcourse.grading.gradebook import Book, open_gradebook
from ampcourse.grading.model import FAILED, Assignment, GradingError
from ampcourse.grading.place import Place, open_place
from ampcourse.grading.settings import Settings, load_settings

LOCK = "grade.lock"


@dataclasses.dataclass(frozen=True)
class _Options:
    """How a run is to be made; see `grade_lesson`."""

    students: tuple[str, ...] | None
    jobs: int | None
    scheduler: str | None
    unsafe: bool
    fast: bool
    fresh: bool
    exercises_dir: Path | None
    new_round: bool
    create_students: bool
    catch_signals: bool


def grade_lesson(
    course: Path | Place,
    lesson: str,
    *,
    students: Sequence[str] | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    unsafe: bool = False,
    fast: bool = True,
    fresh: bool = False,
    exercises_dir: Path | None = None,
    db: str | None = None,
    new_round: bool = False,
    create_students: bool = True,
    tell: Tell | None = None,
    watcher: Watcher | None = None,
    catch_signals: bool = False,
) -> Summary:
    """Grade the submissions of a lesson whose score is not up to date. May be called from any thread.

    Args:
        course: the course directory, or what nbgrader's own objects say about it.
        lesson: a lesson of the course, or the name of an assignment in `source/`.
        students: these students only.
        jobs: submissions at a time on this machine; as many as it carries if None.
        scheduler: address of a Dask scheduler whose workers grade instead; see `cluster`.
        unsafe: run students' code without isolation, if this machine offers none.
        fast: let one process import heavy modules for all submissions.
        fresh: grade everybody again.
        exercises_dir: a private folder of exercises.
        db: the gradebook's URL, if it is not what the configuration says.
        new_round: ask other questions than before.
        create_students: whether students whom the gradebook does not know are entered.
        tell: takes a level and a sentence, for what is worth saying.
        watcher: is told everything, in place of `tell`.
        catch_signals: end tidily on SIGINT and SIGTERM; for the main thread of a program of our own.

    Raises:
        UserError: if the lesson cannot be graded; what was graded before stays.
    """
    place = course if isinstance(course, Place) else open_place(course, db)
    watcher = watcher or (Telling(tell) if tell else Watcher())
    wanted = tuple(students) if students is not None else None
    options = _Options(
        wanted, jobs, scheduler, unsafe, fast, fresh, exercises_dir, new_round, create_students, catch_signals
    )
    with _claimed(place.root), contextlib.closing(watcher):
        return _Run(place, _name(place, lesson), options, watcher).grade()


class _Run:
    """One run, from the assignment to the summary."""

    def __init__(self, place: Place, lesson: str, options: _Options, watcher: Watcher) -> None:
        self._place, self._lesson, self._options, self._watcher = place, lesson, options, watcher
        self._started = time.monotonic()
        self._results: dict[str, Result] = {}
        self._sandbox = ""

    def grade(self) -> Summary:
        assignments = make_assignments(self._place, self._lesson, self._options, self._watcher)
        with self._soon(assignments) as hosts, open_gradebook(self._place, self._warn) as gradebook:
            if enter_assignment(self._place, gradebook, self._lesson, self._warn):
                self._watcher.say("info", f"'{self._lesson}' was entered into the gradebook, from the source.")
            book = Book(self._place, gradebook, self._lesson, self._warn)
            classlist = ClassList(self._place, self._lesson, assignments, book.students())
            planned = classlist.plan(self._options.students, self._options.fresh)
            self._open(planned)
            left = 0
            if planned.again:
                left = self._work(hosts(), assignments, classlist, book, planned)
        return self._summary(planned, left)

    def _warn(self, sentence: str) -> None:
        self._watcher.say("warning", sentence)

    def _open(self, planned: Planned) -> None:
        for record in planned.kept:
            self._results[record.student] = Result.of(record, graded=False)
        for student, says in planned.refused:
            self._results[student] = Result(student, FAILED, says, None, 0.0, graded=False)
            self._watcher.say("error", f"{student}: {says}")
        if planned.outdated:
            self._watcher.say(
                "info",
                f"{planned.outdated} were graded under another source, other questions or limits, or another version "
                "of this package: they are graded again.",
            )
        for student, says in planned.told:
            self._watcher.say("warning", f"{student}: {says}")
        self._watcher.begin(len(planned.again), len(planned.kept))

    @contextlib.contextmanager
    def _soon(self, assignments: Sequence[Assignment]) -> Iterator[Callable[[], tuple[Grades, int]]]:
        """What grades: made beside everything else where there will probably be work, else when it is asked for."""
        there, known = self._place.students(self._lesson), records.load_records(self._place.root, self._lesson)
        likely = self._options.fresh or self._options.new_round or len(known) < len(there)
        with ThreadPoolExecutor(1) as thread:
            coming = thread.submit(self._host, assignments) if likely and there else None
            try:
                yield coming.result if coming else lambda: self._host(assignments)
            finally:
                if coming is not None and coming.exception() is None:
                    coming.result()[0].close()

    def _work(
        self,
        hosted: tuple[Grades, int],
        assignments: Sequence[Assignment],
        classlist: ClassList,
        book: Book,
        planned: Planned,
    ) -> int:
        """Grade, and write what comes; how many were left when the run was interrupted."""
        host, slots = hosted
        self._sandbox = host.name
        pool = Pool(host, slots)
        keep = self._options.create_students
        store = Store(self._place, self._lesson, assignments, book, host.name, keep)
        under_way: dict[str, tuple[Work, str]] = {}

        def works() -> Iterator[Work]:
            for work in classlist.works(planned.again):
                store.tidy(work.student)
                under_way[work.student] = work, classlist.key(work)
                yield work

        with _signals(pool.stop if self._options.catch_signals else None):
            for done in pool.run(works()):
                if done.broken:
                    raise BrokenExercise(done.broken)
                work, key = under_way.pop(done.student)
                record = store.save(work, key, done)
                self._results[record.student] = Result.of(record, graded=True)
                self._watcher.finished(record)
        return sum(student not in self._results for student in planned.again)

    def _host(self, assignments: Sequence[Assignment]) -> tuple[Grades, int]:
        options = self._options
        if options.scheduler:
            from ampcourse.grading.batch.cluster import Cluster

            cluster = Cluster(options.scheduler, assignments, options.unsafe, options.fast, self._warn)
            return cluster, cluster.slots
        slots = options.jobs or jobs_for(assignments[0].settings)
        return make_host(assignments, slots, unsafe=options.unsafe, fast=options.fast, grader=GRADER), slots

    def _summary(self, planned: Planned, left: int) -> Summary:
        results = tuple(self._results[student] for student in sorted(self._results))
        seconds = time.monotonic() - self._started
        return Summary(self._lesson, results, planned.told, seconds, self._sandbox, bool(left), left)


def make_assignments(place: Place, lesson: str, options: Any, watcher: Watcher) -> tuple[Assignment, ...]:
    """The notebooks of a lesson in this round, without the files that students may bring in their own form.

    Raises:
        UserError: if something in the source does not fit.
        BrokenExercise: if a right answer fails; then nobody's score is written.
    """
    from ampcourse.grading.assignment import assignments
    from ampcourse.grading.rounds import new_round

    settings = load_settings(place.root)
    if options.new_round:
        opened = new_round(place.root, lesson)
        watcher.say("info", f"'{lesson}' is asked anew: this is grading round {opened.number}.")

    def tell(*said: str) -> None:
        watcher.say("info", said[-1])

    jobs = options.jobs or jobs_for(settings)
    made = assignments(place.root, lesson, settings, options.exercises_dir, jobs, tell)
    own = set(_kept_by_students(place).get(lesson, ()))
    if not own:
        return made
    return tuple(
        dataclasses.replace(
            one,
            files={name: content for name, content in one.files.items() if name not in own},
            digest=f"{one.digest} without {sorted(own & set(one.files))}",
        )
        for one in made
    )


def _kept_by_students(place: Place) -> dict[str, Any]:
    """nbgrader's `c.Autograde.exclude_overwriting`: for each assignment, files that students may change."""
    from nbgrader.converters import Autograde

    try:
        return dict(Autograde(coursedir=place.coursedir, config=place.config, log=place.log).exclude_overwriting)
    except Exception as error:  # traitlets refuses what is not of the right kind, in several ways
        raise GradingError(f"c.Autograde in nbgrader_config.py cannot be used: {error}.") from None


def jobs_for(settings: Settings) -> int:
    """How many submissions this machine carries at a time: its cores, fewer where its memory is small."""
    import psutil

    cores = len(os.sched_getaffinity(0))
    room = psutil.virtual_memory().available / (settings.memory_mib * 2**20)
    return max(1, min(cores, int(3 * room)))  # most use far less than they may


def _name(place: Place, lesson: str) -> str:
    """A lesson's slug by any of its names; in a plain course directory, or for other assignments, as it is."""
    if not (place.root / "course.toml").is_file() or place.source(lesson).is_dir():
        return lesson
    course = load_course(place.root)
    try:
        return course.lesson(lesson).slug
    except CourseError as error:
        there = sorted(path.parent.name for path in place.source("_").parent.glob("*/*.ipynb"))
        if set(there) <= {known.slug for known in course.lessons}:
            raise
        raise GradingError(
            f"There is no assignment '{lesson}'; choose from: {', '.join(dict.fromkeys(there))}."
        ) from error


@contextlib.contextmanager
def _claimed(root: Path) -> Iterator[None]:
    """Hold the course, so that only one run writes its scores.

    Raises:
        GradingError: if another run has it, or `grading/` cannot be written.
    """
    try:
        handle = os.open(private_folder(root / "grading") / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        where = f"'{error.filename}' cannot be written ({os.strerror(error.errno or 0)})"
        raise GradingError(f"{where}: grading keeps its records below the course directory.") from None
    with os.fdopen(handle, "w"):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GradingError(
                f"Another run is grading the course in '{root}': wait until it has ended, or stop it with Ctrl-C."
            ) from None
        except OSError:
            pass  # some network file systems have no locks; then there is no protection, but no failure either
        yield


@contextlib.contextmanager
def _signals(stop: Callable[[], None] | None) -> Iterator[None]:
    """While grading, SIGINT and SIGTERM end the run tidily; a second one ends it at once."""
    if stop is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def ended(*_: Any) -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop()

    for number in numbers:
        signal.signal(number, ended)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
