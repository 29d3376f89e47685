"""`ampcourse vary`."""

from __future__ import annotations

from pathlib import Path

import click

from ampcourse.commands.options import Place
from ampcourse.terminal import say


@click.command(short_help="Write a class's own texts into its course.")
@click.argument("exercises", metavar="DIR", type=Place())
@click.option("--course", metavar="DIR", type=Place(), help="The course directory. [default: here]")
def vary(exercises: Path, course: Path | None) -> int:
    """Write what the private folder of exercises DIR says in place of given texts into the course's source notebooks.

    A module of DIR/answers may hold TEXTS, from a cell's id to its text, drawn from the course's own key. Doing it
    again changes nothing. Release the lessons anew afterwards, and grade with `--exercises DIR`.

    \b
    Examples:
      ampcourse vary ~/amp-private --course ~/amp-2026
      ampcourse vary ../private
    """
    from ampcourse.grading.variants import vary_course

    changed = vary_course(course if course is not None else Path.cwd(), exercises)
    for path in changed:
        say(f"Changed: {path}")
    say(
        f"{len(changed)} changed: release them anew." if changed else "Nothing to change: the notebooks say it already."
    )
    return 0
