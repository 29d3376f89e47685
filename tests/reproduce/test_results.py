"""Comparison with the expected ranges, exit codes, and results.json."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ampcourse.course import Expected, Lesson
from ampcourse.reproduce.executed import Recorded
from ampcourse.reproduce.results import NotebookResult, Report, Result, as_json, compare

INF = float("inf")


def lesson(*expected: Expected) -> Lesson:
    return Lesson("01_x", "X", "", (), 1, (), 0.0, 30.0, 30.0, expected)


def judged(value, low=0.0, high=1.0):
    return compare(lesson(Expected("x", low, high)), "cpu", [Recorded("x", value)])[0]


@pytest.mark.parametrize("value", [0, 0.0, 0.5, 1, 1.0, True, False])
def test_values_in_the_range_hold_with_both_ends(value):
    assert judged(value).held is True


@pytest.mark.parametrize("value", [-0.001, 1.001, "nan", "inf", "-inf", "0.5", "text"])
def test_values_outside_and_texts_do_not_hold(value):
    assert judged(value).held is False


def test_an_infinite_value_holds_where_infinity_is_expected():
    assert judged("inf", INF, INF).held is True
    assert judged("inf", 0.0, INF).held is True
    assert judged("nan", -INF, INF).held is False


def test_every_expected_result_is_listed_first_and_the_rest_after_it():
    expected = lesson(Expected("a", 0, 1), Expected("gone", 0, 1), Expected("gpu only", 0, 1, ("gpu",)))
    rows = compare(expected, "cpu", [Recorded("extra", "why", "s"), Recorded("a", 0.5, "", 3)])
    assert [row.name for row in rows] == ["a", "gone", "extra"]
    a, gone, extra = rows
    assert (a.held, a.note) == (True, "recorded 3 times, the last counts")
    assert (gone.held, gone.value, gone.note) == (False, None, "never recorded")
    assert (extra.held, extra.low, extra.high, extra.verdict, extra.unit) == (None, None, None, "not judged", "s")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0, 1, "0 to 1"), (-INF, 2.5, "at most 2.5"), (3, INF, "at least 3"), (1, 1, "exactly 1"), (None, None, "none")],
)
def test_ranges_in_words(low, high, words):
    assert Result("x", 1, low, high, None).range == words


def report(*notebooks: NotebookResult) -> Report:
    return Report("cpu", 0, Path("out"), {"memory_gib": float("nan")}, {"python": "3"}, notebooks)


GOOD = NotebookResult("01_x", "X", "ok", 1.0, results=(Result("x", 1, 0, 1, True), Result("y", 1, None, None, None)))


def test_exit_codes():
    assert report(GOOD).exit_code == 0
    assert report(GOOD, replace(GOOD, status="failed")).exit_code == 1
    assert report(GOOD, replace(GOOD, results=(Result("x", 2, 0, 1, False),))).exit_code == 1
    assert report(GOOD).with_problem("The disk is full.").exit_code == 1
    assert replace(report(GOOD), interrupted=True).exit_code == 130


def test_json_is_strict_and_has_the_promised_shape():
    row = Result("x", "nan", 0.0, INF, False)
    content = json.loads(as_json(report(replace(GOOD, results=(row,)))), parse_constant=lambda text: pytest.fail(text))
    assert {"profile", "seed", "machine", "versions", "notebooks"} <= set(content)
    notebook = content["notebooks"][0]
    assert {"lesson", "status", "seconds", "reason", "results"} <= set(notebook)
    assert {"name", "value", "low", "high", "held"} <= set(notebook["results"][0])
    assert (notebook["results"][0]["high"], content["machine"]["memory_gib"]) == ("inf", "nan")
