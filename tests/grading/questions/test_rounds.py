"""Grading rounds: the secret is made once, whoever starts when, and nothing is overwritten when it is lost."""

from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ampcourse.grading.files import write_atomically
from ampcourse.grading.model import GradingError
from ampcourse.grading.rounds import load_round, new_round, rounds

LESSON = "01_fp16_range"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "course é"
    made.mkdir()
    (made / "course.toml").write_text('[course]\ntitle = "Mine"\n', "utf-8")
    return made


def secret(root: Path) -> bytes:
    return (root / "grading" / "secret").read_bytes()


def test_a_round_asks_the_same_until_another_is_opened(root: Path) -> None:
    assert rounds(root, LESSON) == ()
    assert not (root / "grading").exists(), "asking makes nothing"
    first = load_round(root, LESSON)
    assert first == load_round(root, LESSON)
    assert first.number == 1
    second = new_round(root, LESSON)
    assert second.number == 2
    assert load_round(root, LESSON) == second
    assert load_round(root, LESSON, 1) == first
    assert [entry["number"] for entry in rounds(root, LESSON)] == [1, 2]
    with pytest.raises(GradingError, match="no grading round 3"):
        load_round(root, LESSON, 3)


def test_seeds_differ_by_everything_that_they_depend_on(root: Path, tmp_path: Path) -> None:
    one = load_round(root, LESSON)
    seeds = {
        *one.seeds("fp16_range.ulp", 3),
        *one.seeds("fp16_range.decode", 3),
        *new_round(root, LESSON).seeds("fp16_range.ulp", 3),
        *load_round(root, "00_start_here").seeds("fp16_range.ulp", 3),
    }
    other = tmp_path / "other"
    other.mkdir()
    seeds |= set(load_round(other, LESSON).seeds("fp16_range.ulp", 3))
    assert len(seeds) == 15
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert one.seeds("fp16_range.ulp", 3)[:2] == one.seeds("fp16_range.ulp", 2)


def test_another_title_does_not_change_a_round_that_was_opened(root: Path) -> None:
    first = load_round(root, LESSON)
    (root / "course.toml").write_text('[course]\ntitle = "Another"\n', "utf-8")
    assert load_round(root, LESSON) == first


def test_the_secret_is_its_owners_alone_and_stands_nowhere_else(root: Path) -> None:
    made = load_round(root, LESSON)
    assert len(secret(root)) == 32
    assert stat.S_IMODE((root / "grading").stat().st_mode) == 0o700
    for path in (root / "grading").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    listed = (root / "grading" / "rounds.json").read_bytes()
    for hidden in (secret(root), made.key, *(str(s).encode() for s in made.seeds("fp16_range.ulp", 3))):
        assert hidden not in listed
        assert hidden.hex().encode() not in listed
    assert "key" not in repr(made)
    assert pickle.loads(pickle.dumps(made)) == made
    (root / "grading" / "secret").chmod(0o644)
    load_round(root, LESSON)
    assert stat.S_IMODE((root / "grading" / "secret").stat().st_mode) == 0o600


def test_a_lost_or_exchanged_secret_is_one_sentence_and_nothing_is_overwritten(root: Path) -> None:
    load_round(root, LESSON)
    kept, listed = secret(root), (root / "grading" / "rounds.json").read_bytes()
    (root / "grading" / "secret").unlink()
    for attempt in (lambda: load_round(root, LESSON), lambda: new_round(root, "00_start_here")):
        with pytest.raises(GradingError, match="is gone, but rounds are on record"):
            attempt()
    assert not (root / "grading" / "secret").exists()
    (root / "grading" / "secret").write_bytes(b"x" * 32)
    with pytest.raises(GradingError, match="is not the secret that round 1"):
        load_round(root, LESSON)
    (root / "grading" / "secret").write_bytes(b"short")
    with pytest.raises(GradingError, match="has 5 bytes, not 32"):
        load_round(root, LESSON)
    assert (root / "grading" / "rounds.json").read_bytes() == listed
    (root / "grading" / "secret").write_bytes(kept)
    assert load_round(root, LESSON).number == 1


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"lessons": 3}', '{"lessons": {"01_fp16_range": [{"number": 2}]}}', '{"lessons": {"x": [3]}}'],
)
def test_a_damaged_list_of_rounds_is_one_sentence_and_stays(root: Path, text: str) -> None:
    load_round(root, LESSON)
    path = root / "grading" / "rounds.json"
    path.write_text(text, "utf-8")
    for attempt in (load_round, new_round, rounds):
        with pytest.raises(GradingError, match=r"rounds\.json' cannot be used") as caught:
            attempt(root, LESSON)
        assert "\n" not in str(caught.value)
    assert path.read_text("utf-8") == text


def test_a_folder_that_is_not_there_or_in_the_way_is_one_sentence(root: Path) -> None:
    with pytest.raises(GradingError, match="is no folder"):
        load_round(root / "nowhere", LESSON)
    (root / "grading").write_text("in the way", "utf-8")
    with pytest.raises(GradingError, match="cannot be used"):
        load_round(root, LESSON)


def test_processes_that_start_at_the_same_time_agree(root: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from ampcourse.grading.rounds import load_round;"
        "time.sleep(max(0, float(sys.argv[2]) - time.time()));"
        "print(load_round(Path(sys.argv[1]), '01_fp16_range').seeds('fp16_range.ulp', 1))"
    )
    begin = str(time.time() + 1.5)
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(root), begin], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = {process.communicate(timeout=120)[0] for process in running}
    assert len(said) == 1
    assert said.pop().strip()
    assert len(json.loads((root / "grading" / "rounds.json").read_text("utf-8"))["lessons"][LESSON]) == 1


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]
