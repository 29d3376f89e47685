"""The embedded data: what `load` promises, what it says when the file is not right, and where it came from."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest

from ampcourse import data
from ampcourse.course import UserError

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "data" / "fashion_mnist.npz"


@pytest.fixture(scope="module")
def raw() -> dict[str, np.ndarray]:
    with np.load(FILE) as arrays:
        return dict(arrays)


def test_shapes_and_dtypes_are_as_documented() -> None:
    (x_train, y_train), (x_test, y_test) = data.load()
    assert (x_train.shape, x_test.shape) == ((10000, 28, 28, 1), (2000, 28, 28, 1))
    assert (y_train.shape, y_test.shape) == ((10000,), (2000,))
    assert {x_train.dtype, x_test.dtype} == {np.dtype("float32")}
    assert {y_train.dtype, y_test.dtype} == {np.dtype("int64")}


def test_every_class_is_equally_frequent_and_named() -> None:
    (_, y_train), (_, y_test) = data.load()
    assert np.bincount(y_train).tolist() == [1000] * len(data.CLASS_NAMES)
    assert np.bincount(y_test).tolist() == [200] * len(data.CLASS_NAMES)


def test_normalised_pictures_have_mean_zero_and_deviation_one() -> None:
    (x, _), _ = data.load()
    assert abs(x.mean(dtype=np.float64)) < 1e-5
    assert abs(x.std(dtype=np.float64) - 1) < 1e-5
    assert (round(float(x.min()), 2), round(float(x.max()), 2)) == (-0.81, 2.02)


def test_grey_values_run_from_zero_to_one(raw: dict[str, np.ndarray]) -> None:
    (x, _), (x_test, _) = data.load(normalise=False)
    np.testing.assert_array_equal(np.rint(x[..., 0] * 255), raw["x_train"])
    np.testing.assert_array_equal(np.rint(x_test[..., 0] * 255), raw["x_test"])
    assert (x.min(), x.max()) == (0, 1)


def test_constants_are_those_of_the_training_part(raw: dict[str, np.ndarray]) -> None:
    grey = raw["x_train"] / 255
    assert abs(grey.mean() - data.MEAN) < 1e-6
    assert abs(grey.std() - data.STD) < 1e-6


def test_no_picture_is_in_both_parts_or_twice(raw: dict[str, np.ndarray]) -> None:
    train, test = ({picture.tobytes() for picture in raw[f"x_{part}"]} for part in ("train", "test"))
    assert len(train) == 10000
    assert not train & test
    assert len(set(raw["index_train"])) == 10000
    assert len(set(raw["index_test"])) == 2000


def test_a_caller_who_changes_the_arrays_does_not_change_the_next_callers() -> None:
    (x, _), _ = data.load()
    x[:] = 0
    (again, _), _ = data.load()
    assert again.any()


def test_checksum_file_and_code_agree_with_the_file() -> None:
    digest = hashlib.sha256(FILE.read_bytes()).hexdigest()
    assert digest == data.SHA256
    assert (FILE.parent / "SHA256SUMS").read_text("utf-8") == f"{digest}  {FILE.name}\n"


def _damage_one_byte(path: Path) -> None:
    content = bytearray(FILE.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: None, "missing"),
        (lambda path: path.write_bytes(FILE.read_bytes()[:-100]), "damaged"),
        (lambda path: path.write_bytes(b""), "damaged"),
        (_damage_one_byte, "damaged"),
        (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1"), "damaged"),
        (lambda path: path.mkdir(), "cannot be read"),
    ],
)
def test_a_missing_or_damaged_file_gives_one_sentence(tmp_path: Path, spoil, says: str) -> None:
    path = tmp_path / data.FILE_NAME
    spoil(path)
    with pytest.raises(data.DataError, match=says) as caught:
        data.load(folder=tmp_path)
    sentence = str(caught.value)
    assert isinstance(caught.value, UserError)
    assert str(path) in sentence
    assert "\n" not in sentence


@pytest.fixture
def make_data(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.delitem(sys.modules, "make_data", raising=False)
    import make_data

    return make_data


def _idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def test_the_same_files_give_the_same_balanced_arrays(make_data) -> None:
    rng = np.random.default_rng(0)
    files = {}
    for prefix, each in (("train", 1200), ("t10k", 250)):
        labels = rng.permutation(np.repeat(np.arange(10), each))
        files[f"{prefix}-labels-idx1-ubyte"] = _idx(labels)
        files[f"{prefix}-images-idx3-ubyte"] = _idx(rng.integers(0, 256, (10 * each, 2, 2)))
    one, two = make_data.make(files), make_data.make(files)
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name])
    assert np.bincount(one["y_train"]).tolist() == [1000] * 10
    originals = make_data.read_idx(files["t10k-images-idx3-ubyte"])
    np.testing.assert_array_equal(one["x_test"], originals[one["index_test"]])


def test_another_package_is_refused(make_data, tmp_path: Path) -> None:
    package = tmp_path / "other.deb"
    package.write_bytes(b"!<arch>\n")
    with pytest.raises(SystemExit, match="not the package that the data came from"):
        make_data.read_package(package)
    with pytest.raises(SystemExit, match="cannot be read"):
        make_data.read_package(tmp_path / "none.deb")
