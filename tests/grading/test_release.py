"""Making a release: what comes out, and that nothing changes when something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

import ampcourse.grading.release as module
from ampcourse.course import CourseError
from ampcourse.grading.release import ReleaseError, release

SLUG = "07_mini"


def source(root: Path) -> Path:
    return root / "source" / SLUG / f"{SLUG}.ipynb"


def released(root: Path) -> Path:
    return root / "release" / SLUG / f"{SLUG}.ipynb"


def edit(root: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the source notebook; `change` gets its cells by id."""
    notebook = nbformat.read(source(root), as_version=4)
    change({cell.id: cell for cell in notebook.cells})
    nbformat.write(notebook, source(root))


def test_the_release_asks_for_every_answer_and_gives_none_away(mini: Path) -> None:
    assert release(course_root=mini) == [released(mini)]
    notebook = nbformat.read(released(mini), as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert text.count("raise NotImplementedError") == 2
    for secret in ("result_of_doubling", "np.asarray", "Twice is once", "double(21)", "BEGIN", "model answer"):
        assert secret not in text
    assert [cell.id for cell in notebook.cells][:5] == ["title", "parameters", "imports", "double", "double-check"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


def test_the_same_source_gives_the_same_bytes_whatever_its_outputs_and_metadata(mini: Path) -> None:
    before = release(course_root=mini)[0].read_bytes()

    def run(cells: dict[str, Any]) -> None:
        cells["imports"].outputs = [nbformat.v4.new_output("stream", name="stdout", text="a result")]
        cells["imports"].execution_count = 7
        cells["imports"].metadata["jupyter"] = {"outputs_hidden": True}
        cells["imports"].source += "\n"

    edit(mini, run)
    (source(mini).parent / ".ipynb_checkpoints").mkdir()
    (source(mini).parent / ".ipynb_checkpoints" / "x.ipynb").write_text("{}")
    assert release(["mini"], mini)[0].read_bytes() == before
    assert sorted(p.name for p in released(mini).parent.iterdir()) == [f"{SLUG}.ipynb"]


def test_no_gradebook_is_made_and_nothing_else_is_left(mini: Path) -> None:
    before = {path.name for path in mini.iterdir()}
    release(course_root=mini)
    assert {path.name for path in mini.iterdir()} == before | {"release"}


def test_files_beside_the_notebook_are_released_too(mini: Path) -> None:
    (source(mini).parent / "picture.png").write_bytes(b"png")
    release(course_root=mini)
    assert (released(mini).parent / "picture.png").read_bytes() == b"png"


def points(cells: dict[str, Any]) -> None:
    cells["double-check"].metadata.nbgrader.points = 3


def total(cells: dict[str, Any]) -> None:
    cells["own"].metadata.nbgrader.points = 2


def unknown(cells: dict[str, Any]) -> None:
    cells["double-check"].source = 'check("mini.doubel", double)'


def twice(cells: dict[str, Any]) -> None:
    cells["total"].metadata.nbgrader.grade_id = "double"


def awkward(cells: dict[str, Any]) -> None:
    cells["double"].metadata.nbgrader.grade_id = "the double (1)"


def no_parameters(cells: dict[str, Any]) -> None:
    del cells["parameters"].metadata["tags"]


def no_stub(cells: dict[str, Any]) -> None:
    cells["double"].source = "### BEGIN SOLUTION\nx = 1\n### END SOLUTION\ndef double(x):\nreturn x"


def leak(cells: dict[str, Any]) -> None:
    cells["question"].source = "Hint: result_of_doubling = 2 * x\nresult_of_doubling = 2 * x"


def no_end(cells: dict[str, Any]) -> None:
    cells["double"].source = cells["double"].source.replace("### END SOLUTION", "")


def outside(cells: dict[str, Any]) -> None:
    cells["imports"].source += "\n### BEGIN SOLUTION\nanswer = 1\n### END SOLUTION"


def no_points(cells: dict[str, Any]) -> None:
    cells["why"].metadata.nbgrader.points = "two"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (points, "cell 'double-check' gives 3 points, but 'mini.double' is worth 2"),
        (total, "graded cells give 9 points, but course.toml says 8"),
        (unknown, "cell 'double-check' checks something unknown. There is no exercise 'mini.doubel'"),
        (twice, "the grade_id 'double' is there twice"),
        (awkward, "the grade_id 'the double (1)' is awkward"),
        (no_parameters, "no cell tagged 'parameters'"),
        (no_stub, "is an answer without `raise NotImplementedError`"),
        (leak, "gives a solution away: 'result_of_doubling = 2 * x'"),
        (no_end, "nbgrader cannot release '07_mini': RuntimeError: no end solution statement found"),
        (outside, "nbgrader cannot release '07_mini': RuntimeError: Solution region detected in a non-solution cell"),
        (no_points, "its points are 'two'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_and_the_old_release_stays(
    mini: Path, change: Callable[[dict[str, Any]], Any], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = release(course_root=mini)[0].read_bytes()
    edit(mini, change)
    capfd.readouterr()
    with pytest.raises(ReleaseError) as caught:
        release(course_root=mini)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert released(mini).read_bytes() == before
    assert sorted(path.name for path in mini.iterdir()) == ["course.toml", "nbgrader_config.py", "release", "source"]


def keep_interpretations(config: Path) -> None:
    config.write_text(config.read_text("utf-8").replace("hooks.RemoveInterpretation,", ""), "utf-8")


def keep_hidden_tests(config: Path) -> None:
    config.write_text(config.read_text("utf-8").replace("standard.ClearHiddenTests,", ""), "utf-8")


def break_config(config: Path) -> None:
    config.write_text("1 / 0", "utf-8")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (keep_interpretations, "interprets a solution"),
        (keep_hidden_tests, "still holds 'BEGIN HIDDEN TESTS'"),
        (break_config, "cannot be used: ZeroDivisionError"),
        (Path.unlink, "is not there: a course needs it"),
    ],
)
def test_a_course_configuration_that_gives_too_much_away_is_refused(
    mini: Path, change: Callable[[Path], Any], says: str
) -> None:
    change(mini / "nbgrader_config.py")
    with pytest.raises(ReleaseError, match=says):
        release(course_root=mini)
    assert not (mini / "release").exists()


@pytest.mark.parametrize(
    ("name", "says"), [("second.ipynb", "would be released too"), ("a picture (1).png", "has an awkward name")]
)
def test_strange_files_beside_the_source_are_refused(mini: Path, name: str, says: str) -> None:
    (source(mini).parent / name).write_text("{}")
    with pytest.raises(ReleaseError, match=says):
        release(course_root=mini)


def test_sources_that_cannot_be_read_are_named(mini: Path) -> None:
    with pytest.raises(CourseError, match="no lesson '99_none'"):
        release(["99_none"], mini)
    source(mini).write_text('{"cells": [')
    with pytest.raises(ReleaseError, match="is not a valid notebook"):
        release(course_root=mini)
    source(mini).unlink()
    with pytest.raises(ReleaseError, match="releases are made in a clone"):
        release(course_root=mini)


def test_a_failure_while_moving_puts_the_old_release_back(mini: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = release(course_root=mini)[0].read_bytes()
    edit(mini, lambda cells: setattr(cells["title"], "source", "# Another"))
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.parent.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(ReleaseError, match=r"cannot be written .*the old one is as it was"):
        release(course_root=mini)
    monkeypatch.undo()
    assert released(mini).read_bytes() == before
    assert not list(mini.glob(".release-*"))
    assert "Another" in release(course_root=mini)[0].read_text("utf-8")


def test_an_unchanged_release_is_not_written(mini: Path) -> None:
    release(course_root=mini)
    written = released(mini).stat().st_mtime_ns
    release(course_root=mini)
    assert released(mini).stat().st_mtime_ns == written


def test_where_nbgrader_is_missing_a_sentence_says_how_to_install_it(
    mini: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "nbgrader.converters", None)
    with pytest.raises(ReleaseError, match=r"ampcourse\[grading\]"):
        release(course_root=mini)
    assert module.release is release
