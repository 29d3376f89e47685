"""The ledger is whole, and each result that it names is one that a lesson really records."""

from __future__ import annotations

import json

import pytest

from ampcourse import claims
from ampcourse.course import load_course

COURSE = load_course()
TESTED = [claim for claim in claims.ledger() if claim.tests]


def test_all_claims_of_the_three_articles_are_there_once_and_in_order():
    wanted = [f"{a}-{n}" for a, most in (("S000", 39), ("S002", 29), ("S003", 30)) for n in range(1, most + 1)]
    assert [claim.id for claim in claims.ledger()] == wanted


@pytest.mark.parametrize("claim", claims.ledger(), ids=lambda claim: claim.id)
def test_a_claim_has_a_verdict_a_reason_and_either_a_test_or_a_reason_for_none(claim):
    assert claim.verdict in claims.VERDICTS
    assert claim.says.endswith(".")
    assert claim.because.endswith(".")
    assert bool(claim.tests) != bool(claim.untested)
    assert not claim.untested or claim.untested.endswith((".", "yours."))
    assert "TODO" not in claim.untested


def test_verdicts_are_counted():
    found = claims.counts()
    assert list(found) == list(claims.VERDICTS)
    assert sum(found.values()) == len(claims.ledger()) == 98
    assert min(found.values()) > 0
    assert claims.counts([claims.ledger()[0]]) == {name: int(name == "true") for name in claims.VERDICTS}


@pytest.mark.parametrize("claim", TESTED, ids=lambda claim: claim.id)
def test_each_named_result_is_expected_of_the_lesson_and_recorded_in_that_cell(claim):
    for test in claim.tests:
        lesson = COURSE.lesson(test.lesson)
        assert test.result in {result.name for result in lesson.results}
        cells = json.loads(COURSE.source(lesson).read_text("utf-8"))["cells"]
        cell = next(cell for cell in cells if cell.get("id") == test.cell)
        assert "record(" in "".join(cell["source"])


def executed(folder, slug, **values):
    bundle = [{"application/vnd.ampcourse.record+json": {"name": n, "value": v, "unit": ""}} for n, v in values.items()]
    outputs = [{"output_type": "display_data", "data": data, "metadata": {}} for data in bundle]
    folder.mkdir(exist_ok=True)
    (folder / f"{slug}.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "outputs": outputs}]}))
    return folder


@pytest.fixture
def range_of_subnormals():
    return next(claim for claim in claims.ledger() if claim.id == "S000-5")


def test_evidence_says_what_was_recorded_and_whether_it_held(tmp_path, range_of_subnormals):
    early = executed(tmp_path / "early", "01_fp16_range", least_subnormal=1.0, overflow_threshold=65520.0)
    late = executed(tmp_path / "late", "01_fp16_range", least_subnormal=2**-24)
    both = claims.evidence(range_of_subnormals, claims.recorded_results([early, late]))
    assert [one.held for one in both] == [True, True]
    wrong = claims.evidence(range_of_subnormals, claims.recorded_results([late, early]))
    assert [one.held for one in wrong] == [False, True]
    assert "NOT HELD" in str(wrong[0])


def test_what_was_not_run_here_is_said_to_be_so(tmp_path, range_of_subnormals):
    found = claims.evidence(range_of_subnormals, claims.recorded_results([tmp_path]))
    assert [(one.value, one.held) for one in found] == [(None, None)] * 2
    assert "not recorded here yet" in str(found[0])
    assert "5.96e-08" in str(found[0])


def test_results_are_looked_for_beside_the_notebook_and_in_the_run(tmp_path, monkeypatch):
    beside = executed(tmp_path / "beside", "01_fp16_range", least_subnormal=1.0, overflow_threshold=2.0)
    run = executed(tmp_path / "run", "01_fp16_range", least_subnormal=3.0)
    monkeypatch.chdir(beside)
    assert claims.recorded_results()["01_fp16_range", "least_subnormal"] == 1.0
    monkeypatch.setenv("AMPCOURSE_EXECUTED", str(run))
    found = claims.recorded_results()
    assert found["01_fp16_range", "least_subnormal"] == 3.0
    assert found["01_fp16_range", "overflow_threshold"] == 2.0


def test_a_damaged_notebook_is_as_good_as_none(tmp_path):
    (tmp_path / "01_fp16_range.ipynb").write_text("{")
    assert claims.recorded_results([tmp_path]) == {}


def test_every_claim_of_speed_divides_as_stated_or_has_no_times():
    for claim in claims.SPEEDS:
        assert claim.divided is None or claim.divided == pytest.approx(claim.ratio, abs=0.006)
