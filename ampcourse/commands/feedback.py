"""`ampcourse feedback`."""

from __future__ import annotations

from pathlib import Path

import click

from ampcourse.commands.options import Place
from ampcourse.faults import tell
from ampcourse.terminal import say


@click.command(short_help="Write a page of feedback for every student.")
@click.argument("lesson", metavar="LESSON")
@click.option("--course", metavar="DIR", type=Place(), help="The course directory. [default: here, or notebooks/]")
@click.option("--student", "students", metavar="ID", multiple=True, help="Only this student; may be repeated.")
@click.option("--db", metavar="URL", help="The gradebook; default: what nbgrader_config.py says.")
def feedback(lesson: str, course: Path | None, students: tuple[str, ...], db: str | None) -> int:
    """Write feedback/STUDENT/LESSON/*.html for everybody who was graded, from the gradebook as it is now.

    A page says for each question what was asked, what was seen and which points it gave, and holds what people
    commented. It shows no hidden test and no right answer, and nothing in it runs or is loaded. `nbgrader
    generate_feedback` makes the same pages, and `nbgrader release_feedback` hands them out. Exit code 1 if somebody's
    page could not be made.

    \b
    Examples:
      ampcourse feedback 01_fp16_range
      ampcourse feedback 02_loss_scaling --course ~/amp-2026 --student ada --student grace
    """
    from ampcourse.grading.feedback import make_feedback
    from ampcourse.grading.place import default_root, open_place

    place = open_place(course if course is not None else default_root(), db)
    made = make_feedback(place, lesson, students, lambda _, sentence: tell(sentence))
    pages = sum(map(len, made.pages.values()))
    say(f"{pages} page{'' if pages == 1 else 's'} of feedback in '{place.folder('feedback', '', '').parent}'.")
    return 1 if made.problems else 0
