"""`run_course`: execute the course's notebooks and compare what they record with what is expected."""

from __future__ import annotations

import contextlib
import datetime
import json
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ampcourse.course import PROFILES, Course, Lesson, UserError, load_course
from ampcourse.reproduce import executed, files, machine, plan, processes, report, results, sources
from ampcourse.reproduce.crew import Crew, Event
from ampcourse.reproduce.display import Display
from ampcourse.reproduce.job import Job
from ampcourse.reproduce.results import NotebookResult, Report

if TYPE_CHECKING:
    from rich.console import Console


class RunError(UserError):
    """The run is asked for something that it cannot do."""


def run_course(
    lessons: Sequence[str] | None = None,
    profile: str = "cpu",
    jobs: int | None = None,
    out: Path | str = Path("results"),
    fresh: bool = False,
    seed: int = 0,
    course_root: Path | None = None,
    parameters: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> Report:
    """Run the notebooks of a course and write results.json, report.md, index.html and the executed notebooks.

    Notebooks that ran well before with nothing changed since are kept (not with `fresh`). Whatever happens in a
    notebook is a row of the report and does not stop the others; Ctrl-C ends the run, and what is finished is kept.

    Args:
        lessons: slugs, names or numbers; all lessons if None or empty.
        profile: "cpu" or "gpu"; decides the time limits, the expected results and what the notebooks do.
        jobs: notebooks at once; if None, what cores and memory allow (one on a GPU).
        out: the folder to write to; it is made if it does not exist.
        fresh: run everything again.
        seed: handed to every notebook.
        course_root: the folder with course.toml; this course's own if None.
        parameters: more parameters for the notebooks beside `profile` and `seed`.
        console: where to show progress; standard output if None.

    Raises:
        UserError: before anything runs, if something asked for cannot be done; the sentence says what.
    """
    if profile not in PROFILES:
        raise RunError(f"There is no profile '{profile}': choose from {', '.join(PROFILES)}.")
    started, course = time.monotonic(), load_course(course_root)
    asked = {**(parameters or {}), "profile": profile, "seed": int(seed)}
    try:
        json.dumps(asked)
    except TypeError as error:
        raise RunError(f"Parameters must be numbers, texts, or lists or dictionaries of them: {error}.") from None
    run = _Run(course, _choose(course, lessons), profile, int(seed), asked, Path(out), fresh)
    faults = run.faults(parameters or {})
    at_once = plan.workers(jobs, profile, len(run.lessons))
    plan.patience()
    gpus = machine.gpus()
    if profile == "gpu" and not gpus:
        raise RunError("TensorFlow sees no GPU here, so profile 'gpu' cannot run: use profile 'cpu'.")
    files.prepare(run.out)
    with files.claimed(run.out):
        found = run.start(machine.describe(gpus), faults)
        found = run.carry_out(found, at_once, console)
        found = report.write(replace(found, seconds=round(time.monotonic() - started, 1)))
        return _saved(found)


def _choose(course: Course, lessons: Sequence[str] | None) -> tuple[Lesson, ...]:
    wanted = {course.lesson(name).slug for name in lessons or ()}
    return tuple(lesson for lesson in course.lessons if not wanted or lesson.slug in wanted)


@dataclass
class _Run:
    course: Course
    lessons: tuple[Lesson, ...]
    profile: str
    seed: int
    parameters: dict[str, Any]
    out: Path
    fresh: bool

    def faults(self, extra: Mapping[str, Any]) -> dict[str, str]:
        """Lessons that cannot be run, with the reason; a parameter that the caller mistyped stops everything."""
        sources.check_clone(self.course, self.lessons)
        faults = {one.slug: sources.check(self.course, one, self.parameters) for one in self.lessons}
        if extra:
            for lesson in self.lessons:
                mistyped = sources.check(self.course, lesson, extra)
                if mistyped and self.course.source(lesson).is_file():
                    raise sources.SourceError(mistyped)
        return {slug: reason for slug, reason in faults.items() if reason}

    def start(self, about: dict[str, Any], faults: dict[str, str]) -> Report:
        """The report as it stands before anything ran: kept, impossible, or not started yet."""
        rows = []
        for lesson in self.lessons:
            row = NotebookResult(lesson.slug, lesson.title, "skipped", reason="It had not ended when this was written.")
            if lesson.slug in faults:
                row = replace(row, status="failed", reason=faults[lesson.slug])
            elif not self.fresh and not (lesson.last and any(one.status == "skipped" for one in rows)):
                row = self._kept(lesson) or row
            rows.append(row if row.kept else self._compared(lesson, row, ()))
        begun = Report(
            profile=self.profile,
            seed=self.seed,
            out=self.out,
            machine=about,
            versions=machine.versions(),
            notebooks=tuple(rows),
            started=datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
            parameters=self.parameters,
        )
        results.save(begun)
        return begun

    def _kept(self, lesson: Lesson) -> NotebookResult | None:
        """An earlier run's result, if it was good and nothing that decides it has changed.

        A notebook that is not as a run leaves it, because somebody edited or damaged it, is not kept.
        """
        notebook = executed.load(self._target(lesson))
        try:
            note = notebook["metadata"]["ampcourse"] if notebook else {}
            if note["status"] != "ok" or note["fingerprint"] != self._fingerprint(lesson):
                return None
            seconds, started = float(note["seconds"]), str(note["started"])
            row = NotebookResult(lesson.slug, lesson.title, "ok", seconds, kept=True, started=started)
            row = self._compared(lesson, row, executed.recorded(notebook))
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        return row if row.good else None

    def _compared(self, lesson: Lesson, row: NotebookResult, found: Sequence[executed.Recorded]) -> NotebookResult:
        return replace(row, results=results.compare(lesson, self.profile, found))

    def carry_out(self, found: Report, at_once: int, console: Console | None) -> Report:
        """Run what is not decided yet, longest first, and keep results.json up to date."""
        waiting = {row.lesson for row in found.notebooks if row.status == "skipped"}
        ahead = [lesson for lesson in self.lessons if lesson.slug in waiting]
        ahead.sort(key=lambda lesson: -lesson.budget(self.profile))
        scratch = self._scratch()
        try:
            with Display({one.slug: one.budget(self.profile) for one in ahead}, console) as display:
                for row in found.notebooks:
                    if row.lesson not in waiting:
                        display.finished(row)
                for last in (False, True):
                    chosen = [lesson for lesson in ahead if lesson.last is last]
                    jobs = [self._job(lesson, scratch / lesson.slug[:2]) for lesson in chosen]
                    found = self._together(jobs, at_once, found, display)
                return found
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _together(self, jobs: Sequence[Job], at_once: int, found: Report, display: Display) -> Report:
        """Run some of the notebooks, so many at once; none of them once the run was interrupted."""
        if not jobs or found.interrupted:
            return found
        at_once = max(1, min(at_once, len(jobs)))
        with Crew(jobs, at_once, self.profile, plan.threads(at_once), self.out / "logs") as crew:
            return self._follow(crew, found, display)

    def _follow(self, crew: Crew, found: Report, display: Display) -> Report:
        with _signals_to(crew):
            for event in crew.events():
                found = self._note(found, event, display)
        if crew.interrupted:
            done = sum(row.status not in ("skipped", "killed") for row in found.notebooks)
            share = f"{done} of {len(found.notebooks)} notebooks"
            sentence = f"The run was interrupted; what is finished ({share}) is kept: run again to go on."
            found = replace(found.with_problem(sentence), interrupted=True)
        return found

    def _note(self, found: Report, event: Event, display: Display) -> Report:
        if event.outcome is None:
            display.cell(event.job.lesson, event.index, event.of)
            return found
        lesson = self.course.lesson(event.job.lesson)
        row = NotebookResult(
            lesson.slug,
            lesson.title,
            event.outcome.status,
            event.outcome.seconds,
            event.outcome.reason,
            started=event.job.note["started"],
        )
        row = self._compared(lesson, row, event.results)
        display.finished(row)
        rows = tuple(row if one.lesson == row.lesson else one for one in found.notebooks)
        return _saved(replace(found, notebooks=rows))

    def _job(self, lesson: Lesson, scratch: Path) -> Job:
        target = self._target(lesson).resolve()
        target.with_suffix(".html").unlink(missing_ok=True)
        return Job(
            lesson=lesson.slug,
            title=lesson.title,
            source=str(self.course.source(lesson).resolve()),
            target=str(target),
            scratch=str(scratch),
            mark=uuid.uuid4().hex,
            parameters=self.parameters,
            limit=plan.time_limit(lesson, self.profile),
            patience=plan.patience(),
            note={
                "fingerprint": self._fingerprint(lesson),
                "profile": self.profile,
                "seed": self.seed,
                "started": datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
            },
        )

    def _fingerprint(self, lesson: Lesson) -> str:
        parameters = self.parameters
        if lesson.last:  # what it reads decides what it shows
            others = (executed.load(self._target(one)) for one in self.course.lessons if not one.last)
            read = [[(one.name, one.value) for one in executed.recorded(notebook)] for notebook in others if notebook]
            parameters = parameters | {"recorded by the others": read}
        return sources.fingerprint(self.course, lesson, parameters)

    def _target(self, lesson: Lesson) -> Path:
        return self.out / "executed" / f"{lesson.slug}.ipynb"

    def _scratch(self) -> Path:
        try:
            return processes.scratch_folder()
        except OSError as error:
            raise RunError(f"No folder for temporary files could be made: {error.strerror}.") from error


def _saved(found: Report) -> Report:
    try:
        results.save(found)
    except files.OutputError as error:
        return found.with_problem(str(error))
    return found


@contextlib.contextmanager
def _signals_to(crew: Crew) -> Iterator[None]:
    """Ctrl-C, a polite request to end and a closed terminal all end the run, and its kernels with it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, crew.interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
