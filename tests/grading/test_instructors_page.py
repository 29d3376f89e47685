"""The instructors' page: every nbgrader command on it runs, in the order in which it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ampcourse.grading.release import release

PAGE = Path(__file__).parents[2] / "docs" / "instructors.md"
SLUG = "07_mini"


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is part of the clone only")
def test_every_command_on_the_page_runs(mini: Path, nbgrader_in: Any, lesson_of: Any) -> None:
    text = PAGE.read_text("utf-8")
    commands = re.findall(r"`(nbgrader [^`]+)`|^ {4}(nbgrader .+)$", text, re.MULTILINE)
    commands = [a or b for a, b in commands]
    wanted = ("generate_assignment", "autograde", "generate_feedback", "export")
    assert set(wanted) <= {command.split()[1] for command in commands}
    release(course_root=mini)
    nbgrader = nbgrader_in(mini)
    nbgrader.submit("ada", SLUG, lesson_of(mini, SLUG).right())
    for command in dict.fromkeys(commands):
        words = command.replace("01_fp16_range", SLUG).replace("STUDENT", "ada").split()[1:]
        if words[0] in wanted:
            nbgrader(*words)
    assert nbgrader.grades(SLUG)["ada"].score == 6
    assert (mini / "feedback" / "ada" / SLUG / f"{SLUG}.html").is_file()
    assert "ada" in (mini / "grades.csv").read_text("utf-8")
