"""Every hostile or faulty submission gets the score it deserves, harms nobody, and learns nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import nbformat
import pytest
from attack import ALL, NOTHING, RIGHT, WRONG, Attack
from documents import MUTATIONS, mutated
from faults import FAULTS
from floods import FLOODS
from forgeries import FORGERIES
from scene import CANARIES, SLUG, Scene, shown, told
from thefts import THEFTS

from ampcourse.grading.model import Assignment, Graded

pytestmark = pytest.mark.sandbox
GOOD = Attack("an honest one", double=RIGHT["double"], others=RIGHT, scores=ALL)
EVERYTHING = (*FORGERIES, *THEFTS, *FLOODS, *FAULTS)


def scores(graded: Graded) -> dict[str, float | None]:
    return {q.grade_id: q.score for q in graded.questions}


def expect(graded: Graded, wanted: dict[str, float]) -> None:
    got = scores(graded)
    assert got, (graded.status, graded.reason, graded.log[-8:])
    assert {name: got[name] for name in wanted} == wanted, (got, graded.reason, graded.log[-5:])


def in_the_notebook(graded: Graded) -> dict[str, float]:
    """What nbgrader itself reads from the executed notebook."""
    from nbgrader import utils

    cells = nbformat.reads(graded.notebook.decode(), as_version=4).cells
    return {c.metadata.nbgrader["grade_id"]: utils.determine_grade(c)[0] for c in cells if utils.is_grade(c)}


def nothing_happened(scene: Scene, before: dict[str, str], graded: Graded) -> None:
    said = told(graded)
    assert [canary for canary in CANARIES if canary in said] == []
    assert not re.search(r"<script|onload|javascript:", shown(graded), re.IGNORECASE)
    assert scene.fingerprint() == before
    assert not scene.reached
    for _ in range(50):
        if not scene.survivors():
            break
        time.sleep(0.1)
    assert not scene.survivors()


@pytest.mark.parametrize(
    "attack", [pytest.param(a, id=a.name, marks=[pytest.mark.full] if a.long else []) for a in EVERYTHING]
)
def test_it_gets_what_it_deserves_and_nothing_happens(
    attack: Attack, scene: Scene, assignment: Assignment, grade: Callable[..., Graded]
) -> None:
    before = scene.fingerprint()
    graded = grade(attack)
    expect(graded, dict(attack.scores))
    read = in_the_notebook(graded)
    assert {name: read[name] for name in attack.scores} == dict(attack.scores)
    assert sum(q.points for q in graded.questions) == 8
    nothing_happened(scene, before, graded)
    said = told(graded)
    for word in attack.silent:
        assert scene.text(word) not in said
    if attack.says:
        assert graded.status == "partly"
        reasons = " ".join([graded.reason, *(q.reason for q in graded.questions)])
        assert any(word in reasons for word in attack.says.split("|")), reasons


@pytest.mark.parametrize("name", list(MUTATIONS))
def test_a_document_that_lies_earns_nothing(name: str, scene: Scene, grade: Callable[..., Graded]) -> None:
    before = scene.fingerprint()
    wrong = scene.submission(Attack(name, double=WRONG["double"], others=WRONG))
    graded = grade(mutated(wrong, MUTATIONS[name]))
    expect(graded, NOTHING | {"triple-test": 0.0})
    assert set(scores(graded)) == {"double-check", "total-check", "triple-test", "why"}
    nothing_happened(scene, before, graded)


@pytest.mark.parametrize("name", list(MUTATIONS))
def test_the_same_document_with_right_answers_loses_nothing(
    name: str, scene: Scene, grade: Callable[..., Graded]
) -> None:
    graded = grade(mutated(scene.submission(GOOD), MUTATIONS[name]))
    expect(graded, ALL)


def test_an_honest_submission_between_two_attacks_is_graded_as_ever(scene: Scene, grade: Callable[..., Graded]) -> None:
    for attack in (FORGERIES[0], GOOD, FLOODS[0], GOOD, THEFTS[0], GOOD):
        expect(grade(attack), dict(attack.scores))


def test_there_are_enough_of_them_and_no_name_twice() -> None:
    names = [attack.name for attack in EVERYTHING]
    assert len(set(names)) == len(names) and len(names) >= 100
    assert SLUG not in " ".join(names)
