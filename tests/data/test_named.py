"""Data sets by name: what is known of them, how they are kept, and a sentence for whatever goes wrong."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ampcourse import data
from ampcourse.data import cache as kept
from ampcourse.data import fetching, known
from ampcourse.data.splits import Split

from .conftest import jpeg

DOWNLOADED = ("fashion_mnist", "cifar10", "eurosat", "imagenette")


def parts(shape: tuple[int, int, int] = (32, 32, 3)) -> tuple[Split, Split]:
    rng = np.random.default_rng(1)
    return tuple(Split(rng.integers(0, 256, (n, *shape), dtype=np.uint8), np.arange(n) % 10) for n in (30, 10))


@pytest.fixture
def cifar(smaller: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> tuple[Split, Split]:
    """A CIFAR-10 of 40 pictures that keras.datasets gives without the network."""
    import keras

    smaller("cifar10", train=30, test=10)
    train, test = parts()
    pairs = [(split.images, split.labels[:, np.newaxis].astype(np.uint8)) for split in (train, test)]
    monkeypatch.setattr(keras.datasets.cifar10, "load_data", lambda: tuple(pairs))
    return train, test


def sentence(*args, **asked) -> str:
    """What the one-sentence error of `pictures` says."""
    with pytest.raises(data.DataError) as caught:
        data.pictures(*args, **asked)
    text = str(caught.value)
    assert "\n" not in text and text[-1] in ".?"
    return text


def test_every_source_says_what_one_wants_to_know_before_a_download() -> None:
    assert tuple(data.sources()) == ("fashion_mnist_subset", *DOWNLOADED)
    for name, source in data.sources().items():
        assert source.name == name
        assert len(source.classes) == len(set(source.classes)) == 10
        assert (source.megabytes == 0) == (name == "fashion_mnist_subset")
        assert source.licence and source.how and source.title
        assert source.disk >= 2 * source.megabytes


def test_the_embedded_pictures_are_those_of_load() -> None:
    pictures = data.pictures()
    (x, y), (x_test, y_test) = data.load()
    batch = next(iter(data.batches(pictures.train, 100, pictures=pictures)))
    np.testing.assert_allclose(batch[0], x[:100], atol=1e-6)
    np.testing.assert_array_equal(pictures.train.labels, y)
    np.testing.assert_array_equal(pictures.test.labels, y_test)
    assert (pictures.train.images.dtype, pictures.test.images.shape) == (np.uint8, x_test.shape)
    assert pictures.classes == data.CLASS_NAMES


@pytest.mark.parametrize("limit", [1, 10, 55, 5000, 9999])
def test_a_limit_takes_equally_many_of_each_class(limit: int) -> None:
    whole, some = data.pictures(), data.pictures(limit=limit)
    counts = np.bincount(some.train.labels, minlength=10)
    assert len(some.train) == len(some.train.images) == limit == counts.sum()
    assert counts.max() - counts.min() <= 1
    assert len(some.test) == len(whole.test)
    assert (some.mean, some.std) == (whole.mean, whole.std)


@pytest.mark.parametrize("limit", [10000, 10**9])
def test_a_limit_above_what_there_is_takes_all(limit: int) -> None:
    assert len(data.pictures(limit=limit).train) == 10000


@pytest.mark.parametrize("limit", [0, -5, 2.5, "all", True])
def test_a_limit_that_makes_no_sense_gets_one_sentence(limit) -> None:
    assert "limit is" in sentence(limit=limit)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("cifar", "cifar10"), ("CIFAR-10", "cifar10"), ("imagenete", "imagenette"), ("Fashion MNIST", "fashion_mnist")],
)
def test_an_unknown_name_gets_the_one_that_was_meant(name: str, meant: str) -> None:
    assert sentence(name) == f"No data set is called '{name}': did you mean '{meant}'?"


@pytest.mark.parametrize("name", ["", "xyz", "../../etc", 3, None])
def test_a_name_that_is_like_none_gets_them_all(name) -> None:
    assert all(known_name in sentence(name) for known_name in data.sources())


@pytest.mark.parametrize("name", DOWNLOADED)
def test_without_leave_nothing_is_fetched_and_the_offer_is_made(name: str, cache: Path) -> None:
    source, says = data.sources()[name], sentence(name)
    for part in (source.title, f"{source.megabytes} MB", source.licence, "download=True", "--download"):
        assert part in says
    assert not cache.exists()


def test_size_and_licence_are_shown_before_the_download(cifar, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(work: Path) -> None:
        assert "170 MB" in (out := capsys.readouterr().out) and "licence: none stated" in out
        raise KeyboardInterrupt

    monkeypatch.setitem(fetching._FETCHERS, "cifar10", shown)
    with pytest.raises(KeyboardInterrupt):
        data.pictures("cifar10", download=True)


def test_what_was_fetched_is_kept_and_needs_no_leave_again(cifar, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = data.pictures("cifar10", download=True)
    monkeypatch.setitem(fetching._FETCHERS, "cifar10", None)
    again = data.pictures("cifar10")
    for pictures in (fetched, again):
        for split, expected in zip((pictures.train, pictures.test), cifar, strict=True):
            np.testing.assert_array_equal(split.images, expected.images)
            np.testing.assert_array_equal(split.labels, expected.labels)
            assert split.labels.dtype == np.int64
    assert [path.name for path in cache.iterdir()] == ["cifar10"]
    assert again.mean == pytest.approx((cifar[0].images / 255).mean((0, 1, 2)))
    assert again.std == pytest.approx((cifar[0].images / 255).std((0, 1, 2)))


def test_jpeg_files_are_kept_as_they_are(cache: Path) -> None:
    files = [jpeg(20 + k, 30, k) for k in range(5)]
    splits = [Split(files, np.arange(5)), Split(files[:2], np.arange(2))]
    kept.write(known.source("imagenette"), cache, *splits)
    pictures = data.pictures("imagenette")
    assert [bytes(file) for file in pictures.train.images] == files
    assert [bytes(file) for file in pictures.test.images] == files[:2]
    assert list(pictures.train.only(np.array([3, 0])).images) == [files[3], files[0]]
    assert list(pictures.train.images[1:3]) == files[1:3]
    assert (len(pictures.limited(3).train.images), pictures.mean) == (3, known.source("imagenette").mean)


@pytest.mark.parametrize("where", ["argument", "variable", "default"])
def test_the_folder_can_be_named(cifar, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine"
    monkeypatch.delenv("AMPCOURSE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(mine if where == "default" else tmp_path / "other"))
    if where == "variable":
        monkeypatch.setenv("AMPCOURSE_CACHE", str(mine))
    data.pictures("cifar10", download=True, cache=mine if where == "argument" else None)
    assert list(mine.rglob("about.json"))


def _flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("file", ["train_images.npy", "train_labels.npy", "test_images.npy", "test_labels.npy"])
@pytest.mark.parametrize(
    "spoil",
    [_flip_a_byte, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1]), lambda p: p.write_bytes(b"")],
)
def test_a_damaged_copy_is_noticed(cifar, cache: Path, file: str, spoil) -> None:
    data.pictures("cifar10", download=True)
    spoil(cache / "cifar10" / file)
    says = f"The copy in '{cache / 'cifar10'}' is damaged: delete that folder, and fetch CIFAR-10 again."
    assert sentence("cifar10") == sentence("cifar10", download=True) == says


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"layout": 1, "sha256": [], "mean": 3}', "null"])
def test_a_copy_that_does_not_say_what_it_is_is_damaged(cache: Path, text: str) -> None:
    (cache / "cifar10").mkdir(parents=True)
    (cache / "cifar10" / "about.json").write_text(text)
    assert "is damaged" in sentence("cifar10")


def test_a_copy_of_another_version_is_not_misread(cifar, cache: Path) -> None:
    data.pictures("cifar10", download=True)
    about = cache / "cifar10" / "about.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"layout": 0}))
    assert "another version" in sentence("cifar10")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), MemoryError()])
def test_an_interruption_leaves_nothing(cifar, cache: Path, error, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise error

    monkeypatch.setattr(kept, "_moments", interrupted)  # when most is written
    with pytest.raises((type(error), data.DataError)):
        data.pictures("cifar10", download=True)
    assert list(cache.iterdir()) == []
    monkeypatch.undo()


def test_what_a_killed_process_left_is_removed_and_what_a_running_one_makes_is_not(cifar, cache: Path) -> None:
    cache.mkdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, busy = (cache / f"{kept._mark('cifar10')}{pid}.abc" for pid in (dead.pid, os.getpid()))
    for folder in (left, busy):
        folder.mkdir()
        (folder / "train_images.npy").write_bytes(b"half")
    data.pictures("cifar10", download=True)
    assert not left.exists()
    assert busy.exists()


def test_whoever_comes_second_keeps_what_the_first_has_written(cifar, cache: Path) -> None:
    source = data.sources()["cifar10"]
    kept.write(source, cache, *cifar)
    first = (cache / "cifar10" / "about.json").stat().st_ino
    kept.write(source, cache, *cifar)
    assert (cache / "cifar10" / "about.json").stat().st_ino == first
    assert [path.name for path in cache.iterdir()] == ["cifar10"]


def test_a_disk_without_room_is_told_before_anything_is_fetched(cifar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 5 * 10**6}))
    monkeypatch.setitem(fetching._FETCHERS, "cifar10", None)
    says = sentence("cifar10", download=True)
    assert "is full (fetching CIFAR-10 takes 800 MB for a while, and there are 5)" in says
    assert "AMPCOURSE_CACHE" in says


def test_a_disk_that_fills_up_is_told_and_leaves_nothing(cifar, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept.np, "save", full)
    assert "is full" in sentence("cifar10", download=True)
    assert list(cache.iterdir()) == []


def test_a_cache_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    says = sentence("cifar10", download=True, cache=tmp_path / "file")
    assert f"'{tmp_path / 'file'}' cannot be made (File exists)" in says


def test_a_cache_that_may_not_be_written_is_told(cifar, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object, **named: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(kept.tempfile, "mkdtemp", refused)
    assert "cannot be written: name another folder in AMPCOURSE_CACHE" in sentence("cifar10", download=True)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"train": 31}, "30 pictures for train instead of 31"),
        ({"shape": (28, 28, 3)}, "pictures of shape (32, 32, 3) instead of (28, 28, 3)"),
        ({"classes": ("one", "two")}, "labels of other classes"),
    ],
)
def test_a_download_that_is_not_what_is_known_is_refused(cifar, smaller, cache: Path, wrong: dict, says: str) -> None:
    smaller("cifar10", **wrong)
    text = sentence("cifar10", download=True)
    assert says in text and "is damaged" in text and "~/.keras" in text
    assert list(cache.iterdir()) == []
