"""The hostile course, and both ways of starting kernels, under which every attack is tried."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from attack import Attack
from scene import HERE, SLUG, Scene, listening, make

from ampcourse.grading.assignment import make_assignment
from ampcourse.grading.model import Assignment, Graded, GradingError, Starter, Submission
from ampcourse.grading.sandbox import SandboxStarter, probe
from ampcourse.grading.submission import grade_submission
from ampcourse.grading.template import TemplateStarter

WAYS = {"sandbox": SandboxStarter, "template": TemplateStarter}


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    root = make(tmp_path_factory.mktemp("hostile") / "kurs für alle" / "notebooks")
    with listening() as (port, reached):
        address = socket.gethostbyname(socket.gethostname())
        yield Scene(root, HERE / "exercises", port, address, reached)


@pytest.fixture(scope="session")
def assignment(scene: Scene) -> Assignment:
    os.environ["AMPCOURSE_SECRET_FOR_TESTS"] = "canary-in-the-environment"
    made = make_assignment(scene.root, SLUG, exercises_dir=scene.exercises)
    (scene.root / "grading" / "references" / "note.txt").write_text("canary-in-the-references", "utf-8")
    return made


@pytest.fixture(scope="session", params=list(WAYS))
def starter(request: pytest.FixtureRequest, assignment: Assignment) -> Iterator[Starter]:
    layers = probe()
    if not layers.complete:
        pytest.skip(f"no complete isolation here: {' '.join(layers.reasons)}")
    try:
        made = WAYS[request.param](assignment.box, assignment.settings)
    except GradingError as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture
def grade(scene: Scene, assignment: Assignment, starter: Starter) -> Callable[..., Graded]:
    def run(attack: Attack | bytes) -> Graded:
        if isinstance(attack, bytes):
            return grade_submission(Submission("attacker", attack), assignment, starter)
        raw = nbformat.writes(scene.submission(attack)).encode("utf-8", "surrogatepass")
        return grade_submission(Submission("attacker", raw, dict(attack.files)), assignment, starter)

    return run
