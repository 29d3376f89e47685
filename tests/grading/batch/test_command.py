"""`ampcourse grade` as it is typed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import KINDS, LESSON, RIGHT, fill, filled, submit

from ampcourse.cli import main
from ampcourse.grading.batch.display import Display
from ampcourse.grading.model import GRADED, UNREADABLE
from ampcourse.grading.records import Part, Record


def typed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["grade", *arguments], prog_name="ampcourse")
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def test_a_class_with_one_unreadable_notebook_ends_with_1_and_says_whose(
    course: Path, standin: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(course, len(KINDS))
    code, out, err = typed(capsys, LESSON, "--course", str(course), "--jobs", "1")
    assert code == 1 and not err
    last = out.splitlines()[-2:]
    assert last[0].startswith("s0005: unreadable. The file is not a notebook.")
    assert last[1].startswith("ps1: 5 graded, 0 up to date, 1 without a score, in ")
    code, out, err = typed(capsys, LESSON, "--course", str(course))
    assert code == 1 and "6 up to date; to grade them all the same, add --fresh." in out


def test_a_class_without_problems_ends_with_0(
    course: Path, standin: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (course / "nbgrader_config.py").write_text("c = get_config()", "utf-8")
    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    submit(course, "eve", b"no notebook")
    monkeypatch.chdir(course)
    assert typed(capsys, LESSON, "--student", "ada")[0] == 0


def test_json_is_alone_on_stdout(course: Path, standin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made = fill(course, len(KINDS))
    code, out, err = typed(capsys, LESSON, "--course", str(course), "--json", "--jobs", "1")
    told = json.loads(out)
    assert {r["student"]: r["score"] for r in told["results"]} == {s: k.score for s, k in made.items()}
    assert (code, told["graded"], told["problems"]) == (1, 6, 1) and "Grading 6 submissions." in err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "Missing argument 'LESSON'"),
        (["ps1", "--jobs", "0"], 2, "0 is not in the range"),
        (["ps1", "--jobs", "2", "--scheduler", "tcp://x:1"], 2, "--jobs is for this machine"),
        (["ps9", "--course", "{course}"], 1, "there are: ps1"),
        (["ps1", "--course", "{course}/nowhere"], 1, "is not a folder"),
        (["ps1", "--course", "{course}", "--student", "bob"], 1, "'bob' has handed in nothing"),
        (["ps1", "--course", "{course}", "--db", "nonsense"], 1, "URL cannot be read"),
        (["ps1", "--course", "{course}", "--scheduler", "nonsense"], 1, "no scheduler's address"),
        (["ps1", "--course", "{course}", "--exercises", "{course}/nowhere"], 1, "nowhere"),
    ],
)
def test_mistakes_are_one_sentence(
    course: Path, standin: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    got, _, err = typed(capsys, *(a.format(course=course) for a in arguments))
    assert (got, says in err) == (code, True), err
    assert len(err.splitlines()) == (2 if code == 2 else 1)


@pytest.mark.parametrize(
    "content", ["c = get_config(\n", "1 / 0", "raise SystemExit('no')", "c.Autograde.exclude_overwriting = 5"]
)
def test_a_configuration_that_cannot_be_read_is_one_sentence(
    course: Path, standin: Any, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    head = "" if content.startswith("c = ") else "c = get_config()\n"
    (course / "nbgrader_config.py").write_text(head + content, "utf-8")
    submit(course, "ada", nbformat.writes(filled(*RIGHT)).encode())
    code, _, err = typed(capsys, LESSON, "--course", str(course))
    assert code == 1 and "cannot be" in err and len(err.splitlines()) == 1


def _record(student: str, status: str = GRADED, reason: str = "") -> Record:
    return Record(student, LESSON, (Part(LESSON, status, reason),))


def test_where_nobody_watches_there_is_a_line_for_each_problem_and_one_now_and_then() -> None:
    stream = io.StringIO()
    display = Display(stream, every=0)
    display.begin(3, 0)
    display.finished(_record("ada"))
    display.finished(_record("bob\x1b[31m", UNREADABLE, "The file is empty."))
    display.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "Grading 3 submissions."
    assert lines[1].startswith("1 of 3 graded, ") and lines[1].endswith(" left.")
    assert lines[2] == "bob\N{REPLACEMENT CHARACTER}[31m: unreadable. The file is empty."


def test_a_terminal_gets_a_bar_with_pace_and_time_left() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    display = Display(stream)
    display.begin(2, 0)
    display.finished(_record("ada"))
    display._bar.refresh()
    display.close()
    assert "1/2" in stream.getvalue() and "a minute" in stream.getvalue() and "left" in stream.getvalue()


def test_the_trusted_process_imports_no_tensorflow(course: Path, standin: Any, run_python: Callable[..., str]) -> None:
    said = run_python(
        "import sys, ampcourse.commands.grade, ampcourse.grading.batch, ampcourse.grading.batch.cluster, "
        "ampcourse.grading.batch.worker, ampcourse.grading.submission, ampcourse.grading.document\n"
        "print([m for m in ('tensorflow', 'keras', 'jax') if m in sys.modules])"
    )
    assert said == "[]\n"
