"""Output folders that cannot be used: one sentence before the start, nothing half-written, nobody's files touched."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest

from ampcourse.reproduce import files
from ampcourse.reproduce.files import OutputError

ROOT = os.geteuid() == 0


@pytest.fixture
def course(tiny, tmp_path):
    return tiny.make_course(tmp_path / "course", {"00_a": ["raise SystemExit('it was run')"]})


def refusal(tiny, course, out):
    with pytest.raises(OutputError) as caught:
        tiny.run(course, out)
    sentence = str(caught.value)
    assert sentence.count("\n") == 0
    assert sentence.endswith(".")
    return sentence


@pytest.fixture
def mounted(tmp_path):
    """A small disk of its own; `mounted(options)` gives its folder."""
    folders = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"disk{len(folders)}"
        folder.mkdir()
        tried = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
        )
        if tried.returncode:
            pytest.skip(f"mounting is not allowed here: {tried.stderr.strip()}")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_file_where_the_folder_should_be(tiny, course, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    assert "is a file, not a folder: name another output folder." in refusal(tiny, course, taken)
    assert "lies under a file" in refusal(tiny, course, taken / "below")
    assert taken.read_text() == "mine"


def test_a_folder_with_other_files_is_not_touched(tiny, course, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "index.html").write_text("mine")
    assert "holds other files and no earlier run" in refusal(tiny, course, tmp_path / "thesis")
    assert [one.name for one in (tmp_path / "thesis").iterdir()] == ["index.html"]


def test_a_read_only_folder(tiny, course, tmp_path, mounted):
    if ROOT:
        folder = mounted("size=1m,ro")
    else:
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o500)
    assert "is read-only: name another output folder." in refusal(tiny, course, folder)
    assert "is read-only: name another output folder." in refusal(tiny, course, folder / "below")


def test_a_nearly_full_disk_is_known_before_the_start(tiny, course, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: usage(10**9, 10**9, 3 * 2**20))
    assert "has only 3 MB free and a run needs 20" in refusal(tiny, course, tmp_path / "out")


def test_a_full_disk_is_known_before_the_start(tiny, course, mounted):
    disk = mounted("size=1m")
    (disk / "executed").mkdir()
    (disk / "logs").mkdir()
    with (disk / "logs" / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    assert "The disk is full" in refusal(tiny, course, disk)


def test_a_disk_that_fills_up_during_the_run_is_said_and_the_other_notebooks_still_run(tiny, tmp_path, mounted):
    disk, ran = mounted("size=24m"), tmp_path / "ran"
    fill = f"with open(r'{disk}/filler', 'wb', buffering=0) as file:\n    while True:\n        file.write(bytes(4096))"
    tried = f"try:\n    {fill.replace(chr(10), chr(10) + '    ')}\nexcept OSError as error:\n    print(error)"
    course = tiny.make_course(
        tmp_path / "course", {"00_fills": [tried], "01_after": [f"open(r'{ran}', 'w').write('yes')"]}
    )
    report, printed = tiny.run(course, disk / "out", jobs=1)
    assert report.exit_code == 1
    assert ran.read_text() == "yes"
    for one in report.notebooks:
        assert one.status == "failed"
        assert "The disk is full" in one.reason
    assert any("The disk is full" in problem for problem in report.problems)
    assert "Traceback" not in printed
    # What is there is whole and claims nothing, and there are no scraps.
    kept = json.loads((disk / "out" / "results.json").read_text())
    assert {one["status"] for one in kept["notebooks"]} <= {"skipped", "failed"}
    assert list((disk / "out").rglob("*.tmp")) == []
    assert list((disk / "out").rglob("*.ipynb")) == []


def test_a_folder_in_a_notebooks_place_is_said_and_the_others_still_run(tiny, tmp_path):
    course, out = tiny.make_course(tmp_path / "course", {"00_a": ["a = 1"], "01_b": ["b = 1"]}), tmp_path / "out"
    (out / "executed" / "00_a.ipynb").mkdir(parents=True)
    report, _ = tiny.run(course, out)
    assert [row.status for row in report.notebooks] == ["failed", "ok"]
    assert "00_a.ipynb' cannot be written (Is a directory)" in report.notebooks[0].reason


def test_a_failed_write_leaves_what_was_there_and_no_scraps(tmp_path, monkeypatch):
    target = tmp_path / "results.json"
    files.write(target, "before")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.Path, "replace", full)
    with pytest.raises(OutputError, match="The disk is full, so '.*results.json' could not be written"):
        files.write(target, "after")
    assert target.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["results.json"]


def test_two_runs_never_share_a_folder(tiny, course, tmp_path):
    out = tmp_path / "out"
    files.prepare(out)
    with files.claimed(out):
        assert "Another run is writing to" in refusal(tiny, course, out)
    with files.claimed(out):
        pass


def test_a_missing_folder_is_made_with_its_parents(tmp_path):
    files.prepare(tmp_path / "a" / "b c" / "é")
    assert (tmp_path / "a" / "b c" / "é" / "executed").is_dir()
