"""A student's folder is read without following, opening or copying what it must not; everything left out is said."""

from __future__ import annotations

import os
import socket
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from ampcourse.grading.document import read_submission
from ampcourse.grading.document.folder import FILES
from ampcourse.grading.model import Submission
from ampcourse.grading.settings import Settings

SMALL = Settings(notebook_mib=1, disk_mib=4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "kurs für alle" / "submitted" / "ada" / "p1"
    made.mkdir(parents=True)
    return made


def read(folder: Path, notebook: str = "p1", **more: object) -> Submission:
    return read_submission(folder, "ada", notebook, SMALL, **more)


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_notebook_and_other_files(folder: Path) -> None:
    (folder / "p1.ipynb").write_bytes(b"\xff\xfe whatever")
    (folder / "data").mkdir()
    (folder / "data" / "größe.csv").write_bytes(b"1")
    (folder / "helper.py").write_bytes(b"x = 1")
    expected = {"data/größe.csv": b"1", "helper.py": b"x = 1"}
    assert read(folder) == Submission("ada", b"\xff\xfe whatever", expected)


def test_what_nobody_handed_in_is_left_out_in_silence(folder: Path) -> None:
    (folder / "p1.ipynb").write_bytes(b"{}")
    for name in (".ipynb_checkpoints", "__pycache__", "__MACOSX", ".git"):
        (folder / name).mkdir()
        (folder / name / "p1.ipynb").write_bytes(b"old")
        (folder / name / "x").write_bytes(b"old")
    for name in (".DS_Store", "._p1.ipynb", "timestamp.txt", "submission_secret.txt"):
        (folder / name).write_bytes(b"x")
    assert read(folder) == Submission("ada", b"{}")


@pytest.mark.parametrize("where", ["folder", "student", "nothing"])
def test_nothing_handed_in(folder: Path, where: str) -> None:
    place = {"folder": folder.parent / "p2", "student": folder.parent.parent / "eve" / "p1", "nothing": folder}[where]
    assert read(place) == Submission("ada", None)


def test_a_large_sparse_file_is_neither_read_nor_copied(folder: Path) -> None:
    (folder / "p1.ipynb").write_bytes(b"{}")
    sparse(folder / "data.bin", 2 << 30)
    found = read(folder)
    assert found.files == {} and found.notebook == b"{}"
    assert found.remarks == ("'data.bin' was left out: it has 2.0 GiB, and at most 1.0 MiB are taken.",)


def test_a_large_notebook_is_refused(folder: Path) -> None:
    sparse(folder / "p1.ipynb", (1 << 20) + 1)
    found = read(folder)
    assert found.notebook is None
    assert found.refused.startswith("'p1.ipynb' has 1.0 MiB, and at most 1.0 MiB are taken.")
    sparse(folder / "p1.ipynb", 1 << 20)
    assert read(folder).notebook == bytes(1 << 20)


def test_all_files_together_are_limited(folder: Path) -> None:
    for number in range(4):
        sparse(folder / f"{number}.bin", 900_000)
    found = read(folder)
    assert list(found.files) == ["0.bin", "1.bin"]
    assert found.remarks[0] == "'2.bin' was left out: it and the others are larger than 2.0 MiB in all."


def test_the_number_of_files_is_limited_and_the_remarks_too(folder: Path) -> None:
    (folder / "zz.ipynb").write_bytes(b"{}")
    for number in range(FILES + 50):
        (folder / f"{number:04}.txt").write_bytes(b"")
    found = read(folder, "zz")
    assert len(found.files) == FILES and found.notebook == b"{}"
    assert len(found.remarks) == 11 and found.remarks[-1] == "40 more files were left out."


def test_very_many_files_end(folder: Path) -> None:
    for number in range(5_100):
        (folder / f"{number}").write_bytes(b"")
    assert any("more than 5,000 files" in remark for remark in read(folder).remarks)


def test_very_deep_folders_end(folder: Path) -> None:
    deep = folder
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    assert "it lies too deep" in read(folder).remarks[0]


@pytest.mark.parametrize("target", ["/etc/passwd", "/dev/zero", "/nowhere", "p1.ipynb", "../../eve/p1/p1.ipynb"])
def test_links_are_not_followed(folder: Path, target: str) -> None:
    eve = folder.parent.parent / "eve" / "p1"
    eve.mkdir(parents=True)
    (eve / "p1.ipynb").write_bytes(b"of eve")
    (folder / "p1.ipynb").symlink_to(target)
    (folder / "also").symlink_to(eve)
    found = read(folder)
    assert found.notebook is None and found.files == {}
    assert found.refused.startswith("'p1.ipynb' is a link, and links are not followed.")
    assert found.remarks == ("'also' was left out: it is a link, and links are not followed.",)


@pytest.mark.parametrize("which", ["assignment", "student"])
def test_folders_that_are_links_are_refused(folder: Path, which: str) -> None:
    (folder / "p1.ipynb").write_bytes(b"of ada")
    eve = folder.parent.parent / "eve"
    if which == "student":
        eve.symlink_to("ada")
    else:
        eve.mkdir()
        (eve / "p1").symlink_to("../ada/p1")
    found = read(eve / "p1")
    assert found.notebook is None and "it is a link, and links are not followed" in found.refused


def test_pipes_sockets_and_devices_are_not_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "p1.ipynb")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(folder)  # a socket's path must be short
        listening.bind("socket")
        found = read(folder)
    assert found.refused.startswith("'p1.ipynb' is no regular file.")
    assert len(found.remarks) == 2 and all("it is no regular file" in remark for remark in found.remarks)


def test_a_folder_called_like_the_notebook(folder: Path) -> None:
    (folder / "p1.ipynb").mkdir()
    assert read(folder).refused.startswith("'p1.ipynb' is a folder, not a file.")


RENAMED = ["p1 (1).ipynb", "p1-1.ipynb", "P1.IPYNB", "p1-Copy2.ipynb", "p1.ipynb.txt", "my work.ipynb", "sub/p1.ipynb"]


@pytest.mark.parametrize("name", RENAMED)
def test_a_renamed_notebook_is_taken_if_it_is_the_only_one(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"{}")
    found = read(folder)
    assert found.notebook == b"{}" and not found.refused
    assert found.remarks == (f"The notebook is called '{name}' instead of 'p1.ipynb'.",)


@pytest.mark.parametrize("name", RENAMED)
def test_the_very_name_wins(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"other")
    (folder / "p1.ipynb").write_bytes(b"{}")
    assert read(folder) == Submission("ada", b"{}")


def test_the_nearer_name_wins(folder: Path) -> None:
    (folder / "scratch.ipynb").write_bytes(b"other")
    (folder / "p1 (2).ipynb").write_bytes(b"{}")
    assert read(folder).notebook == b"{}"


def test_two_candidates_are_refused_with_their_names(folder: Path) -> None:
    (folder / "p1 (1).ipynb").write_bytes(b"{}")
    (folder / "p1 (2).ipynb").write_bytes(b"{}")
    found = read(folder)
    assert found.notebook is None
    assert found.refused == (
        "It is not clear which notebook is meant: 'p1 (1).ipynb', 'p1 (2).ipynb'. Hand in one, called 'p1.ipynb'."
    )


def test_the_assignments_other_notebooks_are_never_taken(folder: Path) -> None:
    (folder / "p2.ipynb").write_bytes(b"{}")
    (folder / "p2 (1).ipynb").write_bytes(b"{}")
    assert read(folder, others=["p2"]) == Submission("ada", None)
    assert read(folder, "p2", others=["p1"]).notebook == b"{}"


def test_names_of_other_systems(folder: Path) -> None:
    name = unicodedata.normalize("NFD", "größe.ipynb")
    (folder / name).write_bytes(b"{}")
    assert read(folder, "größe") == Submission("ada", b"{}")


def test_names_that_cannot_be_shown(folder: Path) -> None:
    (folder / "p1.ipynb").write_bytes(b"{}")
    for name in (b"a\nb", b"\xff\xfe", "\u202egnp.exe".encode()):
        (folder / os.fsdecode(name)).write_bytes(b"")
    (folder / os.fsdecode(b"d\x1b[31m")).mkdir()
    (folder / os.fsdecode(b"d\x1b[31m") / "x").write_bytes(b"")
    found = read(folder)
    assert found.files == {} and len(found.remarks) == 4
    assert all(remark.isprintable() for remark in found.remarks)
    "".join(found.remarks).encode()


@pytest.fixture
def ordinary_user(folder: Path) -> Iterator[None]:
    """Nobody's rights, for root would read everything; every folder above may be passed."""
    if os.geteuid():
        yield
        return
    for place in (folder, *folder.parents):
        if place.stat().st_uid == 0 and place != Path("/tmp") and place != Path("/"):
            place.chmod(0o777)
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.mark.usefixtures("ordinary_user")
def test_what_cannot_be_read(folder: Path) -> None:
    (folder / "p1.ipynb").write_bytes(b"{}")
    (folder / "p1.ipynb").chmod(0)
    assert read(folder).refused.startswith("'p1.ipynb' cannot be read: permission denied.")
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    inner.chmod(0)
    assert read(folder).remarks == ("'a/b' was left out: it cannot be read: permission denied.",)
    inner.chmod(0o700)
    for closed in (folder / "a", inner):
        closed.chmod(0)
        assert read(inner).refused.endswith("cannot be read: permission denied.")
        closed.chmod(0o700)


def test_a_file_in_the_folders_place(folder: Path) -> None:
    folder.rmdir()
    folder.write_bytes(b"{}")
    assert read(folder).refused == "The student's folder 'p1' cannot be read: not a directory."
