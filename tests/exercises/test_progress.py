"""Progress is kept whole, whoever else writes it and whatever is wrong with the file; it never stops a check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ampcourse.exercises import progress
from ampcourse.exercises.model import Criterion, Verdict


def verdict(outcome: str, score: float, full: float = 4.0) -> Verdict:
    return Verdict(outcome, tuple(Criterion(str(i), 1.0, i < score) for i in range(int(full))))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AMPCOURSE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AMPCOURSE_PROFILE", raising=False)
    progress.forget_unstored()
    return tmp_path / "home"


def test_nothing_yet(home: Path) -> None:
    assert progress.load() == {}
    assert progress.hints_shown("demo.x") == 0
    assert not home.exists(), "reading makes nothing"


def test_best_score_outcome_attempts_and_first_full_mark(home: Path) -> None:
    progress.store_verdict("demo.x", verdict("wrong", 2))
    assert progress.load()["demo.x"]["first_full"] is None
    progress.store_verdict("demo.x", verdict("right", 4))
    first = progress.load()["demo.x"]["first_full"]
    progress.store_verdict("demo.x", verdict("raised", 0))
    progress.store_verdict("demo.x", verdict("right", 4))
    entry = progress.load()["demo.x"]
    assert entry == {"score": 4, "max": 4, "outcome": "right", "attempts": 4, "hints": 0, "first_full": first}
    assert first.endswith("+00:00")


def test_an_exercise_that_became_worth_less(home: Path) -> None:
    progress.store_verdict("demo.x", verdict("right", 4, 4))
    progress.store_verdict("demo.x", verdict("wrong", 1, 2))
    entry = progress.load()["demo.x"]
    assert entry["score"] <= entry["max"] == 2


def test_hints_and_verdicts_share_an_entry(home: Path) -> None:
    progress.store_hint("demo.x", 1, 4.0)
    progress.store_verdict("demo.x", verdict("wrong", 1))
    progress.store_hint("demo.x", 2, 4.0)
    assert progress.load()["demo.x"]["hints"] == 2
    assert progress.load()["demo.x"]["attempts"] == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "3",
        '{"exercises": 3}',
        '{"exercises": {"demo.x": 3}}',
        '{"exercises": {"demo.x": {"score": "many"}}}',
        '{"exercises": {"demo.x": {"score": -1}}}',
        '{"exercises": {"demo.x": {"score": NaN}}}',
        '{"exercises": {"demo.x": {"outcome": "<b>"}}}',
        '{"exercises": {"demo.x": {"hints": Infinity}}}',
        '{"exercises": {"demo.x": {"score": Infinity}}}',
        "[" * 100_000,
        "\x00\x01",
    ],
)
def test_a_damaged_file_is_set_aside_not_lost(home: Path, content: str) -> None:
    home.mkdir()
    (home / "progress.json").write_text(content)
    assert progress.load() == {}
    assert (home / "progress.json").read_text() == content, "reading changes nothing"
    progress.store_verdict("demo.x", verdict("wrong", 1))
    assert progress.load()["demo.x"]["score"] == 1
    kept = list(home.glob("progress.damaged-*.json"))
    assert [k.read_text() for k in kept] == [content]


def test_bytes_that_are_no_text_are_set_aside(home: Path) -> None:
    home.mkdir()
    (home / "progress.json").write_bytes(b"\xff\xfe\x80")
    progress.store_verdict("demo.x", verdict("right", 4))
    assert progress.load()["demo.x"]["outcome"] == "right"
    assert len(list(home.glob("progress.damaged-*.json"))) == 1


def test_entries_of_other_lessons_and_unknown_fields_stay(home: Path) -> None:
    home.mkdir()
    other = {"score": 1.0, "max": 2.0, "outcome": "wrong", "attempts": 1, "hints": 0, "first_full": None, "new": [1]}
    (home / "progress.json").write_text(json.dumps({"version": 1, "exercises": {"later.y": other}}))
    progress.store_verdict("demo.x", verdict("right", 4))
    assert progress.load()["later.y"] == other


def _file_in_the_way(home: Path) -> None:
    home.write_text("")


def _folder_in_the_way(home: Path) -> None:
    (home / "progress.json").mkdir(parents=True)


def _read_only(home: Path) -> None:
    home.mkdir()
    home.chmod(0o500)


@pytest.mark.parametrize("spoil", [_file_in_the_way, _folder_in_the_way, _read_only])
def test_what_cannot_be_written_is_silently_not_stored(home: Path, capfd: Any, spoil: Any) -> None:
    if spoil is _read_only and os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    spoil(home)
    progress.store_verdict("demo.x", verdict("right", 4))
    progress.store_hint("demo.x", 1, 4.0)
    assert progress.load() == {}
    assert progress.hints_shown("demo.x") == 1, "at least in this process"
    assert capfd.readouterr() == ("", "")


def test_nothing_is_stored_while_grading(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMPCOURSE_PROFILE", "grade")
    progress.store_verdict("demo.x", verdict("right", 4))
    assert not home.exists()


def test_a_write_that_is_cut_off_leaves_the_old_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress.store_verdict("demo.x", verdict("wrong", 1))

    def full_disk(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dump", full_disk)
    progress.store_verdict("demo.x", verdict("right", 4))
    assert progress.load()["demo.x"]["score"] == 1
    assert sorted(p.name for p in home.iterdir()) == ["progress.json", "progress.lock"], "nothing half-written"


WRITER = """
import sys
from ampcourse.exercises import progress
from ampcourse.exercises.model import Criterion, Verdict
for i in range(40):
    progress.store_verdict(f"demo.{sys.argv[1]}", Verdict("wrong", (Criterion("a", 1.0, False),)))
    progress.store_verdict("demo.shared", Verdict("wrong", (Criterion("a", 1.0, False),)))
"""


def test_kernels_at_the_same_time_lose_nothing(home: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, name], stderr=subprocess.PIPE, text=True) for name in "abc"
    ]
    assert [p.communicate()[1] for p in running] == ["", "", ""]
    entries = progress.load()
    assert {name: e["attempts"] for name, e in entries.items()} == {
        "demo.a": 40,
        "demo.b": 40,
        "demo.c": 40,
        "demo.shared": 120,
    }


def test_without_a_home_it_is_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMPCOURSE_HOME")
    assert progress.folder().name == "ampcourse"
    assert progress.folder().is_absolute()
