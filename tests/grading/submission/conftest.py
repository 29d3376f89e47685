"""A grader for the small lesson, with quick kernels outside the sandbox, and one inside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from submission_samples import Grade, grader, mini_assignment

from ampcourse.exercises import answers, check
from ampcourse.grading.model import Assignment, Starter
from ampcourse.grading.sandbox import SandboxStarter, UnsafeStarter


@pytest.fixture(scope="module")
def mini_answers() -> Iterator[None]:
    """The exercises of the lesson "mini"."""
    folder = str(Path(__file__).parent.parent / "mini" / "answers")
    answers.__path__.append(folder)
    check.forget()
    yield
    answers.__path__.remove(folder)
    sys.modules.pop("ampcourse.exercises.answers.mini", None)
    check.forget()


@pytest.fixture(scope="module")
def assignment(mini_answers: None) -> Assignment:
    return mini_assignment()


@pytest.fixture(scope="module")
def starter(assignment: Assignment) -> Iterator[Starter]:
    made = UnsafeStarter(assignment.box, assignment.settings)
    yield made
    made.close()


@pytest.fixture(scope="module")
def sandbox(assignment: Assignment) -> Iterator[Starter]:
    made = SandboxStarter(assignment.box, assignment.settings)
    yield made
    made.close()


@pytest.fixture(scope="module")
def grade(assignment: Assignment, starter: Starter) -> Grade:
    return grader(assignment, starter)
