"""`ampcourse grade`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ampcourse.commands.options import Place, Whole
from ampcourse.terminal import say

INTERRUPTED = 130
_ON_ONE_SCREEN = 20


@click.command(short_help="Grade the submissions of a lesson.")
@click.argument("lesson", metavar="LESSON")
@click.option("--course", metavar="DIR", type=Place(), help="The course directory. [default: here, or notebooks/]")
@click.option("--student", "students", metavar="ID", multiple=True, help="Only this student; may be repeated.")
@click.option("--jobs", metavar="N", type=Whole(min=1), help="Submissions at a time. [default: as many as fit]")
@click.option("--scheduler", metavar="URL", help="Let a Dask cluster grade: tcp://host:8786.")
@click.option("--fresh", is_flag=True, help="Grade everybody, not only what has changed.")
@click.option("--new-round", is_flag=True, help="Ask other questions than the last time, and grade everybody.")
@click.option("--exercises", metavar="DIR", type=Place(), help="A private folder of exercises.")
@click.option("--db", metavar="URL", help="The gradebook, such as postgresql://user@host/name.")
@click.option("--no-fast", is_flag=True, help="Start every submission's Python anew, which is slower.")
@click.option("--unsafe-no-sandbox", is_flag=True, help="Run students' code without isolation. It can do what you can.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON; progress goes to stderr.")
def grade(
    lesson: str,
    course: Path | None,
    students: tuple[str, ...],
    jobs: int | None,
    scheduler: str | None,
    fresh: bool,
    new_round: bool,
    exercises: Path | None,
    db: str | None,
    no_fast: bool,
    unsafe_no_sandbox: bool,
    as_json: bool,
) -> int:
    """Grade the submissions of LESSON in submitted/ and write scores into nbgrader's gradebook.

    Only what has changed since the last time is graded, so that an interrupted run goes on where it stopped. LESSON is
    a lesson of the course, or the name of any assignment in source/ of an nbgrader course directory. Logs and records
    are in grading/ of the course directory. Exit code 1 if a submission has no score for a technical reason.

    \b
    Examples:
      ampcourse grade 01_fp16_range
      ampcourse grade 01_fp16_range --student ada --fresh
      ampcourse grade 02_loss_scaling --course ~/amp-2026 --jobs 8
      ampcourse grade 02_loss_scaling --scheduler tcp://head:8786 --db postgresql://grader@db/amp
    """
    if jobs and scheduler:
        raise click.UsageError(
            "--jobs is for this machine; with --scheduler the cluster's workers count.", click.get_current_context()
        )
    from ampcourse.grading.batch import grade_lesson
    from ampcourse.grading.batch.display import Display
    from ampcourse.grading.place import default_root

    summary = grade_lesson(
        course if course is not None else default_root(),
        lesson,
        students=students or None,
        jobs=jobs,
        scheduler=scheduler,
        unsafe=unsafe_no_sandbox,
        fast=not no_fast,
        fresh=fresh,
        exercises_dir=exercises,
        db=db,
        new_round=new_round,
        watcher=Display(sys.stderr if as_json else sys.stdout),
        catch_signals=True,
    )
    if as_json:
        say(json.dumps(summary.as_dict(), indent=1))
    else:
        for problem in summary.problems:
            if not problem.graded or summary.graded > _ON_ONE_SCREEN:  # else it was just said, as it came
                say(f"{problem.student}: {problem.status}. {problem.reason}")
        for line in summary.lines():
            say(line)
    if summary.interrupted:
        return INTERRUPTED
    return 0 if summary.ok else 1
