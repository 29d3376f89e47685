"""When nobody is graded: one sentence, exit code 1, and everything as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from ampcourse.grading import nbgrader_hooks as hooks
from ampcourse.grading.doors import autograde as door
from ampcourse.grading.doors import patches
from ampcourse.grading.model import GradingError

MINI = "07_mini"


@pytest.fixture
def course(mini: Path, lesson_of: Callable[..., Any], nbgrader_in: Callable[..., Any]) -> Any:
    """The mini course with one right submission that nobody has graded."""
    nbgrader = nbgrader_in(mini)
    nbgrader("generate_assignment", MINI)
    nbgrader.submit("ada", MINI, lesson_of(mini, MINI).right())
    return nbgrader


def left(root: Path) -> set[str]:
    """What grading writes."""
    return {str(path.relative_to(root)) for path in root.glob("autograded/*/*")} | {
        str(path.relative_to(root)) for path in root.glob("grading/records/*/*")
    }


def test_where_code_cannot_be_isolated_nobody_is_graded_unless_somebody_types_so(course: Any, tmp_path: Path) -> None:
    course.environment["PATH"] = str(tmp_path)  # no bubblewrap
    said = course("autograde", MINI, code=1)
    assert "Traceback" not in said
    last = said.strip().splitlines()[-1]
    assert "ERROR" in last and "bubblewrap" in last
    assert left(course.root) == set()
    assert course.grades(MINI) == {}
    course.environment[door.UNSAFE] = "1"
    course("autograde", MINI)
    assert course.grades(MINI)["ada"].score == 6
    del course.environment[door.UNSAFE]
    assert course("autograde", MINI, "--force", code=1).strip().endswith(last[-40:])
    course("autograde", MINI, "--force", "--AmpGrade.unsafe_no_sandbox=True")
    assert course.grades(MINI)["ada"].score == 6


@pytest.mark.sandbox
def test_a_broken_exercise_costs_nobody_anything(course: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(Path(course.environment["PYTHONPATH"]).parent, broken, ignore=shutil.ignore_patterns("__pycache__"))
    answers = broken / "answers" / "mini.py"
    answers.write_text(answers.read_text().replace("right=lambda x: np.sum(x)", "right=lambda x: 1 / 0"))
    good, course.environment["PYTHONPATH"] = course.environment["PYTHONPATH"], str(broken / "site")
    said = course("autograde", MINI, code=1)
    assert "Traceback" not in said
    assert "mini.total" in said.strip().splitlines()[-1]
    assert left(course.root) == set()
    course.environment["PYTHONPATH"] = good
    course("autograde", MINI)
    assert course.grades(MINI)["ada"].score == 6
    course.environment["PYTHONPATH"] = str(broken / "site")
    shutil.rmtree(course.root / "grading" / "references")  # the lesson lies where no change is looked for
    before = left(course.root)
    course("autograde", MINI, "--force", code=1)
    assert left(course.root) == before
    assert course.grades(MINI)["ada"].score == 6


def converter(root: Path, asked: bool) -> Autograde:
    config = Config()
    if asked:
        hooks.grade_with_ampcourse(config)
    directory = CourseDirectory(config=config, root=str(root), assignment_id="ps1")
    return Autograde(coursedir=directory, config=config)


def test_a_course_that_does_not_ask_is_graded_by_nbgrader_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(patches, "autograde", lambda converter: called.append("ours"))
    monkeypatch.setattr(Autograde, "init_notebooks", lambda self: called.append("nbgrader's"))
    monkeypatch.setattr(Autograde, "convert_notebooks", lambda self: None)
    patches.install()
    patches.install()
    converter(tmp_path, asked=False).start()
    converter(tmp_path, asked=True).start()
    assert called == ["nbgrader's", "ours"]


def test_formgrader_gets_the_sentence_in_place_of_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> list[str]:
        raise GradingError("This machine does not isolate: install bubblewrap.")

    monkeypatch.setattr(door, "_grade", refuse)
    config = Config()
    hooks.grade_with_ampcourse(config)
    directory = CourseDirectory(config=config, root=str(tmp_path))
    result = NbGraderAPI(directory, None, config=config).autograde("ps1", "ada")
    assert result["success"] is False
    assert result["error"] == "This machine does not isolate: install bubblewrap."


def test_a_server_with_an_event_loop_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio
    import threading

    async def serve() -> bool:
        return door._outside_the_loop(lambda: threading.current_thread() is threading.main_thread())

    assert door._outside_the_loop(lambda: threading.current_thread() is threading.main_thread())
    assert not asyncio.run(serve())


def test_every_problem_is_a_line_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    made = converter(tmp_path, asked=True)
    monkeypatch.setattr(door, "_grade", lambda _: ["ps1, ada: It is no notebook.", "ps1, bob: It is empty."])
    made.log = SimpleNamespace(error=lambda form, *args: caplog.records.append(form % args))
    with pytest.raises(NbGraderException, match="no notebook"):
        made.start()
    assert caplog.records[-2:] == ["ps1, ada: It is no notebook.", "ps1, bob: It is empty."]
