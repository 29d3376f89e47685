"""Small stand-ins for the data sets that are downloaded, so that no test needs the network."""

from __future__ import annotations

import dataclasses
import gzip
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ampcourse.data import fetching, known
from ampcourse.data.splits import Jpegs, Pictures, Split


def jpeg(height: int, width: int, seed: int = 0) -> bytes:
    """A smooth picture, as real ones are: noise would not survive JPEG."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8))
    file = io.BytesIO()
    coarse.resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue()


def jpegs(files: list[bytes]) -> Jpegs:
    return Jpegs(np.frombuffer(b"".join(files), np.uint8), np.cumsum([len(file) for file in files]))


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMPCOURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "DEBIAN", tmp_path / "no Debian here")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def smaller(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change what is known of a data set, for instance how many pictures it has."""

    def change(name: str, **fields: object) -> None:
        changed = (dataclasses.replace(one, **fields) if one.name == name else one for one in known._SOURCES)
        monkeypatch.setattr(known, "_SOURCES", tuple(changed))

    return change


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return gzip.compress(head + array.astype(np.uint8).tobytes())


@pytest.fixture
def fashion(tmp_path: Path, smaller: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the four files of a tiny Fashion-MNIST, which is then what the course expects."""
    folder, rng = tmp_path / "fashion", np.random.default_rng(5)
    folder.mkdir()
    digests = {}
    for part, prefix, each in (("train", "train", 6), ("test", "t10k", 2)):
        images = rng.integers(0, 256, (10 * each, 28, 28), dtype=np.uint8)
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(idx(rng.permutation(np.repeat(np.arange(10), each))))
        digests[part] = fetching.hashlib.sha256(images).hexdigest()
    smaller("fashion_mnist", train=60, test=20)
    monkeypatch.setattr(fetching, "FASHION", digests)
    return folder


def grey(n: int = 40, side: int = 8, channels: int = 1, seed: int = 0) -> Pictures:
    """Random pictures whose picture `k` has label `k % 10`."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, side, side, channels), dtype=np.uint8)
    split = Split(images, np.arange(n) % 10)
    return Pictures(known.source("cifar10"), split, split, (0.3,) * channels, (0.25,) * channels)


def photos(n: int = 12) -> Pictures:
    """JPEG files of different sizes, wide and tall."""
    files = [jpeg(*((40, 56), (64, 48), (90, 90))[k % 3], seed=k) for k in range(n)]
    split = Split(jpegs(files), np.arange(n) % 10)
    return Pictures(known.source("imagenette"), split, split, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
