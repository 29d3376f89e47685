"""The real downloaders, keras.datasets and tensorflow-datasets, against files on this machine."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import shutil
import sys
import tarfile
import threading
import urllib.error
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ampcourse import data
from ampcourse.data import fetching, known

from .conftest import jpeg
from .test_named import sentence


@pytest.fixture
def keras_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from keras.src.utils import file_utils

    home = tmp_path / "keras home"
    home.mkdir()
    monkeypatch.setattr(file_utils.config, "keras_home", lambda: str(home))
    return home


def served(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Let Keras's own downloader find the files of a folder instead of the network's; returns what it asked for."""
    from keras.src.utils import file_utils

    asked: list[str] = []

    def copy(origin: str, target: str, hook: object) -> None:
        asked.append(origin)
        shutil.copy(folder / origin.rpartition("/")[2], target)

    monkeypatch.setattr(file_utils, "urlretrieve", copy)
    return asked


def test_fashion_mnist_comes_through_keras(fashion: Path, keras_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = served(monkeypatch, fashion)
    pictures = data.pictures("fashion_mnist", download=True)
    assert (pictures.train.images.shape, pictures.test.images.shape) == ((60, 28, 28, 1), (20, 28, 28, 1))
    assert len(asked) == 4
    assert data.pictures("fashion_mnist").mean == known.source("fashion_mnist").mean


def test_a_download_that_broke_off_is_told(fashion: Path, keras_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, fashion)
    file = fashion / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:1000])
    says = sentence("fashion_mnist", download=True)
    assert "is damaged" in says and "delete its copy in ~/.keras/datasets" in says


def test_other_pictures_under_the_same_name_are_refused(fashion: Path, keras_home: Path, monkeypatch) -> None:
    served(monkeypatch, fashion)
    monkeypatch.setattr(fetching, "FASHION", {"train": "0" * 64, "test": "0" * 64})
    assert "other pictures for train" in sentence("fashion_mnist", download=True)


def test_keras_own_checksum_of_cifar10_counts(tmp_path: Path, keras_home: Path, monkeypatch, cache: Path) -> None:
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"something else")
    served(monkeypatch, tmp_path)
    assert "its checksum is another one" in sentence("cifar10", download=True)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("name", ["fashion_mnist", "cifar10"])
def test_without_a_connection_keras_is_told_in_one_sentence(name: str, keras_home: Path, cache, monkeypatch) -> None:
    from keras.src.utils import file_utils

    def offline(*args: object) -> None:
        raise urllib.error.URLError(OSError(-2, "Name or service not known"))

    monkeypatch.setattr(file_utils, "urlretrieve", offline)
    says = sentence(name, download=True)
    assert "cannot be downloaded, perhaps for want of a connection (Name or service not known)" in says
    assert str(cache / name) in says
    assert list(cache.iterdir()) == []


def test_debians_package_is_used_without_a_download(fashion: Path, cache: Path, monkeypatch) -> None:
    monkeypatch.setattr(fetching, "DEBIAN", fashion)
    pictures = data.pictures("fashion_mnist")
    assert np.bincount(pictures.train.labels).tolist() == [6] * 10
    assert (pictures.train.labels.dtype, pictures.train.images.dtype) == (np.int64, np.uint8)
    assert not cache.exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(file.read_bytes()[:500]),
        lambda file: file.write_bytes(b"no gzip"),
        lambda file: file.unlink(),
        lambda file: file.write_bytes(fetching.gzip.compress(bytes(16 + 28 * 28 * 60))),
        lambda file: file.write_bytes(fetching.gzip.compress(bytes(100))),
    ],
)
def test_damaged_files_of_debian_are_told(fashion: Path, monkeypatch, spoil) -> None:
    monkeypatch.setattr(fetching, "DEBIAN", fashion)
    spoil(fashion / "train-images-idx3-ubyte.gz")
    assert "apt-get install --reinstall dataset-fashion-mnist" in sentence("fashion_mnist")


@pytest.mark.parametrize("absent", ["tensorflow_datasets", "requests"])
@pytest.mark.parametrize("name", ["eurosat", "imagenette"])
def test_without_a_library_the_sentence_says_what_to_install(name: str, absent: str, cache: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    assert "pip install 'ampcourse[datasets]'" in sentence(name, download=True)
    assert list(cache.iterdir()) == []


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A server on this machine with a tiny EuroSAT and a tiny Imagenette, in the form that their authors serve."""
    folder = tmp_path_factory.mktemp("web")
    with zipfile.ZipFile(folder / "EuroSAT.zip", "w") as archive:
        for label, name in enumerate(known.source("eurosat").classes):
            for number in range(10):
                archive.writestr(f"2750/{name}/{name}_{number}.jpg", jpeg(64, 64, 10 * label + number))
    numbers = (1440764, 2102040, 2979186, 3000684, 3028079, 3394916, 3417042, 3425413, 3445777, 3888257)
    with tarfile.open(folder / "imagenette2-320.tgz", "w:gz") as archive:
        for part, count in (("train", 2), ("val", 1)):
            for number in (f"n{number:08}" for number in numbers):
                for k in range(count):
                    entry = tarfile.TarInfo(f"imagenette2-320/{part}/{number}/{number}_{k}.JPEG")
                    content = jpeg(*((320, 400) if k else (350, 320)), seed=k)
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def tfds(web: tuple[Path, str], smaller, monkeypatch: pytest.MonkeyPatch) -> None:
    """tensorflow-datasets downloads from that server, and knows the checksums of what is there."""
    tfds = pytest.importorskip("tensorflow_datasets")
    from tensorflow_datasets.core.download import checksums
    from tensorflow_datasets.datasets.imagenette import imagenette_dataset_builder
    from tensorflow_datasets.image_classification import eurosat

    folder, base = web

    def known_file(name: str) -> dict:
        content = (folder / name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        return {base + name: checksums.UrlInfo(size=len(content), checksum=digest, filename=name)}

    monkeypatch.setattr(eurosat.Eurosat.BUILDER_CONFIGS[0], "download_url", base + "EuroSAT.zip")
    monkeypatch.setattr(eurosat.Eurosat, "url_infos", known_file("EuroSAT.zip"))
    monkeypatch.setattr(imagenette_dataset_builder, "_URL_PREFIX", base)
    monkeypatch.setattr(tfds.builder_cls("imagenette"), "url_infos", known_file("imagenette2-320.tgz"))
    monkeypatch.setattr(fetching, "_HOSTS", dict.fromkeys(fetching._HOSTS, (base,)))
    smaller("eurosat", train=80, test=20)
    smaller("imagenette", train=20, test=10)


def test_eurosat_comes_through_tensorflow_datasets(tfds: None, cache: Path) -> None:
    pictures = data.pictures("eurosat", download=True)
    assert (pictures.train.images.shape, pictures.test.images.shape) == ((80, 64, 64, 3), (20, 64, 64, 3))
    assert np.bincount(pictures.train.labels).tolist() == [8] * 10
    # Labels keep their pictures: file 1 of each class is the first that is trained on, file 0 is tested on.
    from PIL import Image

    for label in range(10):
        for split, number in ((pictures.train, 1), (pictures.test, 0)):
            ours = split.images[np.flatnonzero(split.labels == label)[0]].astype(int)
            with Image.open(io.BytesIO(jpeg(64, 64, 10 * label + number))) as file:
                assert np.abs(ours - np.asarray(file)).max() <= 8
    assert [path.name for path in cache.iterdir()] == ["eurosat"]


def test_imagenette_comes_through_tensorflow_datasets_as_jpeg_files(tfds: None, cache: Path) -> None:
    pictures = data.pictures("imagenette", download=True)
    assert sorted(set(pictures.train.images)) == sorted({jpeg(350, 320, 0), jpeg(320, 400, 1)})
    assert np.bincount(pictures.test.labels).tolist() == [1] * 10
    x, y = next(iter(data.batches(pictures.train, 4, pictures=pictures, train=True)))
    assert (x.shape, y.shape) == ((4, 224, 224, 3), (4,))
    assert [path.name for path in cache.iterdir()] == ["imagenette"]


def test_a_damaged_download_of_tensorflow_datasets_is_told(tfds: None, web, cache: Path, monkeypatch) -> None:
    from tensorflow_datasets.image_classification import eurosat

    (url, info), *_ = eurosat.Eurosat.url_infos.items()
    other = type(info)(size=info.size, checksum="0" * 64, filename=info.filename)
    monkeypatch.setattr(eurosat.Eurosat, "url_infos", {url: other})
    says = sentence("eurosat", download=True)
    assert says == "What was downloaded of EuroSAT-RGB is damaged (its checksum is another one): fetch it again."
    assert list(cache.iterdir()) == []


def test_without_a_connection_tensorflow_datasets_is_not_waited_for(tfds: None, cache: Path, monkeypatch) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _Quiet) as closed:
        nobody = f"http://127.0.0.1:{closed.server_address[1]}/"
    monkeypatch.setattr(fetching, "_HOSTS", dict.fromkeys(fetching._HOSTS, (nobody, nobody)))
    says = sentence("imagenette", download=True)
    assert "cannot be downloaded, perhaps for want of a connection (Connection refused)" in says
    assert list(cache.iterdir()) == []


def test_the_hosts_that_are_asked_are_those_of_tensorflow_datasets() -> None:
    pytest.importorskip("tensorflow_datasets")
    from tensorflow_datasets.datasets.imagenette import imagenette_dataset_builder
    from tensorflow_datasets.image_classification import eurosat

    for name, url in (
        ("eurosat/rgb", eurosat.Eurosat.BUILDER_CONFIGS[0].download_url),
        ("imagenette/320px-v2", imagenette_dataset_builder._URL_PREFIX),
    ):
        assert url.startswith(fetching._HOSTS[name][-1] + "/")
