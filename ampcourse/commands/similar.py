"""`ampcourse similar`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from ampcourse.commands.options import Place
from ampcourse.terminal import clean, say

THRESHOLD = 0.9  # that of grading.desk.similar, which is imported only when it is needed
_LISTED = 50


class Share(click.FloatRange):
    """A share from a half to all; NaN, which lies in every range for click, is refused."""

    name = "number"

    def __init__(self) -> None:
        super().__init__(0.5, 1.0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share."""
        share = super().convert(value, param, ctx)
        if math.isnan(share):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return share


@click.command(short_help="Find submissions that are too much alike.")
@click.argument("lesson", metavar="LESSON")
@click.option("--course", metavar="DIR", type=Place(), help="The course directory. [default: here, or notebooks/]")
@click.option(
    "--threshold",
    metavar="X",
    type=Share(),
    default=THRESHOLD,
    show_default=True,
    help="List pairs that have at least this share in common.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON; progress goes to stderr.")
def similar(lesson: str, course: Path | None, threshold: float, as_json: bool) -> int:
    """Compare all submissions of LESSON with each other and with the published solutions.

    Only what students added to the released text counts. Renamed variables, comments and layout hide nothing. Short
    answers are not compared: many people find the same one. Likeness is a reason to look, never a proof.

    \b
    Examples:
      ampcourse similar 01_fp16_range
      ampcourse similar 04_custom_loops --course ~/amp-2026 --threshold 0.8
      ampcourse similar 01_fp16_range --json > similar.json
    """
    from ampcourse.grading.desk.similar import similar as compare
    from ampcourse.grading.place import default_root

    found = compare(course if course is not None else default_root(), lesson, threshold, tell=_progress())
    if as_json:
        say(json.dumps(found.as_dict(), indent=1))
        return 0
    say(f"{found.compared} {'submission' if found.compared == 1 else 'submissions'} of {clean(lesson)} compared.")
    _table(f"{len(found.pairs)} alike (at least {threshold:.0%} in common):", found.pairs)
    _table(f"{len(found.published)} like the published solution:", found.published)
    if found.remark:
        say(found.remark)
    for student, sentence in found.unreadable:
        say(f"{clean(student)} could not be compared. {clean(sentence)}")
    return 0


def _table(title: str, pairs: Iterable[Any]) -> None:
    pairs = list(pairs)
    if not pairs:
        return
    say(title)
    for pair in pairs[:_LISTED]:
        cells = ", ".join(f"{name} {share:.0%}" for name, share in pair.cells)
        say(f"  {clean(pair.one)} and {clean(pair.other)}: {pair.score:.0%} of {pair.tokens} tokens ({cells})")
    if len(pairs) > _LISTED:
        say(f"  and {len(pairs) - _LISTED} more; --json lists all.")


def _progress() -> Any:
    """Tells on a terminal how far reading has come; None where nobody watches."""
    if not sys.stderr.isatty():
        return None

    def tell(done: int, of: int) -> None:
        end = "\r" if done < of else "\n"
        sys.stderr.write(f"{done} of {of} submissions read{end}")
        sys.stderr.flush()

    return tell
