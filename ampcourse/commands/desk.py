"""The instructor's desk: `ampcourse export`, `status`, `full-points`, `verify`, `explain`, `course`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ampcourse.commands.options import Place
from ampcourse.course import UserError
from ampcourse.faults import tell
from ampcourse.terminal import say

FORMATS = ("ampcourse", "canvas", "moodle")  # those of grading.desk.export, which is imported only when it is needed

course_option = click.option(
    "--course",
    "root",
    metavar="DIR",
    type=Place(),
    help="The course directory; default: the current folder if it is one, else notebooks/ of the clone.",
)
db_option = click.option(
    "--db", metavar="URL", help="The gradebook; default: what nbgrader_config.py says, else gradebook.db in DIR."
)
lessons_option = click.option("--lesson", "lessons", metavar="LESSON", multiple=True, help="Only this one; repeatable.")


def open_course(root: Path | None, db: str | None = None) -> Any:
    """The course as nbgrader sees it.

    Raises:
        UserError: if there is none there, or nbgrader is missing.
    """
    from ampcourse.grading.place import default_root, open_place

    place = open_place(root if root is not None else default_root(), db)
    if not place.source("_").parent.is_dir():
        raise UserError(
            f"'{place.root}' has no folder 'source': name a course directory with --course, "
            "or make one in a clone with 'ampcourse course DIR'."
        )
    return place


def survey_of(place: Any, lessons: Sequence[str], changes: bool = False) -> list[Any]:
    """Rows of these lessons (all if none is named)."""
    from ampcourse.grading.desk.survey import gradebook, lessons_of, survey

    names = lessons_of(place, lessons)
    with gradebook(place) as session:
        return [
            row for name in names for row in survey(place, name, session, _digest(place, name) if changes else None)
        ]


def _digest(place: Any, lesson: str) -> Callable[[str], str]:
    from ampcourse.grading.batch.classlist import digest_now
    from ampcourse.grading.settings import load_settings

    settings = load_settings(place.root)
    return lambda student: digest_now(place, lesson, student, settings)


def _counted(things: int | Sequence[Any], name: str = "submission") -> str:
    number = things if isinstance(things, int) else len(things)
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


@click.command(short_help="Write the grades as CSV, also for Canvas or Moodle.")
@click.argument("file", metavar="FILE.csv", type=Place())
@click.option("--format", "kind", type=click.Choice(FORMATS), default="ampcourse", show_default=True)
@lessons_option
@click.option(
    "--roster",
    metavar="FILE",
    type=Place(),
    help="What Canvas or Moodle exported: tells who is who there, and which columns there are.",
)
@course_option
@db_option
def export(
    file: Path, kind: str, lessons: tuple[str, ...], roster: Path | None, root: Path | None, db: str | None
) -> int:
    """Write the grades to FILE.csv; "-" is standard output.

    One row a student and lesson: student_id, lesson, score, max_score, status, reason, late_penalty, needs_manual. The
    score is what is left after the late penalty, as in nbgrader's own export. Where there is no score (nothing handed
    in, unreadable, not graded) the cell is empty, not 0.

    For Canvas, export its gradebook first and name that file with --roster: the students' names and ids, and the
    assignments that are there already, come from it. For Moodle the roster is the assignment's grading worksheet, or
    the exported grades. Exit code 1 if somebody is not in the roster, and so not in the file.

    \b
    Examples:
      ampcourse export grades.csv
      ampcourse export canvas.csv --format canvas --roster from-canvas.csv --lesson 01_fp16_range
      ampcourse export moodle.csv --format moodle --lesson 1
    """
    from ampcourse.grading.desk import export as desk
    from ampcourse.grading.desk.roster import read

    if roster is not None and kind == "ampcourse":
        raise click.UsageError("--roster belongs to --format canvas or moodle.", click.get_current_context())
    people = read(roster) if roster is not None else None
    rows = survey_of(open_course(root, db), lessons)
    if not rows:
        raise UserError("There is nothing to export yet: nobody has handed in, and the gradebook knows nobody.")
    made = desk.export(rows, kind, people)
    desk.write(file, made)
    for remark in made.remarks:
        tell(remark)
    out = tell if str(file) == "-" else say
    out(f"{_counted(made.students, 'student')} in '{file}'; {made.without} of {_counted(made.scores, 'score')} empty.")
    return 1 if made.left_out else 0


@click.command(short_help="Say who has what, and what needs a person.")
@click.argument("lessons", metavar="[LESSON ...]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@course_option
@db_option
def status(lessons: tuple[str, ...], as_json: bool, root: Path | None, db: str | None) -> int:
    """Say who has what in each lesson, what needs a person, and why.

    With LESSON, there is a line for every submission. Exit code 1 if something waits: a submission that is not graded
    or was handed in again, one that could not be read, a written answer without a mark.

    \b
    Examples:
      ampcourse status
      ampcourse status 01_fp16_range
      ampcourse status --json
    """
    from ampcourse.grading import decisions
    from ampcourse.grading.desk import status as desk
    from ampcourse.grading.desk.survey import lessons_of

    place = open_course(root, db)
    names = set(lessons_of(place, lessons))
    decided = [decision for decision in decisions.load(place.root) if decision.lesson in names]
    found = desk.status(survey_of(place, lessons, changes=True), decided)
    if as_json:
        say(desk.as_json(found))
    else:
        desk.show(found, everybody=bool(lessons))
    return 0 if found.done else 1


@click.command("full-points", short_help="Let a faulty question count as right for everybody.")
@click.argument("lesson", metavar="LESSON")
@click.argument("question", metavar="QUESTION")
@click.option("--reason", metavar="TEXT", help="Why; students and the export are told.")
@click.option("--undo", is_flag=True, help="Take it back: what was judged, and what a person gave, counts again.")
@course_option
@db_option
def full_points(lesson: str, question: str, reason: str | None, undo: bool, root: Path | None, db: str | None) -> int:
    """Let QUESTION of LESSON count as right for everybody whose notebook is, or will be, graded.

    QUESTION is the graded cell's grade_id, or its exercise ("ulp"). The decision is kept in grading/decisions.toml with
    the reason, the date and your name; status, export and feedback tell it. Fewer points that you gave by hand are
    raised too, and come back with --undo.

    \b
    Examples:
      ampcourse full-points 01_fp16_range ulp --reason "The question could be read in two ways."
      ampcourse full-points 01_fp16_range ulp --undo
    """
    from ampcourse.grading import decisions
    from ampcourse.grading.desk import full_points as desk
    from ampcourse.grading.desk.survey import lessons_of

    if undo == bool((reason or "").strip()):
        says = "--undo needs no --reason." if undo else 'Give the reason: --reason "...".'
        raise click.UsageError(says, click.get_current_context())
    place = open_course(root, db)
    (slug,) = lessons_of(place, [lesson])
    asked = desk.find_question(place, slug, question)
    notebook = asked.notebook if len(place.notebooks(slug)) > 1 else ""
    decision = decisions.decide(slug, asked.question, " ".join((reason or "").split()), notebook)
    if not undo:
        changed = desk.apply(place, decision)
        say(f"{decisions.sentence(decision)}")
        say(f"Applied to {_counted(changed.students)} graded before; those graded later get the points too.")
        return 0
    if decisions.applying(decisions.load(place.root, slug), notebook or asked.notebook, asked.question) is None:
        raise UserError(f"'{asked.question}' of '{slug}' does not count as right for everybody: nothing to take back.")
    changed = desk.undo(place, decision)
    say(f"'{asked.question}' counts as it was judged; {_counted(changed.students)} changed.")
    for student in changed.unknown:
        tell(f"What '{student}' had is not known any more: grade it again with 'ampcourse grade {slug}'.")
    return 1 if changed.unknown else 0


@click.command(short_help="Before term: do source, release, points and machine fit?")
@click.argument("lessons", metavar="[LESSON ...]", nargs=-1)
@click.option(
    "--run", is_flag=True, help="Also grade each lesson's solution and its untouched notebook, in the sandbox."
)
@click.option(
    "--exercises",
    "exercises_dir",
    metavar="DIR",
    type=Place(),
    help="Your private folder of exercises, if you use one.",
)
@click.option("--unsafe-no-sandbox", "unsafe", is_flag=True, help="With --run where there is no sandbox.")
@course_option
@db_option
def verify(
    lessons: tuple[str, ...],
    run: bool,
    exercises_dir: Path | None,
    unsafe: bool,
    root: Path | None,
    db: str | None,
) -> int:
    """Say, before term starts, whether the sources, the release, the points, the gradebook and this machine agree.

    One line a check, with what to do where something is amiss. It also draws the secret inputs of the grading round and
    computes what is right for them, which the first grading then need not do. Exit code 1 if a check fails.

    \b
    Examples:
      ampcourse verify
      ampcourse verify 01_fp16_range --run
      ampcourse verify --course ~/amp-course --run
    """
    from ampcourse.grading.desk import verify as desk
    from ampcourse.grading.desk.survey import lessons_of

    place = open_course(root, db)
    names = lessons_of(place, lessons)
    good = desk.show(desk.environment(place), say, _marks())
    for name in names:
        made = desk.lesson(place, name, exercises_dir=exercises_dir, run=run, unsafe=unsafe)
        good &= desk.show(made, say, _marks())
    say("Everything fits." if good else "Not everything fits: the lines that begin with a cross say what to do.")
    return 0 if good else 1


def _marks() -> tuple[str, str]:
    """A tick and a cross, or words where the output cannot show them."""
    import sys

    try:
        "✓✗".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "ok:", "NO:"
    return "✓", "✗"


@click.command(short_help="Make a course directory to grade in.")
@click.argument("folder", metavar="DIR", type=Place())
def course(folder: Path) -> int:
    """Make a course directory in DIR: all lessons with their sources and releases, course.toml, nbgrader_config.py.

    It needs a clone of the course. Submissions, the gradebook and everything secret then lie in DIR, outside the clone.
    DIR holds the solutions: keep it where students cannot read it.

    \b
    Examples:
      ampcourse course ~/amp-course
      ampcourse course 2026-summer
    """
    from ampcourse.grading.desk.new_course import new_course

    made = new_course(folder)
    say(
        f"'{made.root}' has {len(made.lessons)} lessons; submissions go to submitted/STUDENT/LESSON/LESSON.ipynb there."
    )
    return 0


@click.command(short_help="Say why a student got these points for a question.")
@click.argument("student", metavar="STUDENT")
@click.argument("exercise", metavar="EXERCISE")
@click.option("--lesson", metavar="LESSON", help="Needed where several lessons have a question of this name.")
@click.option("--exercises", "exercises_dir", metavar="DIR", type=Place(), help="The private folder of exercises.")
@click.option("--unsafe-no-sandbox", "unsafe", is_flag=True, help="Run the student's code unprotected.")
@course_option
@db_option
def explain(
    student: str,
    exercise: str,
    lesson: str | None,
    exercises_dir: Path | None,
    unsafe: bool,
    root: Path | None,
    db: str | None,
) -> int:
    """Say why STUDENT got these points for EXERCISE: ask it again with the same secret inputs, in the sandbox.

    Shows each input that failed, what came back and what is right: for your eyes, since the same inputs are asked of
    everybody in this round. EXERCISE is an exercise ("fp16_range.ulp", "ulp") or a graded cell's grade_id.

    \b
    Examples:
      ampcourse explain ada fp16_range.ulp
      ampcourse explain ada ulp --lesson 1 --course ~/amp-course
    """
    from ampcourse.grading.desk import explain as desk
    from ampcourse.terminal import waiting

    place = open_course(root, db)
    subject = desk.find(place, student, exercise, lesson)
    for remark in subject.remarks:
        tell(remark)
    for line in desk.stored(place, subject):
        say(line)
    with waiting("asks again") as change:
        lines = desk.replayed(place, subject, exercises_dir=exercises_dir, unsafe=unsafe, tell=change)
    for line in lines:
        say(line)
    return 0
