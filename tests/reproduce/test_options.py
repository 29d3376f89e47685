"""What a run is asked for: refused with one sentence where it makes no sense, and how it uses the machine."""

from __future__ import annotations

import pytest

from ampcourse.course import Lesson, UserError
from ampcourse.reproduce import machine, plan, run


@pytest.fixture
def course(tiny, tmp_path):
    return tiny.make_course(tmp_path / "course", {"00_a": ["raise SystemExit('it was run')"]})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "gpuu"}, "There is no profile 'gpuu': choose from cpu, gpu."),
        ({"lessons": ["7"]}, "There is no lesson '7'; choose from: 00_a."),
        ({"jobs": 0}, "0 notebooks at once makes no sense: give --jobs a number from 1."),
        ({"parameters": {"sed": 1}}, "has no parameter 'sed' in the cell tagged 'parameters'; it has: profile, seed."),
        ({"profile": "gpu"}, "TensorFlow sees no GPU here, so profile 'gpu' cannot run: use profile 'cpu'."),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(tiny, course, tmp_path, monkeypatch, options, words):
    monkeypatch.setattr(run.machine, "gpus", list)
    with pytest.raises(UserError) as caught:
        tiny.run(course, tmp_path / "out", **options)
    assert str(caught.value).endswith(words)
    assert not (tmp_path / "out").exists()


def test_without_a_clone_there_is_nothing_to_run(tiny, tmp_path):
    course = tiny.make_course(tmp_path / "course", {"00_a": None, "01_b": None})
    with pytest.raises(UserError, match="they come with a clone of the repository, not with the installed package"):
        tiny.run(course, tmp_path / "out")


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "nan", "inf"])
def test_patience_is_a_positive_number(monkeypatch, text):
    monkeypatch.setenv("AMPCOURSE_PATIENCE", text)
    with pytest.raises(UserError, match="AMPCOURSE_PATIENCE is '.*': set it to a positive number"):
        plan.patience()


def lesson(**more):
    return Lesson("01_x", "X", "", (), 1, (), 0.0, 30.0, 20.0, (), **more)


def test_time_limits_are_twice_the_budget_and_grow_with_slow_bfloat16_and_patience(monkeypatch):
    assert plan.time_limit(lesson(), "cpu", fast_bfloat16=False) == 60
    assert plan.time_limit(lesson(), "gpu", fast_bfloat16=False) == 40
    assert plan.time_limit(lesson(bfloat16_heavy=True), "cpu", fast_bfloat16=True) == 60
    assert plan.time_limit(lesson(bfloat16_heavy=True), "cpu", fast_bfloat16=False) == 150
    assert plan.time_limit(lesson(bfloat16_heavy=True), "gpu", fast_bfloat16=False) == 40
    monkeypatch.setenv("AMPCOURSE_PATIENCE", "2.5")
    assert plan.time_limit(lesson(), "cpu", fast_bfloat16=True) == 150


@pytest.mark.parametrize(
    ("cores", "free_gib", "jobs", "profile", "notebooks", "at_once"),
    [
        (8, 64, None, "cpu", 12, 8),
        (8, 64, None, "cpu", 3, 3),
        (8, 5, None, "cpu", 12, 2),
        (8, 0.5, None, "cpu", 12, 1),
        (8, 64, None, "gpu", 12, 1),
        (2, 64, 5, "cpu", 12, 5),
        (2, 64, None, "cpu", 0, 1),
    ],
)
def test_how_many_notebooks_at_once(monkeypatch, cores, free_gib, jobs, profile, notebooks, at_once):
    monkeypatch.setattr(machine, "cores", lambda: cores)
    monkeypatch.setattr(machine, "memory", lambda available=False: int(free_gib * 2**30))
    assert plan.workers(jobs, profile, notebooks) == at_once


def test_notebooks_at_once_share_the_cores(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 8)
    assert [plan.threads(at_once) for at_once in (1, 2, 3, 8, 20)] == [8, 4, 2, 1, 1]
