"""The lesson list: what it gives, and the one sentence for each way in which the file can be wrong."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from ampcourse.course import CourseError, Expected, load_course

LESSON = """
[[lesson]]
slug = "{slug}"
title = "T"
summary = "S"
objectives = ["o"]
minutes = 5
prerequisites = {prerequisites}
points = 3
cpu_seconds = 30
gpu_seconds = 60
{more}
"""


def lesson(slug: str, prerequisites: str = "[]", more: str = "") -> str:
    return LESSON.format(slug=slug, prerequisites=prerequisites, more=more)


def course(tmp_path: Path, *lessons: str, head: str = '[course]\ntitle = "C"\n'):
    (tmp_path / "course.toml").write_text(head + "".join(lessons), "utf-8")
    return load_course(tmp_path)


def test_the_real_course_loads_and_every_prerequisite_comes_first():
    lessons = load_course().lessons
    assert [lesson.slug for lesson in lessons] == sorted(lesson.slug for lesson in lessons)
    assert all(lesson.objectives and lesson.minutes > 0 and lesson.points > 0 for lesson in lessons)


@pytest.mark.parametrize("wanted", ["01_fp16_range", "fp16_range", "01", "1"])
def test_a_lesson_is_found_by_slug_name_or_number(wanted):
    assert load_course().lesson(wanted).slug == "01_fp16_range"


def test_an_unknown_lesson_lists_the_known_ones():
    with pytest.raises(CourseError, match="no lesson '99'.*01_fp16_range"):
        load_course().lesson("99")


def test_results_belong_to_profiles(tmp_path):
    more = (
        '[[lesson.result]]\nname = "a"\nlow = 1\nhigh = 2\n[[lesson.result]]\nname = "b"\nlow = 0\nprofiles = ["gpu"]\n'
    )
    only = course(tmp_path, lesson("00_a", more=more)).lessons[0]
    assert [r.name for r in only.expected("cpu")] == ["a"]
    assert [r.name for r in only.expected("gpu")] == ["a", "b"]
    assert only.budget("cpu") == 30 and only.budget("gpu") == 60


@pytest.mark.parametrize(
    ("value", "held"),
    [(1, True), (2.0, True), (1.5, True), (0.999, False), (2.001, False), (math.nan, False), (math.inf, False)]
    + [("1.5", True), ("text", False), (None, False), (True, True)],
)
def test_a_result_is_held_only_inside_its_range(value, held):
    assert Expected("x", 1, 2).held(value) is held


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[course", "cannot be read"),
        ("", "lacks the entry 'lesson'"),
        ("[[lesson]]\nslug = '00_a'\n", "lacks the entry 'title'"),
        (lesson("a"), "slug 'a' is not two digits"),
        (lesson("00_a b"), "is not two digits"),
        (lesson("00_a") + lesson("00_a"), "'00_a' twice"),
        (lesson("01_b", '["00_a"]') + lesson("00_a"), "asks for '00_a', which does not come before"),
        (lesson("00_a", more='[[lesson.result]]\nname = "r"\nlow = 2\nhigh = 1\n'), "low 2.0 is above high 1.0"),
        (lesson("00_a", more='[[lesson.result]]\nname = "r"\nprofiles = ["tpu"]\n'), "unknown profile 'tpu'"),
        (lesson("00_a", more='[[lesson.result]]\nname = "r"\n[[lesson.result]]\nname = "r"\n'), "expects 'r' twice"),
        (lesson("00_a").replace("minutes = 5", 'minutes = "five"'), "entry of the wrong kind"),
        (lesson("00_a").replace("minutes = 5", "minutes = inf"), "entry of the wrong kind"),
        (lesson("00_a").replace("points = 3", f"points = 1{'0' * 400}"), "entry of the wrong kind"),
        *(
            (lesson("00_a").replace("cpu_seconds = 30", f"cpu_seconds = {number}"), "cpu_seconds is .*, not a time")
            for number in ("0", "-1", "nan", "inf")
        ),
    ],
)
def test_a_faulty_file_gets_one_sentence(tmp_path, text, says):
    with pytest.raises(CourseError, match=says) as caught:
        course(tmp_path, text, head='[course]\ntitle = "C"\n' if text != "[course" else "")
    assert "\n" not in str(caught.value).strip() or "cannot be read" in str(caught.value)


def test_a_course_without_lessons_is_none(tmp_path):
    with pytest.raises(CourseError, match="has no lesson"):
        course(tmp_path, head='lesson = []\n[course]\ntitle = "C"\n')


def test_a_missing_file_says_where(tmp_path):
    with pytest.raises(CourseError, match="does not exist"):
        load_course(tmp_path)


def test_reading_the_course_needs_no_heavy_import():
    code = (
        "import sys, ampcourse.course as c; c.load_course(); "
        "print([m for m in ('numpy', 'tensorflow', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
